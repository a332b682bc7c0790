"""SB3's and sb3-contrib's algorithms, masked: equal to theirs, and never outside."""

import inspect
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import ROLLOUT_AGENTS, SHORT
from helpers.strict import Strict
from sb3_contrib import QRDQN, TRPO, MaskablePPO, RecurrentPPO
from sb3_contrib.common.maskable.distributions import make_masked_proba_distribution
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.distributions import (
    kl_divergence,
    make_proba_distribution,
)
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

import sas_agents
from sas_agents import (
    MaskedA2C,
    MaskedPPO,
    MaskedQRDQN,
    MaskedRecurrentPPO,
    MaskedTRPO,
    make_vec_env,
)
from sas_agents.masked._policies import FiniteCategorical, mask_logits
from sas_gym import StochasticActionSets

pytestmark = pytest.mark.slow

ORIGINALS: dict[Any, Any] = {
    MaskedPPO: PPO,
    MaskedA2C: A2C,
    MaskedTRPO: TRPO,
    MaskedRecurrentPPO: RecurrentPPO,
    MaskedQRDQN: QRDQN,
}
every_algorithm = pytest.mark.parametrize("algorithm", ORIGINALS)


def policy_name(algorithm, kind="Mlp"):
    lstm = "Lstm" if algorithm is MaskedRecurrentPPO else ""
    return f"{kind}{lstm}Policy"


def make_model(algorithm, env, kind="Mlp", **options):
    arguments = SHORT[algorithm] | {"seed": 0, "device": "cpu"} | options
    return algorithm(policy_name(algorithm, kind), env, **arguments)


def assert_same_parameters(one, other, **tolerance):
    one, other = one.policy.state_dict(), other.policy.state_dict()
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(values, other[name], **tolerance, err_msg=name)


@every_algorithm
def test_signature_is_the_originals(algorithm):
    original = inspect.signature(ORIGINALS[algorithm])
    assert inspect.signature(algorithm) == original


@every_algorithm
def test_train_is_the_originals(algorithm):
    assert algorithm.train is ORIGINALS[algorithm].train


@every_algorithm
@pytest.mark.parametrize("num_envs", [1, 3])
def test_everything_available_reproduces_the_original(algorithm, num_envs, monkeypatch):
    """Bit for bit, after several updates with the same seed."""
    options = SHORT[algorithm]
    if algorithm is MaskedRecurrentPPO:
        masked_options = options | {
            "policy_kwargs": options["policy_kwargs"] | {"mask_in_features": False}
        }
    elif algorithm is MaskedQRDQN:
        # Exploration draws from other streams: let nothing be explored.
        monkeypatch.setattr(np.random, "rand", lambda: 1.0)
        options = options | {"learning_starts": 0, "exploration_initial_eps": 0.0}
        masked_options = options = options | {"exploration_final_eps": 0.0}
    else:
        masked_options = options
    bare = sb3_make_vec_env("CartPole-v1", num_envs, seed=0)
    masked = sb3_make_vec_env(
        "CartPole-v1",
        num_envs,
        seed=0,
        wrapper_class=StochasticActionSets,
        wrapper_kwargs={"action_sets": 1.0},
    )
    # One after the other: both draw from torch's global generator.
    ours = make_model(algorithm, masked, **masked_options).learn(200)
    theirs = ORIGINALS[algorithm](
        policy_name(algorithm), bare, seed=0, device="cpu", **options
    )
    start = {name: p.clone() for name, p in theirs.policy.state_dict().items()}
    theirs.learn(200)
    assert_same_parameters(ours, theirs, rtol=0, atol=0)
    assert any(
        not th.equal(p, start[name]) for name, p in theirs.policy.state_dict().items()
    )


def maze(num_envs=2, **options):
    options = {"max_episode_steps": 20, "availability": 0.3, **options}
    return make_vec_env("SAS/Maze-v0", num_envs, seed=0, env_kwargs=options)


def maskable_maze(num_envs=2):
    def make():
        options: Any = {"max_episode_steps": 20, "availability": 0.3}
        return gym.make("SAS/Maze-v0", mask_in_observation=False, **options)

    return DummyVecEnv([make] * num_envs)


