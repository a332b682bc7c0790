"""Every policy class, on every kind of observation it is for."""

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from helpers.agents import (
    Masked,
    assert_differ,
    assert_same,
    episodic_agents,
    every_agent,
    everything_learned,
    make_agent,
    maze_observations,
)
from stable_baselines3.common.torch_layers import (
    FlattenExtractor,
    NatureCNN,
)
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from sas_agents import SASPG, SASQ, FourierBasis
from sas_agents.models._dict_extractor import DictExtractor
from sas_agents.models._features import Identity, OneHot
from sas_gym.masks import MASK_KEY, masked_space

pytestmark = pytest.mark.slow

SMALL = {"features_extractor_kwargs": {"features_dim": 8}}
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
COLOUR_IMAGE = spaces.Box(0, 255, (36, 36, 3), np.uint8)
PAIR = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "floor": spaces.Discrete(3)})
# Observation spaces with the features that a policy takes for them by default.
SPACES: dict[str, list[tuple[spaces.Space[Any], type]]] = {
    "LinearPolicy": [
        (spaces.Discrete(4), OneHot),
        (spaces.Box(-1, 1, (2,)), FourierBasis),
        (spaces.Box(-np.inf, np.inf, (2,)), Identity),
        (spaces.Box(1, 2, (1,)), Identity),
        (spaces.MultiDiscrete([2, 3]), Identity),
        (spaces.MultiBinary(3), Identity),
        (PAIR, DictExtractor),
    ],
    "MlpPolicy": [
        (spaces.Discrete(4), FlattenExtractor),
        (spaces.Box(-1, 1, (2,)), FlattenExtractor),
        (spaces.MultiBinary(3), FlattenExtractor),
    ],
    # Of several channels, too: gradients of convolutions need not be contiguous.
    "CnnPolicy": [(IMAGE, NatureCNN), (COLOUR_IMAGE, NatureCNN)],
    "MultiInputPolicy": [
        (PAIR, DictExtractor),
        (
            spaces.Dict({"observation": spaces.Discrete(3), "image": IMAGE}),
            DictExtractor,
        ),
        (spaces.Box(-1, 1, (2,)), FlattenExtractor),
    ],
}

every_policy = pytest.mark.parametrize(
    ("policy", "space", "features"),
    [(policy, *case) for policy, cases in SPACES.items() for case in cases],
)


@every_agent
@every_policy
def test_policy_trains_saves_and_loads(agent, policy, space, features, tmp_path):
    env = VecMonitor(DummyVecEnv([lambda: Masked(space)] * 2))
    options = {"policy_kwargs": SMALL} if policy == "CnnPolicy" else {}
    model = make_agent(agent, env, policy, **options)
    assert model.policy.features_extractor_class is features
    before = everything_learned(model)
    model.learn(60)
    assert_differ(before, everything_learned(model))
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model")
    obs = model.env.reset()
    actions, _ = model.predict(obs, deterministic=True)
    np.testing.assert_array_equal(actions, loaded.predict(obs, deterministic=True)[0])
    assert np.take_along_axis(obs[MASK_KEY], actions[:, None], 1).all()


@every_agent
def test_features_can_be_chosen(agent):
    kwargs = {
        "features_extractor_class": FourierBasis,
        "features_extractor_kwargs": {"order": 5, "coupled": False},
    }
    model = make_agent(agent, policy_kwargs=kwargs).learn(60)
    network = model.q_net if agent is SASQ else model.policy.actor
    # Five frequencies along each of two axes, and the constant.
    assert len(network.layers()[0].weight) == 11


@episodic_agents
def test_rate_of_zero_leaves_policy_unchanged(agent):
    model = make_agent(agent, learning_rate=0.0, target_kl=None)
    before = copy.deepcopy(model.policy.actor.state_dict())
    model.learn(100)
    assert_same(before, model.policy.actor.state_dict())


@every_agent
@pytest.mark.parametrize(
    ("policy", "net_arch"),
    [("LinearPolicy", []), ("MlpPolicy", [64, 64]), ("MultiInputPolicy", [64, 64])],
)
def test_default_hidden_layers(agent, policy, net_arch):
    model = make_agent(agent, policy=policy)
    assert model.policy.net_arch == net_arch
    network = model.q_net if agent is SASQ else model.policy.actor
    for layer in network.layers():
        assert (layer.bias is not None) == bool(net_arch)


@every_agent
def test_layers_can_be_chosen(agent):
    model = make_agent(agent, policy="MlpPolicy", policy_kwargs={"net_arch": [7]})
    network = model.q_net if agent is SASQ else model.policy.actor
    assert network.layers()[0].weight.shape[1] == 7
    if agent is not SASQ:
        kwargs = {"net_arch": [7], "bias": False}
        model = make_agent(agent, policy="MlpPolicy", policy_kwargs=kwargs)
        assert model.policy.actor.layers()[0].bias is None


def test_unused_arguments_are_rejected():
    with pytest.raises(ValueError, match="a linear policy has no hidden layers, got"):
        make_agent(SASQ, policy_kwargs={"net_arch": [7]})
    space = masked_space(spaces.Discrete(2), 3)
    with pytest.raises(ValueError, match="use_sde=True is for continuous actions"):
        SASPG.policy_aliases["MlpPolicy"](
            space, spaces.Discrete(3), lambda _: 1.0, use_sde=True
        )


@episodic_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_distribution_has_the_frequencies_of_predictions(agent, policy):
    """`policy.get_distribution` as in Stable-Baselines3; 5 standard errors."""
    model = make_agent(agent, policy=policy).learn(100)
    num_samples = 20_000
    one = {key: values[:1] for key, values in maze_observations(1).items()}
    obs = {key: np.repeat(values, num_samples, 0) for key, values in one.items()}
    distribution = model.policy.get_distribution(model.policy.obs_to_tensor(one)[0])
    probs = distribution.distribution.probs[0].detach().numpy()
    assert probs.sum() == pytest.approx(1, abs=1e-5)
    assert (probs[one[MASK_KEY][0] == 0] == 0).all()
    actions, _ = model.predict(obs)
    found = np.bincount(actions, minlength=16) / num_samples
    errors = np.sqrt(probs * (1 - probs) / num_samples)
    assert (abs(found - probs) <= 5 * errors + 1e-6).all()
    assert 0 < distribution.entropy().item() < np.log(16)
