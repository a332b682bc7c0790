"""One network scores every action: rows of features, a context, and their means."""

import io
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from torch import nn

from sas_agents import (
    SASNPG,
    SASPG,
    SASQ,
    MaskedA2C,
    MaskedPPO,
    MaskedQRDQN,
    MaskedRecurrentPPO,
    MaskedTRPO,
)
from sas_agents.models._mlp import Mlp, MlpTangent
from sas_agents.models._model import TorchTangent
from sas_agents.models._rows import RowLayout, Rows

NUM_SAMPLES, NUM_ACTIONS, NUM_FEATURES, NUM_CONTEXT = 7, 5, 3, 2
agents = pytest.mark.parametrize("agent", [SASPG, SASNPG, SASQ])
stock = pytest.mark.parametrize("agent", [MaskedPPO, MaskedA2C, MaskedTRPO])


class Candidates(gym.Env[Any, Any]):
    """Pick the candidate of the largest worth; all are new at every step.

    Args:
        num_actions: Number of candidates.
        keys: Names of the entries with one row per candidate.
    """

    def __init__(
        self, num_actions: int = 6, keys: tuple[str, ...] = ("action_features",)
    ) -> None:
        self.action_space = spaces.Discrete(num_actions)
        self._keys, self._num_actions = keys, num_actions
        rows = spaces.Box(-np.inf, np.inf, (num_actions, 2), np.float32)
        self.observation_space = spaces.Dict(
            {
                "time": spaces.Box(0, 10, (1,), np.float32),
                "action_mask": spaces.MultiBinary(num_actions),
                **dict.fromkeys(keys, rows),
            }
        )

    def _observation(self) -> dict[str, Any]:
        size = self._num_actions
        self._rows = self.np_random.normal(50, 10, (size, 2)).astype(np.float32)
        mask = self.np_random.random(size) < 0.7
        mask[self.np_random.integers(size)] = True
        return {
            "time": np.array([self._time], np.float32),
            "action_mask": mask.astype(np.int8),
            **dict.fromkeys(self._keys, self._rows),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observation(), {}

    def step(self, action):
        reward = float(self._rows[action, 0] - self._rows[action, 1]) / 10
        self._time += 1
        return self._observation(), reward, self._time == 10, False, {}


def batch(rng, is_shared=False):
    rows = rng.normal(size=(1 if is_shared else NUM_SAMPLES, NUM_ACTIONS, NUM_FEATURES))
    context = rng.normal(size=(NUM_SAMPLES, NUM_CONTEXT))
    return Rows(rows.astype(np.float32), context.astype(np.float32))


def scorer(rng, net_arch, activation, *, pools=False, bias=True):
    size = NUM_FEATURES + NUM_CONTEXT
    model = Mlp(
        size, net_arch, activation, 1, bias, pools=pools, num_context=NUM_CONTEXT
    )
    model.set_theta(rng.normal(size=model.theta.shape).astype(np.float32))
    return model


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("pools", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("net_arch", [[], [4], [6, 4]])
def test_tangent_equals_autograd(net_arch, activation, bias, pools, is_shared):
    rng = np.random.default_rng(0)
    model = scorer(rng, net_arch, activation, pools=pools, bias=bias)
    inputs = batch(rng, is_shared)
    ours, autograd = MlpTangent(model, inputs), TorchTangent(model, inputs)
    rows = rng.normal(size=ours.outputs.shape).astype(np.float32)
    direction = rng.normal(size=model.theta.shape).astype(np.float32)
    assert ours.outputs.shape == (NUM_SAMPLES, 1 if pools else NUM_ACTIONS)
    for one, other in (
        (ours.outputs, autograd.outputs),
        (model.outputs(inputs), autograd.outputs),
        (ours.jvp(direction), autograd.jvp(direction)),
        (ours.vjp(rows), autograd.vjp(rows)),
        (ours.norms(rows)[0], autograd.norms(rows)[0]),
        (ours.squares(rows), autograd.squares(rows)),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_gradient_equals_finite_differences():
    rng = np.random.default_rng(1)
    model, inputs = scorer(rng, [4], nn.Tanh), batch(rng)
    rows = rng.normal(size=(NUM_SAMPLES, NUM_ACTIONS)).astype(np.float32)
    gradient, theta = MlpTangent(model, inputs).vjp(rows), model.theta.copy()
    for i in range(0, len(theta), 3):
        step = np.zeros_like(theta)
        step[i] = 1e-2
        sums = []
        for sign in (1, -1):
            model.set_theta(theta + sign * step)
            sums.append((model.outputs(inputs).astype(float) * rows).sum())
        assert gradient[i] == pytest.approx((sums[0] - sums[1]) / 2e-2, abs=2e-2)


def test_permuted_actions_have_permuted_scores_and_one_value():
    rng = np.random.default_rng(2)
    inputs, order = batch(rng), rng.permutation(NUM_ACTIONS)
    permuted = Rows(inputs.values[:, order], inputs.context)
    actor = scorer(rng, [6, 4], nn.Tanh)
    np.testing.assert_allclose(
        actor.outputs(permuted), actor.outputs(inputs)[:, order], rtol=1e-5
    )
    value = scorer(rng, [6, 4], nn.Tanh, pools=True)
    np.testing.assert_allclose(
        value.outputs(permuted), value.outputs(inputs), rtol=1e-4, atol=1e-5
    )


def test_equal_rows_have_equal_scores():
    rng = np.random.default_rng(3)
    inputs = batch(rng)
    inputs.values[:, 1] = inputs.values[:, 4]
    outputs = scorer(rng, [6], nn.ReLU).outputs(inputs)
    np.testing.assert_array_equal(outputs[:, 1], outputs[:, 4])


def test_chosen_rows_have_the_scores_of_their_actions():
    model = SASQ("MultiInputPolicy", Candidates(), seed=0, learning_starts=50)
    model.learn(200)
    samples = model.replay_buffer.sample(32)
    tensors: Any = samples.observations
    obs = {key: value.numpy() for key, value in tensors.items()}
    actions = samples.actions.numpy()[:, 0]
    encoder = model.policy.encoder
    chosen, weights = encoder.encode_chosen(obs, actions)
    every = model.q_net.outputs(encoder.encode(obs))
    np.testing.assert_allclose(
        (model.q_net.outputs(chosen) * weights).sum(axis=1),
        every[np.arange(32), actions],
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("num_rows", [100, 10_000])
def test_norms_are_of_a_share_where_rows_are_many(num_rows):
    rng = np.random.default_rng(4)
    values = rng.normal(size=(20, num_rows, NUM_FEATURES)).astype(np.float32)
    context = rng.normal(size=(20, NUM_CONTEXT)).astype(np.float32)
    inputs, model = Rows(values, context), scorer(rng, [4], nn.Tanh)
    rows = rng.normal(size=(20, num_rows)).astype(np.float32)
    norms, part = MlpTangent(model, inputs).norms(rows)
    assert len(norms) * num_rows <= 65_536 + num_rows
    gradients = [
        np.linalg.norm(MlpTangent(model, inputs[i : i + 1]).vjp(rows[i : i + 1]))
        for i in range(20)
    ]
    np.testing.assert_allclose(norms, np.array(gradients)[part], rtol=1e-3)


@agents
def test_candidates_that_change_at_every_step_are_learned(agent):
    """The greedy policy takes the best available candidate in nine of ten states."""
    model = agent("MultiInputPolicy", Candidates(), seed=0).learn(8_192)
    env = Candidates()
    obs, _ = env.reset(seed=1)
    hits = 0
    for _ in range(200):
        action, _ = model.predict(obs, deterministic=True)
        assert obs["action_mask"][action]
        rows = obs["action_features"]
        worth = np.where(obs["action_mask"], rows[:, 0] - rows[:, 1], -np.inf)
        hits += worth[action] >= worth.max() - 5
        obs, _, ended, *_ = env.step(action)
        if ended:
            obs, _ = env.reset()
    assert hits >= 180


@agents
def test_rows_of_unavailable_actions_do_not_matter(agent):
    model = agent("MultiInputPolicy", Candidates(), seed=0).learn(2_048)
    obs, _ = Candidates().reset(seed=2)
    other = {key: np.copy(value) for key, value in obs.items()}
    other["action_features"][obs["action_mask"] == 0] = 1e4
    tensors = [
        {key: th.as_tensor(value)[None] for key, value in one.items()}
        for one in (obs, other)
    ]
    policy = model.policy
    network = policy.q_net if agent is SASQ else policy.actor
    outputs = [network(policy.encoder(one))[0] for one in tensors]
    available = obs["action_mask"] == 1
    np.testing.assert_array_equal(*[one.detach().numpy()[available] for one in outputs])


@agents
def test_saved_models_predict_the_same(agent):
    model = agent("MultiInputPolicy", Candidates(), seed=0).learn(2_048)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = agent.load(file)
    env = Candidates()
    obs, _ = env.reset(seed=3)
    for _ in range(20):
        action, _ = model.predict(obs, deterministic=True)
        assert action == loaded.predict(obs, deterministic=True)[0]
        obs, *_ = env.step(action)


@agents
@pytest.mark.parametrize("keys", [("distance",), ("distance", "price")])
def test_other_keys_are_rows_if_they_are_named(agent, keys):
    env = Candidates(keys=keys)
    options = {"action_keys": list(keys)}
    model = agent("MultiInputPolicy", env, policy_kwargs=options, seed=0)
    obs = {key: th.as_tensor(v)[None] for key, v in env.reset(seed=0)[0].items()}
    encoder: Any = model.policy.encoder
    size = encoder(obs)["rows"].shape
    assert size == (1, 6, 2 * len(keys))


@agents
def test_static_features_stand_in_no_observation(agent):
    env = gym.make("sas_gym:SAS/Recommender-v0")
    features = np.random.default_rng(0).normal(size=(100, 4))
    model = agent("MlpPolicy", env, policy_kwargs={"action_features": features}, seed=0)
    model.learn(2_048)
    obs, _ = env.reset(seed=0)
    action, _ = model.predict(obs, deterministic=True)
    assert obs["action_mask"][action]
    assert set(model.observation_space.spaces) == {"observation", "action_mask"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action_keys": ["nothing"]}, r"'nothing'.*\['action_features', 'time'\]"),
        ({"action_keys": ["time"]}, r"one row per action.*\(6, k\)"),
        ({"action_features": np.zeros((5, 2))}, "one row per action, 6 rows"),
        ({"action_features": np.full((6, 2), np.nan)}, "must be finite"),
        ({"activation_fn": nn.ELU}, "activation_fn"),
    ],
)
@agents
def test_wrong_rows_are_named(agent, options, message):
    with pytest.raises(ValueError, match=message):
        agent("MultiInputPolicy", Candidates(), policy_kwargs=options)


def test_layout_joins_rows_of_keys_and_static_ones():
    static = np.arange(4, dtype=np.float32).reshape(2, 2)
    layout = RowLayout(("a", "b"), (1, 2), static)
    obs = {"a": np.array([[5, 6]]), "b": np.arange(4).reshape(1, 2, 2)}
    expected = [[[5, 0, 1, 0, 1], [6, 2, 3, 2, 3]]]
    np.testing.assert_array_equal(layout.rows(obs), expected)
    assert layout.num_features == 5


@stock
@pytest.mark.parametrize("is_shared", [True, False])
def test_stock_agents_score_rows(agent, is_shared):
    """Permuted actions get permuted probabilities and one value, after training too."""
    options = {"share_features_extractor": is_shared}
    env = Candidates()
    model = agent("MultiInputPolicy", env, seed=0, n_steps=128, policy_kwargs=options)
    model.learn(128)
    obs, _ = env.reset(seed=5)
    order = np.random.default_rng(0).permutation(6)
    permuted = obs | {
        key: obs[key][order] for key in ("action_features", "action_mask")
    }
    results = []
    for one in (obs, permuted):
        tensors = {key: th.as_tensor(value)[None] for key, value in one.items()}
        distribution = model.policy.get_distribution(tensors).distribution
        results.append((distribution.probs[0], model.policy.predict_values(tensors)))
    (probs, value), (other_probs, other_value) = results
    th.testing.assert_close(other_probs, probs[order])
    th.testing.assert_close(other_value, value)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = agent.load(file)
    assert model.predict(obs, deterministic=True) == loaded.predict(
        obs, deterministic=True
    )


@pytest.mark.parametrize("agent", [MaskedQRDQN, MaskedRecurrentPPO])
def test_agents_without_rows_say_so(agent):
    name = "MultiInputPolicy" if agent is MaskedQRDQN else "MultiInputLstmPolicy"
    with pytest.raises(ValueError, match="train SASQ, SASPG or MaskedPPO"):
        agent(name, Candidates())


@agents
def test_verbose_agents_name_the_rows_and_the_keys_that_could_be(agent, capsys):
    agent("MultiInputPolicy", Candidates(), verbose=1)
    assert "Features of the actions: action_features" in capsys.readouterr().out
    agent("MultiInputPolicy", Candidates(keys=("price",)), verbose=1)
    assert "'action_keys': ['price']" in capsys.readouterr().out