@pytest.mark.filterwarnings(r"ignore:learn\(0\)")  # sets up what an update needs
def test_an_update_equals_that_of_maskable_ppo():
    """On the same batch, from the same parameters, to rounding."""
    settings: Any = {"n_steps": 64, "batch_size": 32, "n_epochs": 4, "ent_coef": 0.01}
    ours = MaskedPPO("MlpPolicy", maze(), seed=0, device="cpu", **settings)
    theirs = MaskablePPO("MlpPolicy", maskable_maze(), seed=1, device="cpu", **settings)
    theirs.policy.load_state_dict(ours.policy.state_dict())
    ours.learn(0)
    theirs.learn(0)
    ours.collect_rollouts(ours.env, ours._setup_learn(0)[1], ours.rollout_buffer, 64)
    batch, copied = ours.rollout_buffer, theirs.rollout_buffer
    copied.reset()
    copied.observations[:] = batch.observations["observation"]
    copied.action_masks[:] = batch.observations["action_mask"]
    for name in ("actions", "rewards", "values", "log_probs", "advantages", "returns"):
        getattr(copied, name)[:] = getattr(batch, name)
    copied.full = True
    before = ours.policy.action_net.weight.clone()
    for model in (ours, theirs):
        set_random_seed(0)
        model.train()
    assert not th.equal(before, ours.policy.action_net.weight)
    assert_same_parameters(ours, theirs, rtol=1e-5, atol=1e-7)


def strict(num_envs=2):
    return DummyVecEnv([lambda: Strict(spaces.Discrete(9))] * num_envs)


@every_algorithm
@pytest.mark.parametrize("kind", ["Mlp", "Linear", "MultiInput"])
def test_no_unavailable_action_is_taken(algorithm, kind, tmp_path):
    """In training with its warm-up, evaluation, prediction, after save and load."""
    env = strict()
    model = make_model(algorithm, env, kind).learn(400)
    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", env=strict())
    for agent in (model, loaded):
        for deterministic in (True, False):
            evaluate_policy(agent, agent.env, 6, deterministic, warn=False)
    loaded.learn(100)
    obs = loaded.env.reset()
    bare, masks = obs["observation"], obs["action_mask"]
    actions, _ = loaded.predict(bare, action_masks=masks)
    assert masks[np.arange(2), actions].all()
    action, _ = loaded.predict({key: values[0] for key, values in obs.items()})
    assert masks[0, action]
    with pytest.raises(ValueError, match="needs the action mask"):
        loaded.predict(bare)


def test_contrib_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.delitem(sys.modules, "sas_agents.masked._contrib")
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(ImportError, match=r"MaskedTRPO needs sb3-contrib.*contrib"):
        _ = sas_agents.MaskedTRPO
    with pytest.raises(AttributeError, match="NoSuchAgent"):
        _ = sas_agents.NoSuchAgent
    assert "MaskedQRDQN" in dir(sas_agents)


def random_logits_and_masks(space, size):
    rng = th.Generator().manual_seed(0)
    logits = th.randn((50, size), generator=rng) * 3
    dims = [size] if isinstance(space, spaces.Discrete) else space.nvec.tolist()
    parts = []
    for dim in dims:
        part = th.rand((50, dim), generator=rng) < 0.3
        part[range(50), th.randint(dim, (50,), generator=rng)] = True
        parts.append(part)
    return logits, th.cat(parts, dim=1)


@pytest.mark.parametrize("space", [spaces.Discrete(6), spaces.MultiDiscrete([2, 3, 4])])
def test_distribution_equals_that_of_sb3_contrib(space):
    """Probability, entropy and KL divergence, with finite gradients."""
    size = int(space.n if isinstance(space, spaces.Discrete) else space.nvec.sum())
    logits, masks = random_logits_and_masks(space, size)
    logits.requires_grad_()
    ours: Any = make_proba_distribution(space).proba_distribution(
        mask_logits(logits, masks, space)
    )
    theirs = make_masked_proba_distribution(space).proba_distribution(logits)
    theirs.apply_masking(masks)
    actions = ours.sample()
    th.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    th.testing.assert_close(ours.entropy(), theirs.entropy())
    assert th.equal(ours.mode(), theirs.mode())
    other = make_proba_distribution(space).proba_distribution(
        mask_logits(logits.detach() + th.arange(size), masks, space)
    )
    divergence = kl_divergence(ours, other)
    assert divergence.isfinite().all()
    (divergence.sum() + ours.entropy().sum()).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert (logits.grad[~masks] == 0).all()


