"""Evaluation takes the environments that training takes, wherever their masks are."""

import re
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.agents import make_agent
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    EvalCallback,
    EveryNTimesteps,
)
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecNormalize,
)

import sas_agents
import sas_gym
from sas_agents import (
    SASNPG,
    SASPG,
    SASQ,
    MaskedPPO,
    MaskedQRDQN,
    VecMaskInObservation,
    make_vec_env,
)
from sas_gym.masks import has_mask

# One door is open at a time: there is nothing to learn.
pytestmark = pytest.mark.filterwarnings("ignore:the gradient of the policy is 0")

NUM_STEPS = 7


class Doors(gym.Env[Any, Any]):
    """Three doors, of which one is open and says so nowhere; it pays 1.

    A closed door raises an error, so that every policy that keeps inside the set has
    the return `NUM_STEPS`.
    """

    observation_space: spaces.Space[Any] = spaces.Box(0, 1, (2,))
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.num_steps = 0
        self.open = int(self.np_random.integers(3))
        return self.observe(), self.info()

    def step(self, action: Any) -> Any:
        if action != self.open:
            raise ValueError(f"door {action} is closed")
        self.num_steps += 1
        self.open = int(self.np_random.integers(3))
        ended = self.num_steps == NUM_STEPS
        return self.observe(), 1.0, False, ended, self.info()

    def mask(self) -> Any:
        return np.eye(3, dtype=np.int8)[self.open]

    def observe(self) -> Any:
        return np.array([self.num_steps / NUM_STEPS, 0.5], dtype=np.float32)

    def info(self) -> dict[str, Any]:
        return {}


class InInfo(Doors):
    def info(self) -> dict[str, Any]:
        return {"action_mask": self.mask()}


class InMethod(Doors):
    def action_masks(self) -> Any:
        return self.mask().astype(bool)


class InObservation(Doors):
    observation_space = spaces.Dict(
        observation=Doors.observation_space, action_mask=spaces.MultiBinary(3)
    )

    def observe(self) -> Any:
        return {"observation": super().observe(), "action_mask": self.mask()}


PLACES = [InInfo, InMethod, InObservation]
every_place = pytest.mark.parametrize("place", PLACES)
agents = pytest.mark.parametrize("agent", [SASPG, SASNPG, SASQ, MaskedPPO])


def returns_of(model: Any, env: Any) -> set[float]:
    """Return the different returns of evaluated episodes, greedy and sampled ones."""
    returns: set[float] = set()
    for deterministic in (True, False):
        played: Any = evaluate_policy(
            model, env, 4, deterministic, return_episode_rewards=True, warn=False
        )
        returns |= set(played[0])
    return returns


def evaluated(agent: Any, train_env: Any, callback: EvalCallback) -> list[list[float]]:
    """Train with a callback; return the returns of its evaluations."""
    make_agent(agent, train_env).learn(120, callback)
    return callback.evaluations_results


def eval_callback(env: Any, log_path: Any, eval_freq: int = 15) -> EvalCallback:
    return EvalCallback(
        env, log_path=log_path, eval_freq=eval_freq, n_eval_episodes=2, verbose=0
    )


@agents
@every_place
def test_evaluate_policy_takes_make_vec_env(agent, place):
    train_env = make_vec_env(place, 2, seed=0)
    model = make_agent(agent, train_env).learn(30)
    for env in (
        train_env,
        model.get_env(),
        make_vec_env(place, 2, seed=1),
        make_vec_env(place, 2, wrapper_class=sas_gym.MaskInObservation),
        sas_gym.MaskInObservation(place()),
        VecMaskInObservation(DummyVecEnv([place])),
        VecMaskInObservation(make_vec_env(place)),
    ):
        assert returns_of(model, env) == {NUM_STEPS}


