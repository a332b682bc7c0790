"""Vector environments of others: buffers that are reused, infos of every kind."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from helpers.agents import every_agent, make_agent
from helpers.vec_envs import MaskInInfo

from sas_agents import VecMaskInObservation, VectorEnvAdapter
from sas_gym import StochasticActionSets


def masked_cart_pole() -> Any:
    return StochasticActionSets(gym.make("CartPole-v1"), 0.7)


def sync(make: Any = masked_cart_pole, num_envs: int = 2, **options: Any) -> Any:
    return SyncVectorEnv(
        [make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **options
    )


def test_reused_buffers_are_copied():
    """With `copy=False` every observation is a view of the same array."""
    venv: Any = VectorEnvAdapter(sync(copy=False))
    venv.seed(0)
    first = obs = venv.reset()
    kept = {key: values.copy() for key, values in first.items()}
    for _ in range(5):
        obs, *_ = venv.step(obs["action_mask"].argmax(axis=1))
    for key, values in kept.items():
        np.testing.assert_array_equal(first[key], values)


@every_agent
def test_training_is_the_same_with_reused_buffers(agent):
    learned = []
    for copy in (True, False):
        model = make_agent(agent, VectorEnvAdapter(sync(copy=copy))).learn(80)
        learned.append(model.policy.state_dict())
    for name, tensor in learned[0].items():
        np.testing.assert_array_equal(tensor, learned[1][name])


def test_infos_without_marks():
    """Gymnasium's statistics are a dict of arrays, without a mask for each."""
    statistics = RecordEpisodeStatistics(sync(MaskInInfo))
    wrapped: Any = VecMaskInObservation(VectorEnvAdapter(statistics))
    wrapped.seed(0)
    obs, episodes = wrapped.reset(), []
    for _ in range(100):
        obs, _, dones, infos = wrapped.step(obs["action_mask"].argmax(axis=1))
        episodes += [infos[i]["episode"]["r"] for i in np.flatnonzero(dones)]
        assert all("episode" not in infos[i] for i in np.flatnonzero(~dones))
    # Not the sums of the rewards, which Gymnasium before 1.4 gets wrong in this mode.
    assert episodes == list(statistics.return_queue)
    assert len(episodes) > 5


class TellsOptions(MaskInInfo):
    """Returns the options of a reset in its info."""

    def reset(self, **kwargs: Any) -> Any:
        obs, info = super().reset(**kwargs)
        return obs, {**info, "seen": (kwargs.get("options") or {}).get("low")}


def test_options_reach_the_next_reset_alone():
    venv: Any = VectorEnvAdapter(sync(TellsOptions))
    venv.set_options({"low": -0.01})
    venv.reset()
    assert [info["seen"] for info in venv.reset_infos] == [-0.01, -0.01]
    venv.reset()
    assert [info.get("seen") for info in venv.reset_infos] == [None, None]
    venv.set_options([{"low": 1}, {"low": 2}])
    with pytest.raises(ValueError, match="needs the same options for each"):
        venv.reset()


class HasMethods(SyncVectorEnv):
    """Methods that return nothing, one value for all, and one per environment."""

    def nothing(self) -> None:
        pass

    def one(self) -> str:
        return "all"

    def each(self) -> list[int]:
        return [5, 6]


def test_methods_return_anything():
    venv = VectorEnvAdapter(
        HasMethods([MaskInInfo] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    )
    assert venv.env_method("nothing") == [None, None]
    assert venv.env_method("one", indices=1) == ["all"]
    assert venv.env_method("each") == [5, 6]
    assert venv.env_method("each", indices=[1]) == [6]
