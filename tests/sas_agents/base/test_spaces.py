"""Which spaces, networks and environments an agent takes, and what it refuses."""

from typing import Any

import pytest
from gymnasium import spaces
from helpers.agents import (
    PAPER_AGENTS,
    Masked,
    MaskInside,
    all_agents,
    episodic_agents,
    every_agent,
    make_agent,
    replay_agents,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.dqn.policies import DQNPolicy

from sas_agents import MaskedPPO, MaskedQRDQN
from sas_gym import Maze, SASVectorEnv
from sas_gym.masks import MASK_KEY


@all_agents
def test_vector_environment_of_gymnasium_names_the_adapter(agent):
    with pytest.raises(ValueError, match=r"sas_agents\.VectorEnvAdapter\(env\)"):
        make_agent(agent, SASVectorEnv(Maze(), 2))


@all_agents
@pytest.mark.parametrize("env", [3, object(), SASVectorEnv])
def test_what_is_no_environment_is_named(agent, env):
    with pytest.raises(
        ValueError, match="env must be an environment of Gymnasium, its"
    ):
        make_agent(agent, env)


@every_agent
def test_no_environment_is_named(agent):
    with pytest.raises(ValueError, match="env is None: pass an environment, its id"):
        agent(next(iter(agent.policy_aliases)), None)


@every_agent
@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(5), "has no array of a fixed shape, which networks need"),
        (spaces.Sequence(spaces.Discrete(3)), "has no array of a fixed shape"),
        (spaces.Box(0, 1, ()), r"has no axis, or an empty one: .* shape \(1,\)"),
        (spaces.Box(0, 1, (2, 0)), "has no axis, or an empty one"),
        (spaces.Dict({}), "nothing but the mask: add an entry that shows"),
    ],
)
def test_observations_without_numbers_are_refused(agent, space, message):
    with pytest.raises(ValueError, match=message):
        make_agent(agent, Masked(space, spaces.Discrete(3)))


@every_agent
def test_mask_space_of_wrong_size(agent):
    env = MaskInside()
    assert isinstance(env.observation_space, spaces.Dict)
    env.observation_space.spaces[MASK_KEY] = spaces.MultiBinary((1, 3))
    with pytest.raises(ValueError, match=r"there are 3 actions: make it .*Binary\(3\)"):
        make_agent(agent, env)


@every_agent
def test_actions_not_counted_from_0_are_refused(agent):
    env = Masked(spaces.Box(0, 1, (2,)), spaces.Discrete(3, start=3))
    for given in (env, DummyVecEnv([lambda: env])):
        with pytest.raises(ValueError, match=r"TransformAction\(env, .* action \+ 3"):
            make_agent(agent, given)


def test_vectors_of_actions_not_counted_from_0_are_refused():
    actions = spaces.MultiDiscrete([2, 3], start=[0, 1])
    with pytest.raises(ValueError, match=r"action \+ \[0, 1\].*Discrete\(\[2, 3\]\)"):
        make_agent(MaskedPPO, Masked(spaces.Box(0, 1, (2,)), actions))


@every_agent
def test_vectors_not_counted_from_0_are_refused(agent):
    space = spaces.MultiDiscrete([4, 5], start=[2, 0])
    with pytest.raises(ValueError, match=r"subtracts \[2, 0\], with .*\(\[4, 5\]\)"):
        make_agent(agent, Masked(space))


@every_agent
@pytest.mark.parametrize("in_dict", [False, True])
def test_observations_not_counted_from_0_are_refused(agent, in_dict):
    space: Any = spaces.Discrete(4, start=2)
    space = spaces.Dict(room=space, place=spaces.Box(0, 1, (2,))) if in_dict else space
    with pytest.raises(ValueError, match=r"not counted from 0: .* subtracts 2, with"):
        make_agent(agent, Masked(space))


@every_agent
@pytest.mark.parametrize("policy", ["MlpPolicy", "LinearPolicy", "MultiInputPolicy"])
def test_dict_observations_of_several_keys(agent, policy):
    space = spaces.Dict(place=spaces.Box(0, 1, (2,)), room=spaces.Discrete(3))
    model = make_agent(agent, Masked(space), policy=policy).learn(60)
    assert model.num_timesteps >= 60


@every_agent
def test_cnn_policy_on_dict_names_multi_input_policy(agent):
    space = spaces.Dict(place=spaces.Box(0, 1, (2,)), room=spaces.Discrete(3))
    with pytest.raises(
        ValueError, match=r"\['place', 'room'\]: use 'MultiInputPolicy'"
    ):
        make_agent(agent, Masked(space), policy="CnnPolicy")


@episodic_agents
@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({"pi": [8], "vf": [5, 4]}, [[8, 16], [5, 4, 1], [5, 4, 16]]),
        ({"pi": [8]}, [[8, 16], [1], [16]]),
        ({"vf": [5]}, [[16], [5, 1], [5, 16]]),
    ],
)
def test_net_arch_by_network(agent, layers, expected):
    """As in Stable-Baselines3, a network that is not named has no hidden layers."""
    model = make_agent(agent, policy="MlpPolicy", policy_kwargs={"net_arch": layers})
    sizes = [
        [layer.weight.shape[1] for layer in network.layers()]
        for network in (model.policy.actor, model.policy.value_net, model.policy.q_net)
    ]
    assert sizes == expected
    model.learn(20)


@pytest.mark.parametrize("agent", [*PAPER_AGENTS, MaskedQRDQN])
@pytest.mark.parametrize("layers", [{"q": [8]}, {"pi": 8}, "64", [0], [8.5]])
def test_wrong_net_arch_is_named(agent, layers):
    with pytest.raises(ValueError, match="net_arch must be a list of layer sizes"):
        make_agent(agent, policy="MlpPolicy", policy_kwargs={"net_arch": layers})


@episodic_agents
def test_shared_features_are_refused(agent):
    """SB3's argument is taken where it says what is so, and refused where not."""
    options: dict[str, Any] = {"policy": "MlpPolicy"}
    make_agent(agent, policy_kwargs={"share_features_extractor": False}, **options)
    with pytest.raises(ValueError, match="share nothing; leave it out, or use Masked"):
        make_agent(agent, policy_kwargs={"share_features_extractor": True}, **options)


@all_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([2, 3]),
        spaces.Dict(x=spaces.MultiDiscrete([2, 3]), y=spaces.Box(0, 1, (2,))),
    ],
)
def test_multi_discrete_observations(agent, policy, space):
    model = make_agent(agent, Masked(space), policy=policy).learn(40)
    assert model.predict(model.env.reset())[0].shape == (1,)


@replay_agents
def test_net_arch_by_network_needs_several_networks(agent):
    layers = {"pi": [8], "vf": [8]}
    with pytest.raises(ValueError, match=r"as there is one network; got {'pi'"):
        make_agent(agent, policy="MlpPolicy", policy_kwargs={"net_arch": layers})


@all_agents
@pytest.mark.parametrize("policy", [ActorCriticPolicy, DQNPolicy, 3])
def test_foreign_policy_class_is_refused(agent, policy):
    with pytest.raises(ValueError, match=r"or a subclass of sas_agents\.(SAS|Masked)"):
        make_agent(agent, policy=policy)