@agents
@every_place
@pytest.mark.parametrize(
    "make_env",
    [
        make_vec_env,
        lambda place: Monitor(place()),
        lambda place: DummyVecEnv([partial(Monitor, place())]),
        sb3_make_vec_env,
        lambda place: make_vec_env(place, mask_in_observation=False),
    ],
)
def test_eval_callback_takes_masks_from_any_place(agent, place, make_env, tmp_path):
    callback = eval_callback(make_env(place), tmp_path)
    results = evaluated(agent, make_vec_env(place, 2, seed=0), callback)
    assert len(results) >= 3
    assert {tuple(returns) for returns in results} == {(NUM_STEPS, NUM_STEPS)}


@agents
def test_eval_callback_stays_wrapped_in_a_second_training(agent, tmp_path):
    callback = eval_callback(make_vec_env(InInfo), tmp_path)
    model = make_agent(agent, make_vec_env(InInfo)).learn(30, callback)
    wrapped = callback.eval_env
    model.learn(30, callback)
    assert callback.eval_env is wrapped


def test_callbacks_inside_callbacks_evaluate(tmp_path):
    """In lists, in events, and after other evaluations; even where they are a ring."""

    class Ring(BaseCallback):
        def _on_step(self) -> bool:
            return True

    inner, after = (
        eval_callback(DummyVecEnv([InInfo]), tmp_path, eval_freq=2) for _ in range(2)
    )
    inner.callback = after
    ring = Ring()
    ring.parent = ring
    outer = CallbackList([ring, EveryNTimesteps(20, inner)])
    with pytest.warns(UserWarning, match="not wrapped with a ``Monitor``"):
        make_agent(SASQ, make_vec_env(InInfo)).learn(120, [outer])
    for callback in (inner, after):
        assert np.mean(callback.evaluations_results) == NUM_STEPS


@agents
@pytest.mark.parametrize("place", [InInfo, InMethod])
@pytest.mark.parametrize(
    ("make_env", "name"),
    [(lambda place: place(), "MaskInObservation"), (sb3_make_vec_env, "VecMaskIn")],
)
def test_plain_environment_fails_with_the_line_to_write(agent, place, make_env, name):
    model = make_agent(agent, place())
    env = make_env(place)
    with pytest.raises(ValueError, match="needs the action mask, and") as error:
        evaluate_policy(model, env, 1, warn=False)
    lines = re.findall(r"`(env = .*?)`", str(error.value))
    (line,) = [line for line in lines if f".{name}" in line]
    names = {"env": env, "sas_gym": sas_gym, "sas_agents": sas_agents}
    exec(line, names)
    assert returns_of(model, names["env"]) == {NUM_STEPS}


@agents
@every_place
def test_normalised_observations_are_evaluated(agent, place, tmp_path):
    def make_env(**options):
        env = make_vec_env(place, 2, seed=0)
        return VecNormalize(env, norm_obs_keys=["observation"], **options)

    train_env = make_env()
    test_env: Any = make_env(training=False, norm_reward=False)
    results = evaluated(agent, train_env, eval_callback(test_env, tmp_path))
    assert np.unique(results).tolist() == [NUM_STEPS]
    # Stable-Baselines3 copies the statistics of the training.
    mean = test_env.obs_rms["observation"].mean
    assert mean[1] == pytest.approx(0.5, abs=1e-3)
    assert 0.1 < mean[0] < 0.9


@pytest.mark.parametrize("agent", [SASPG, SASQ, MaskedPPO, MaskedQRDQN])
@every_place
@pytest.mark.parametrize("make_env", [make_vec_env, sb3_make_vec_env])
def test_normalised_rewards_need_no_masks_below(agent, place, make_env, tmp_path):
    def normalised(**options):
        return VecNormalize(make_env(place, 2, seed=0), norm_obs=False, **options)

    callback = eval_callback(normalised(training=False, norm_reward=False), tmp_path)
    model = make_agent(agent, normalised())
    model.learn(120, callback)
    assert np.unique(callback.evaluations_results).tolist() == [NUM_STEPS]
    if agent in (SASQ, MaskedQRDQN):
        buffer = model.replay_buffer
        for stored in (buffer.observations, buffer.next_observations):
            masks = stored["action_mask"][: buffer.pos]
            # A set of a final state that nobody knows has every door.
            assert set(np.unique(masks.sum(axis=-1))) <= {1, 3}
            assert (masks.sum(axis=-1) == 1).mean() > 0.8


