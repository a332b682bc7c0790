"""Agents learn with masks under any name and in any place."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation
from helpers.agents import MaskInside, all_agents, make_agent
from helpers.boards import NAMED, SIZE, Board, InInfoKey, InKey, InOwnMethod
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from sas_agents import SASPG, SASQ, MaskedPPO, VecMaskInObservation, make_vec_env
from sas_gym import FlattenActions, MaskInObservation, Maze
from sas_gym.masks import MASK_KEY

agents = pytest.mark.parametrize("agent", [SASPG, SASQ, MaskedPPO])
named = pytest.mark.parametrize(("board", "mask"), NAMED)


def plays_legally(agent: Any, env: Any) -> bool:
    """Train and evaluate on boards, where an illegal move raises an error."""
    model = make_agent(agent, env, "MultiInputPolicy").learn(60)
    returns: Any = evaluate_policy(model, env, 6, return_episode_rewards=True)[0]
    return set(returns) <= {SIZE, SIZE - 1}


@agents
@named
def test_named_masks_reach_agents(agent, board, mask):
    env = make_vec_env(board, 2, seed=0, mask=mask)
    assert sorted(env.observation_space) == [MASK_KEY, "fields"]  # type: ignore[call-overload]
    assert plays_legally(agent, env)


@agents
def test_one_environment_is_taken_as_it_is(agent):
    assert plays_legally(agent, make_vec_env(InKey(), mask="valid_mask"))


def test_named_mask_crosses_processes():
    env = make_vec_env(InKey, 2, seed=0, vec_env_cls=SubprocVecEnv, mask="valid_mask")
    try:
        assert plays_legally(SASPG, env)
    finally:
        env.close()


@pytest.mark.parametrize(
    ("board", "mask"),
    [
        (InKey, "valid_mask"),
        (InInfoKey, "valid_moves"),
        (InOwnMethod, "valid_action_mask"),
    ],
)
def test_vec_wrapper_takes_names(board, mask):
    env: Any = VecMaskInObservation(sb3_make_vec_env(board, 2, seed=0), mask=mask)
    assert sorted(env.observation_space) == [MASK_KEY, "fields"]
    obs = env.reset()
    for _ in range(20):
        np.testing.assert_array_equal(obs[MASK_KEY], 1 - obs["fields"])
        obs, _, dones, infos = env.step(obs[MASK_KEY].argmax(axis=1))
        for info in (infos[index] for index in np.flatnonzero(dones)):
            last = info["terminal_observation"]
            assert sorted(last) == [MASK_KEY, "fields"]
            assert last[MASK_KEY].tolist() == [1] * SIZE  # full where it was empty


def test_missing_mask_of_a_vec_env_names_what_sounds_like_one():
    env = VecMaskInObservation(sb3_make_vec_env(InInfoKey))
    with pytest.raises(
        ValueError, match=r"VecEnv provides no .*like a mask: 'valid_mo"
    ):
        env.reset()


@pytest.mark.parametrize(
    ("env", "n_envs", "message"),
    [
        (
            Board(),
            2,
            r"one environment, and n_envs is 2: .*lambda: Board\(\.\.\.\), n_e",
        ),
        (DummyVecEnv([Board]), 1, "many environments already: pass a VecEnv to the ag"),
        (gym.make_vec("CartPole-v1"), 1, r"VectorEnvAdapter\(env\)"),
    ],
)
def test_what_cannot_be_copied_gets_a_cure(env, n_envs, message):
    with pytest.raises(ValueError, match=message):
        make_vec_env(env, n_envs)


def test_named_mask_asks_for_single_environments():
    """The vector form of an id has its mask in the usual places only."""
    env = make_vec_env(Maze(), 2, mask=lambda env: env.unwrapped.action_masks())
    assert isinstance(env, DummyVecEnv)
    obs: Any = env.reset()
    np.testing.assert_array_equal(
        obs[MASK_KEY], np.stack(env.env_method("action_masks"))
    )


class BoxMask(MaskInside):
    """The mask in the observation has a space that normalisers change."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            observation=self.bare_space, action_mask=spaces.Box(0, 1, (3,))
        )


@agents
def test_box_masks_become_binary(agent):
    env = make_vec_env(BoxMask, 2)
    space: Any = env.observation_space
    assert space[MASK_KEY] == spaces.MultiBinary(3)
    model = make_agent(agent, VecNormalize(env, norm_obs_keys=["observation"]))
    assert model.learn(40).num_timesteps >= 40
    assert make_agent(agent, BoxMask()).learn(40).num_timesteps >= 40


