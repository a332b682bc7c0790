"""An unavailable action raises an error, or a random available one replaces it."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from helpers.playing import available_by
from helpers.statistical import assert_frequencies, assert_mean_at_most

import sas_gym
from sas_gym import SPECS, SASEnv, SASVectorEnv
from sas_gym._evaluation import episode_returns
from sas_gym.action_sets import Explicit
from sas_gym.planning import optimal_return, solve

IDS = [spec.id for spec in SPECS]
SOLVED = [each for each in IDS if gym.make(each).unwrapped.task.tabular() is not None]  # type: ignore[attr-defined]

every_id = pytest.mark.parametrize("env_id", IDS)
every_solved_id = pytest.mark.parametrize("env_id", SOLVED)


def unavailable(env, seed=0):
    """Reset until some action is unavailable, and return it."""
    for attempt in range(100):
        _, info = env.reset(seed=seed + attempt)
        closed = np.flatnonzero(info["action_mask"] == 0)
        if closed.size:
            return closed[0]
    raise AssertionError("everything is always available")


@every_id
def test_unavailable_action_raises_and_changes_nothing(env_id):
    env: Any = gym.make(env_id)
    action = unavailable(env)
    before, mask = copy.deepcopy(env.unwrapped.state), env.unwrapped.action_masks()
    with pytest.raises(ValueError, match=f"unavailable action: {action} is not in the"):
        env.step(action)
    np.testing.assert_array_equal(env.unwrapped.state, before)
    np.testing.assert_array_equal(env.unwrapped.action_masks(), mask)
    env.step(np.flatnonzero(mask)[0])


def test_unavailable_vector_actions_error():
    env = gym.make_vec("SAS/ThetaTwoTheta-v0", num_envs=4, action_sets=[1.0, 0.0])
    env.reset(seed=0)
    message = r"in environments \[1, 3\]: 1 is not in .* \[0\]"
    with pytest.raises(ValueError, match=message):
        env.step(np.array([0, 1, 0, 1]))


@every_id
def test_repaired_step_is_a_step_of_an_available_action_less_the_penalty(env_id):
    """One of the available actions, taken by a twin, leads to the same state."""
    env: Any = gym.make(env_id, on_unavailable="repair", unavailable_penalty=3.0)
    action = unavailable(env)
    seed = env.unwrapped.np_random_seed
    outcomes = []
    for other in np.flatnonzero(env.unwrapped.action_masks()):
        twin: Any = gym.make(env_id)
        twin.reset(seed=seed)
        obs, reward, *_ = twin.step(other)
        outcomes.append((obs["observation"], reward - 3.0))
    obs, reward, *_, info = env.step(action)
    assert info["repaired"] is True
    assert any(
        data_equivalence((obs["observation"], reward), outcome, exact=True)
        for outcome in outcomes
    )


@every_id
def test_repair_leaves_other_environments_and_the_dynamics_alone(env_id):
    strict, lenient = (
        gym.make_vec(env_id, 3, on_unavailable=response, **available_by(env_id, 0.5))
        for response in ("raise", "repair")
    )
    for seed in range(20):
        _, infos = strict.reset(seed=seed)
        lenient.reset(seed=seed)
        mask = infos["action_mask"]
        allowed, blind = mask.argmax(axis=1), mask.argmax(axis=1)
        blind[0] = mask[0].argmin()
        *others, _ = strict.step(allowed)
        *repaired, infos = lenient.step(blind)
        for one, other in zip(others, repaired, strict=True):
            if isinstance(one, np.ndarray):
                np.testing.assert_array_equal(one[1:], other[1:])
        assert infos["repaired"].tolist() == [not mask[0, blind[0]], False, False]


def test_repairs_are_uniform_over_the_set():
    sets = Explicit([[1, 0, 1, 1]], [1.0])
    task = sas_gym.Maze(num_actuators=4, noise=0.0, step_length=0.01, walls=[])
    env = SASVectorEnv(task, 3000, action_sets=sets, on_unavailable="repair")
    env.reset(seed=0)
    obs, *_ = env.step(np.ones(3000, int))
    moved = np.rint((obs["observation"] - task.start) / 0.05).astype(int)
    counts = [(moved == way).all(axis=1).sum() for way in ((1, 0), (-1, 0), (0, -1))]
    assert sum(counts) == 3000
    assert_frequencies(counts, [1 / 3] * 3)


def blind_play(env, num_steps, seed=0):
    """Return all that a vector environment returns to actions drawn without masks."""
    rng = np.random.default_rng(seed)
    returned = [env.reset(seed=seed)]
    for _ in range(num_steps):
        actions = rng.integers(env.single_action_space.n, size=env.num_envs)
        returned.append(env.step(actions))
    return returned


@every_id
@pytest.mark.parametrize(
    "mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=["same", "next"]
)
def test_repairing_vector_env_of_one_equals_single_env(env_id, mode):
    """Through SyncVectorEnv, what blind actions lead to is the same to the last bit."""
    options: dict[str, Any] = {
        "num_envs": 1,
        **available_by(env_id, 0.5),
        "on_unavailable": "repair",
        "unavailable_penalty": 0.5,
    }
    native = gym.make_vec(
        env_id,
        vectorization_mode="vector_entry_point",
        autoreset_mode=mode,
        **options,
    )
    single = gym.make_vec(
        env_id,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **options,
    )
    returned = blind_play(native, 300)
    assert any(step[-1]["repaired"].any() for step in returned)
    assert not all(step[-1]["repaired"].all() for step in returned[1:])
    assert data_equivalence(returned, blind_play(single, 300), exact=True)


@every_id
def test_seed_replays_repairs(env_id):
    first, other, again = (
        blind_play(gym.make_vec(env_id, num_envs=5, on_unavailable="repair"), 60, seed)
        for seed in (0, 1, 0)
    )
    assert data_equivalence(first, again, exact=True)
    assert not data_equivalence(first, other, exact=True)


def test_no_repaired_key_where_unavailable_actions_raise():
    env: Any = gym.make("SAS/Maze-v0")
    assert "repaired" not in env.reset(seed=0)[1]
    infos = gym.make_vec("SAS/Maze-v0", num_envs=2).reset(seed=0)[1]
    assert "repaired" not in infos


class Blind:
    """Names the best action of each state until it is available."""

    def __init__(self, env):
        mdp = env.tabular().replace(horizon=env.max_episode_steps)
        # Of all steps the first, where a time limit makes them differ.
        q_values = solve(mdp).q_values.reshape(-1, *mdp.reward.shape)
        self.best = q_values[0].argmax(axis=1)
        states = np.arange(mdp.num_states)
        self.observations = env.task.observe(states).reshape(len(states), -1)

    def __call__(self, observation, action_mask):
        seen = np.asarray(observation["observation"]).reshape(len(action_mask), 1, -1)
        return self.best[(seen == self.observations).all(axis=2).argmax(axis=1)]


def watched_task(env_id, taken):
    """Return the task of an id, which notes the actions that reach its dynamics."""
    kind: Any = type(gym.make(env_id).unwrapped.task)  # type: ignore[attr-defined]

    class Watched(kind):  # type: ignore[misc]
        def transition(self, state, action, rng):
            taken.append(action.copy())
            return super().transition(state, action, rng)

    return Watched(**available_by(env_id, 0.2))


@every_solved_id
@pytest.mark.parametrize("num_envs", [1, 200])
def test_repaired_policy_stays_in_the_sets(env_id, num_envs):
    taken: list[Any] = []
    task = watched_task(env_id, taken)
    limit = gym.spec(env_id).max_episode_steps
    env = SASVectorEnv(task, num_envs, max_episode_steps=limit, on_unavailable="repair")
    policy = Blind(env)
    taken.clear()
    obs, infos = env.reset(seed=0)
    num_repairs = 0
    for _ in range(400):
        mask = infos["action_mask"]
        named = policy(obs, mask)
        obs, *_, infos = env.step(named)
        assert mask[np.arange(num_envs), taken[-1]].all()
        changed = taken[-1] != named
        assert not mask[np.arange(num_envs), named][changed].any()
        num_repairs += changed.sum()
    assert num_repairs > 50


@every_solved_id
@pytest.mark.parametrize("availability", [0.2, 0.8])
def test_repaired_policy_cannot_beat_the_optimum(env_id, availability):
    """A no-op could: naming the best road until it opens had 8.97 instead of 3.967."""
    options = {**available_by(env_id, availability), "on_unavailable": "repair"}
    vector: Any = gym.make_vec(env_id, num_envs=500, **options)
    returns = episode_returns(vector, Blind(vector.unwrapped), 20_000, seed=0)
    assert_mean_at_most(returns, optimal_return(vector))


@every_solved_id
def test_repaired_policy_of_one_environment_cannot_beat_the_optimum(env_id):
    limit = gym.spec(env_id).max_episode_steps
    options = {**available_by(env_id, 0.2), "on_unavailable": "repair"}
    env: Any = gym.make(env_id, **options)
    policy = Blind(SASVectorEnv(env.unwrapped.task, 1, max_episode_steps=limit))
    returns = np.zeros(300)
    for episode in range(len(returns)):
        obs, info = env.reset(seed=0 if episode == 0 else None)
        ended = False
        while not ended:
            action = policy(obs, info["action_mask"][None])[0]
            obs, reward, terminated, truncated, info = env.step(action)
            returns[episode] += reward
            ended = terminated or truncated
    assert_mean_at_most(returns, optimal_return(env))


@every_id
def test_gymnasium_check_env_passes_with_repairs(env_id):
    single = gym.make(env_id, on_unavailable="repair")
    assert isinstance(single.unwrapped, SASEnv)
    sas_gym.check_env(single)