@agents
def test_stacked_frames_are_evaluated(agent, tmp_path):
    def make_env():
        bare = make_vec_env(InInfo, 2, seed=0, mask_in_observation=False)
        return VecMaskInObservation(VecFrameStack(bare, n_stack=2))

    results = evaluated(agent, make_env(), eval_callback(make_env(), tmp_path))
    assert np.unique(results).tolist() == [NUM_STEPS]


def test_subprocesses_are_evaluated():
    env = make_vec_env(InMethod, 2, seed=0, vec_env_cls=SubprocVecEnv)
    try:
        assert returns_of(make_agent(SASPG, env), env) == {NUM_STEPS}
    finally:
        env.close()


@agents
def test_maskable_eval_callback(agent, tmp_path):
    """sb3-contrib's own, which passes the masks of the method to `predict`."""
    callback = MaskableEvalCallback(
        make_vec_env(InMethod), log_path=tmp_path, eval_freq=15, verbose=0
    )
    assert np.unique(evaluated(agent, make_vec_env(InMethod), callback)) == [NUM_STEPS]


def test_final_mask_of_a_method_is_the_one_of_the_final_state():
    """A `VecEnv` resets before it could be asked; the single environment does not."""
    final_masks = []

    class Remembers(InMethod):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            if truncated:
                final_masks.append(self.mask())
            return obs, reward, terminated, truncated, info

    env: Any = make_vec_env(Remembers)
    obs, seen = env.reset(), []
    for _ in range(5 * NUM_STEPS):
        obs, _, (done,), (info,) = env.step(obs["action_mask"].argmax(axis=1))
        if done:
            seen.append(info["terminal_observation"]["action_mask"])
    np.testing.assert_array_equal(seen, final_masks)


@pytest.mark.parametrize("env_id", [InInfo, InMethod, "SAS/Maze-v0", sas_gym.Maze()])
@pytest.mark.parametrize("vec_env_cls", [None, DummyVecEnv])
def test_mask_stays_out_of_the_observation(env_id, vec_env_cls):
    def space(**options: Any) -> Any:
        return make_vec_env(env_id, vec_env_cls=vec_env_cls, **options)

    bare = space(mask_in_observation=False)
    assert isinstance(bare.observation_space, spaces.Box)
    assert has_mask(space().observation_space)
    if not isinstance(env_id, type):
        by_kwargs = space(env_kwargs={"mask_in_observation": False})
        assert by_kwargs.observation_space == bare.observation_space


def test_stock_agent_learns_on_bare_observations():
    env = make_vec_env(InInfo, wrapper_class=sas_gym.RepairAction)
    assert has_mask(env.observation_space)
    bare = make_vec_env(
        InInfo, wrapper_class=sas_gym.RepairAction, mask_in_observation=False
    )
    model = DQN("MlpPolicy", bare, learning_starts=10).learn(30)
    assert returns_of(model, bare) == {NUM_STEPS}


def test_continuous_actions_stay_as_they_are():
    env = make_vec_env("Pendulum-v1", 1)
    assert env.observation_space == gym.make("Pendulum-v1").observation_space


@pytest.mark.parametrize("value", [0.5, np.nan, 256, -1])
def test_masks_of_users_are_checked_before_they_are_cast(value):
    """`DummyVecEnv` would turn them into 0."""

    class Wrong(InObservation):
        def mask(self) -> Any:
            return np.array([1, value, 0])

    with pytest.raises(ValueError, match="must be 1 where an action is available"):
        make_vec_env(Wrong).reset()