def test_normalisation_below_masks_names_the_keys():
    env = VecNormalize(sb3_make_vec_env(Board), norm_obs_keys=["fields"])
    with pytest.raises(ValueError, match=r"norm_obs_keys=\['fields'\]"):
        VecMaskInObservation(env)
    one = VecNormalize(sb3_make_vec_env("CartPole-v1"))
    with pytest.raises(ValueError, match=r"norm_obs_keys=\['observation'\]"):
        VecMaskInObservation(one)


class Nested(Board):
    """Observations in two levels."""

    observation_space = spaces.Dict(
        board=Board.observation_space, hand=spaces.Tuple([spaces.Discrete(2)])
    )

    def observe(self) -> Any:
        return {"board": super().observe(), "hand": (np.int64(1),)}

    def action_masks(self) -> Any:
        return self.legal()


@pytest.mark.parametrize("make", [Nested, lambda: make_vec_env(Nested)])
def test_nested_observations_name_the_wrapper(make):
    with pytest.raises(ValueError, match=r"board'\] .*nested.*FlattenObservation"):
        make_agent(SASPG, make())


@agents
def test_flattened_observations_learn(agent):
    assert plays_legally(agent, make_vec_env(lambda: FlattenObservation(Nested()), 2))


class Sea(gym.Env[Any, Any]):
    """Shoot at each of 2 x 3 fields once."""

    observation_space = spaces.Dict(free=spaces.MultiBinary([2, 3]))
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.free = np.ones((2, 3), dtype=np.int8)
        return {"free": self.free.copy()}, {"action_mask": self.free.copy()}

    def step(self, action: Any) -> Any:
        if not self.free[tuple(action)]:
            raise ValueError("shot at before")
        self.free[tuple(action)] = 0
        ends = not self.free.any()
        return {"free": self.free.copy()}, 1.0, ends, False, {"action_mask": self.free}


@agents
def test_numbered_combinations_learn(agent):
    env = make_vec_env(lambda: FlattenActions(Sea()), 2)
    model = make_agent(agent, env, "MultiInputPolicy").learn(40)
    assert evaluate_policy(model, env, 4) == (6, 0)


def test_joint_mask_error_names_the_wrapper():
    with pytest.raises(ValueError, match=r"joint mask .*sas_gym.FlattenActions\(env\)"):
        make_agent(MaskedPPO, make_vec_env(Sea), "MultiInputPolicy").learn(10)


KEYS = ("values", "items", "type", "training", "a.b", "forward", "0", "é")


class AnyKeys(Board):
    """The observation has keys that modules of torch cannot have."""

    observation_space = spaces.Dict({key: spaces.Box(0, 1, (SIZE,)) for key in KEYS})

    def observe(self) -> Any:
        return {
            key: self.full.astype(np.float32) * 0.5**i for i, key in enumerate(KEYS)
        }

    def action_masks(self) -> Any:
        return self.legal()


@all_agents
def test_keys_of_any_name_learn_and_are_saved(agent, tmp_path):
    env = make_vec_env(AnyKeys, 2, seed=0)
    model = make_agent(agent, env, "MultiInputPolicy").learn(60)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model")
    obs: Any = env.reset()
    for deterministic in (True, False):
        actions = [
            one.predict(obs, deterministic=deterministic)[0] for one in (model, loaded)
        ]
        if deterministic:
            np.testing.assert_array_equal(*actions)
        for chosen in actions:
            assert obs[MASK_KEY][np.arange(2), chosen].all()


@all_agents
def test_predict_names_missing_and_unknown_keys(agent):
    env = make_vec_env(AnyKeys, 2, seed=0)
    model = make_agent(agent, env, "MultiInputPolicy")
    obs: Any = env.reset()
    mask = obs[MASK_KEY]
    less = {key: entry for key, entry in obs.items() if key != "a.b"}
    for given, masks in ((less, None), (less, mask)):
        with pytest.raises(ValueError, match=r"missing \['a.b'\], unknown \[\]"):
            model.predict(given, action_masks=masks)
    with pytest.raises(ValueError, match=r"missing \[\], unknown \['new'\]"):
        model.predict({**obs, "new": mask})
    with pytest.raises(ValueError, match=r"unknown \['observation'\]"):
        model.predict(obs["values"], action_masks=mask)


def test_wrapped_by_hand_is_the_same():
    """`make_vec_env` adds no second wrapper."""
    env = make_vec_env(lambda: MaskInObservation(InKey(), mask="valid_mask"))
    assert isinstance(env, DummyVecEnv)
    layer, wrappers = env.envs[0], 0
    while isinstance(layer, gym.Wrapper):
        wrappers += isinstance(layer, MaskInObservation)
        layer = layer.env
    assert wrappers == 1