actor_critics = pytest.mark.parametrize("algorithm", ROLLOUT_AGENTS)
several_dimensions = pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([4, 2, 5]), spaces.MultiBinary(4)], ids=str
)


def test_categorical_is_pytorchs():
    """Draws, probabilities, entropy and their gradients, bit for bit."""
    space = spaces.Discrete(6)
    logits, masks = random_logits_and_masks(space, 6)
    results: list[tuple[Any, ...]] = []
    for distribution in (FiniteCategorical, th.distributions.Categorical):
        leaf = logits.clone().requires_grad_()
        made = distribution(logits=mask_logits(leaf, masks, space))
        actions = made.sample() if not results else results[0][0]
        th.manual_seed(0)
        drawn, log_probs, entropy = (
            made.sample(),
            made.log_prob(actions),
            made.entropy(),
        )
        (log_probs.sum() + 0.5 * entropy.sum()).backward()
        results.append((actions, drawn, log_probs, entropy, leaf.grad))
    for one, other in zip(*results, strict=True):
        assert th.equal(one, other)


@pytest.mark.parametrize("size", [1.0, 1e28, 1e35])
def test_entropy_of_huge_logits_is_finite(size):
    """And so is its gradient, whatever it is multiplied by."""
    logits = size * th.tensor([[100.0, -100.0, 100.0]]).expand(2, 3)
    masks = th.tensor([[1, 1, 0], [0, 1, 0]])
    logits.requires_grad_()
    masked = FiniteCategorical(mask_logits(logits, masks, spaces.Discrete(3)))
    assert masked.probs.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert masked.entropy().tolist() == [0, 0]
    (1000 * masked.entropy().sum()).backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize("wrong", [th.nan, th.inf])
@actor_critics
def test_diverged_policy_is_named(algorithm, wrong):
    """Whichever action the logit is of, and not by taking an unavailable one."""
    model = make_model(algorithm, strict())
    obs = model.env.reset()
    with th.no_grad():
        model.policy.action_net.bias[-1] = wrong
    obs["action_mask"][:] = 1
    for deterministic in (True, False):
        with pytest.raises(ValueError, match="logits are not finite"):
            model.predict(obs, deterministic=deterministic)


@actor_critics
@several_dimensions
def test_no_unavailable_value_is_taken_in_any_dimension(algorithm, space):
    env = DummyVecEnv([lambda: Strict(space)] * 2)
    if algorithm is MaskedRecurrentPPO and isinstance(space, spaces.MultiBinary):
        with pytest.raises(ValueError, match=r"use MultiDiscrete\(\[2, 2"):
            make_model(algorithm, env)
        return
    model = make_model(algorithm, env).learn(200)
    for deterministic in (True, False):
        evaluate_policy(model, model.env, 6, deterministic, warn=False)
    obs = model.env.reset()
    action, _ = model.predict(obs["observation"][0], action_masks=obs["action_mask"][0])
    assert space.contains(action.astype(space.dtype))


@several_dimensions
def test_everything_available_in_all_dimensions_reproduces_ppo(space):
    class Open(Strict):
        def _draw(self):
            self.mask = np.ones(sum(self._sizes()), np.int8)
            return self.mask

    settings = SHORT[MaskedPPO] | {"seed": 0, "device": "cpu"}
    ours, theirs = (
        algorithm("MlpPolicy", Open(space), **settings).learn(100)
        for algorithm in (MaskedPPO, PPO)
    )
    assert_same_parameters(ours, theirs, rtol=0, atol=0)


@several_dimensions
def test_a_dimension_without_an_available_value_is_refused(space):
    model = make_model(MaskedPPO, Strict(space))
    obs = model.env.reset()
    masks = obs["action_mask"].copy()
    masks[:, :2] = 0
    if isinstance(space, spaces.MultiDiscrete):
        masks[:, :4] = 0
    with pytest.raises(ValueError, match="offers no action"):
        model.predict(obs["observation"], action_masks=masks)


@actor_critics
def test_continuous_actions_are_refused(algorithm):
    with pytest.raises(ValueError, match=r"need a Discrete, a MultiDiscrete.*got Box"):
        make_model(algorithm, gym.make("Pendulum-v1"))


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([2, 2]), spaces.Box(-1, 1, (2,))], ids=str
)
def test_other_than_discrete_actions_are_refused_by_q_learning(space):
    with pytest.raises(AssertionError, match="only supports"):
        make_model(MaskedQRDQN, Strict(space))
