"""The wrappers bring action sets to any environment with discrete actions."""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.wrappers import FlattenObservation
from helpers.brute_force import independent_set_probs
from helpers.statistical import assert_frequencies, set_numbers
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3 import DQN

import sas_gym
from sas_gym import MaskInObservation, RepairAction, StochasticActionSets
from sas_gym.action_sets import Explicit, Independent, Markov, PerEpisode
from sas_gym.masks import sample_actions

TAXI = gym.envs.registration.get_env_id(
    None, "Taxi", gym.envs.registration.find_highest_version(None, "Taxi")
)


class Recorder(gym.Env):
    """Records the actions that reach it, and returns the mask that it is given."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(4)

    def __init__(self, mask=None, final_mask=None, truncates=False):
        self.mask, self.final_mask, self.truncates = mask, final_mask, truncates
        self.taken = []

    def info(self, mask):
        return {} if mask is None else {"action_mask": np.array(mask, np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.int64(len(self.taken) % 4), self.info(self.mask)

    def step(self, action):
        self.taken.append(int(action))
        ended = self.final_mask is not None
        info = self.info(self.final_mask if ended else self.mask)
        terminated, truncated = ended and not self.truncates, ended and self.truncates
        return np.int64(len(self.taken) % 4), 1.0, terminated, truncated, info


def random_masks(env, num_steps, seed=0):
    """Play at random within the sets; return the masks [T, A] and observations."""
    rng = np.random.default_rng(seed)
    obs, info = env.reset(seed=seed)
    masks, seen = [], []
    for _ in range(num_steps):
        masks.append(info["action_mask"])
        seen.append(obs)
        action = sample_actions(info["action_mask"][None], rng)[0]
        obs, _, terminated, truncated, info = env.step(action + env.action_space.start)
        if terminated or truncated:
            obs, info = env.reset()
    return np.array(masks), seen


def lasting(num_actions):
    """Return chains of which the first is always on."""
    return Markov(0.5, np.where(np.arange(num_actions), 0.2, 0.0))


@pytest.mark.parametrize(
    ("env_id", "action_sets"),
    [
        *itertools.product(
            ["CartPole-v1", TAXI, "FrozenLake-v1", "Blackjack-v1"],
            [0.6, PerEpisode(0.5)],
        ),
        ("CartPole-v1", lasting(2)),
        ("FrozenLake-v1", lasting(4)),
        ("Blackjack-v1", lasting(2)),
    ],
)
# CartPole's observations are unbounded, of which Gymnasium's checker warns.
@pytest.mark.filterwarnings("ignore:.*A Box observation space .*imum value is")
def test_wrapped_environment_passes_check_env(env_id, action_sets):
    inner = gym.make(env_id)
    if isinstance(inner.observation_space, gym.spaces.Tuple):
        inner = FlattenObservation(inner)
    env = StochasticActionSets(inner, action_sets)
    sas_gym.check_env(env, skip_render_check=True)


def test_lasting_sets_need_an_action_that_is_always_there():
    """At once where it can be known, else as soon as a mask leaves nothing."""
    with pytest.raises(ValueError, match="when all things fail at once, no action is"):
        StochasticActionSets(Recorder(), Markov(0.5, 0.5))
    env = StochasticActionSets(Recorder(mask=[0, 1, 1]), lasting(3))
    with pytest.raises(ValueError, match="when all things fail at once, no action is"):
        random_masks(env, 200)


def test_sets_have_stated_distribution():
    masks, _ = random_masks(StochasticActionSets(Recorder(), [0.2, 0.5, 0.1]), 20_000)
    counts = np.bincount(set_numbers(masks), minlength=8)
    assert_frequencies(counts, independent_set_probs([0.2, 0.5, 0.1]))


def test_distribution_by_discrete_observation():
    table = np.eye(4, 3) * 0.5 + 0.25
    masks, seen = random_masks(StochasticActionSets(Recorder(), table), 20_000)
    states = np.array([obs["observation"] for obs in seen])
    for state in range(4):
        counts = np.bincount(set_numbers(masks[states == state]), minlength=8)
        assert_frequencies(counts, independent_set_probs(table[state]))


def test_own_mask_is_intersected_and_not_empty():
    env = StochasticActionSets(Recorder(mask=[1, 0, 1]), 0.1)
    masks, _ = random_masks(env, 20_000)
    counts = np.bincount(set_numbers(masks), minlength=8)
    assert_frequencies(counts, independent_set_probs([0.1, 0.0, 0.1]))


def test_taxis_mask_is_respected():
    env: Any = StochasticActionSets(gym.make(TAXI), 0.3)
    obs, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        own = env.unwrapped.action_mask(int(obs["observation"]))
        assert info["action_mask"].any()
        assert not (info["action_mask"] & (own == 0)).any()
        action = sample_actions(info["action_mask"][None], rng)[0]
        obs, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            obs, info = env.reset()


def test_wrapping_leaves_randomness_alone():
    """With everything available, the wrapped environment plays as the bare one."""
    bare, wrapped = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    wrapped = StochasticActionSets(wrapped, 1.0, mask_in_observation=False)
    bare.reset(seed=3)
    wrapped.reset(seed=3)
    for action in (0, 1, 1, 0, 1):
        one, other = bare.step(action), wrapped.step(action)
        assert data_equivalence(one[:4], other[:4], exact=True)


def test_seed_replays_sets():
    first, second, other = (
        random_masks(StochasticActionSets(gym.make("CartPole-v1"), 0.5), 100, seed)[0]
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_unavailable_action_does_not_reach_environment():
    recorder = Recorder()
    env = StochasticActionSets(recorder, [0.0, 1.0, 0.0])
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"unavailable action: 2 is not in .* \[1\]"):
        env.step(2)
    with pytest.raises(ValueError, match="action 3 is not in Discrete"):
        env.step(3)
    env.step(1)
    assert recorder.taken == [1]


def test_repaired_action_reaches_environment_and_costs_penalty():
    """The environment's own reward is 1; a replaced action pays 2 of it."""
    recorder = Recorder()
    env = StochasticActionSets(
        recorder, [0.0, 1.0, 0.0], on_unavailable="repair", unavailable_penalty=2.0
    )
    _, info = env.reset(seed=0)
    assert info["repaired"] is False
    for action, reward, repaired in ((0, -1.0, True), (1, 1.0, False)):
        returned = env.step(action)
        assert returned[1:4] == (reward, False, False)
        assert returned[-1]["repaired"] is repaired
    assert recorder.taken == [1, 1]


def test_seed_replays_repairs_of_action_sets():
    taken = []
    for seed in (5, 5, 6):
        recorder = Recorder()
        env = StochasticActionSets(recorder, 0.5, on_unavailable="repair")
        env.reset(seed=seed)
        for _ in range(50):
            env.step(1)
        taken.append(recorder.taken)
    assert taken[0] == taken[1] != taken[2]


def test_repaired_action_respects_the_environments_own_mask():
    recorder = Recorder(mask=[1, 0, 1])
    env = StochasticActionSets(recorder, [0.0, 1.0, 1.0], on_unavailable="repair")
    env.reset(seed=0)
    for action in (0, 1, 2):
        env.step(action)
    assert recorder.taken == [2, 2, 2]


def test_dict_observation_keeps_keys():
    env = gym.make("CartPole-v1")
    env = gym.wrappers.TransformObservation(
        env,
        lambda obs: {"place": obs[:2], "speed": obs[2:]},
        gym.spaces.Dict(
            place=gym.spaces.Box(-9, 9, (2,)), speed=gym.spaces.Box(-9, 9, (2,))
        ),
    )
    env = StochasticActionSets(env)
    obs, _ = env.reset(seed=0)
    assert obs.keys() == {"place", "speed", "action_mask"}
    assert obs in env.observation_space


def test_action_space_with_start():
    recorder = Recorder()
    recorder.action_space = gym.spaces.Discrete(3, start=5)
    env = StochasticActionSets(recorder, [1.0, 0.0, 1.0])
    random_masks(env, 50)
    assert set(recorder.taken) == {5, 7}
    with pytest.raises(ValueError, match="unavailable action: 6"):
        env.step(6)


def test_continuous_actions_error():
    with pytest.raises(ValueError, match="need a Discrete action space, got Box"):
        StochasticActionSets(gym.make("Pendulum-v1"))


def test_distribution_by_state_needs_discrete_observation():
    with pytest.raises(ValueError, match="are not numbered"):
        StochasticActionSets(gym.make("CartPole-v1"), Independent(np.full((5, 2), 0.5)))


def test_mask_of_wrong_shape_error():
    env = StochasticActionSets(Recorder(mask=[1, 1]), 0.5)
    with pytest.raises(
        ValueError, match=r"info\['action_mask'\] at .* must have .* \(3,\)"
    ):
        env.reset()


def test_empty_mask_error():
    with pytest.raises(
        ValueError, match=r"info\['action_mask'\] at reset\(\) offers no action"
    ):
        MaskInObservation(Recorder(mask=[0, 0, 0])).reset()


@pytest.mark.parametrize("wrapper", [MaskInObservation, StochasticActionSets])
@pytest.mark.parametrize("truncates", [False, True])
def test_empty_final_mask_counts_as_full(wrapper, truncates):
    """Nobody acts in the last state of an episode, terminated or truncated."""
    env = wrapper(Recorder([1, 1, 1], final_mask=[0, 0, 0], truncates=truncates))
    _, info = env.reset(seed=0)
    obs, _, terminated, truncated, info = env.step(int(info["action_mask"].argmax()))
    assert (terminated, truncated) == (not truncates, truncates)
    assert obs["action_mask"].any()
    if wrapper is MaskInObservation:
        assert obs["action_mask"].all()


def test_infeasible_distribution_error():
    env = StochasticActionSets(Recorder(mask=[0, 0, 1]), Explicit([[1, 1, 0]], [1.0]))
    with pytest.raises(ValueError, match="no possible action is ever available"):
        env.reset()


def test_mask_from_info_goes_into_observation():
    env: Any = MaskInObservation(gym.make(TAXI))
    obs, info = env.reset(seed=0)
    expected = env.unwrapped.action_mask(int(obs["observation"]))
    for mask in (obs["action_mask"], info["action_mask"], env.action_masks()):
        np.testing.assert_array_equal(mask, expected)
    assert obs in env.observation_space


def test_mask_from_method_goes_into_observation():
    inner = InvalidActionEnvDiscrete(dim=6, n_invalid_actions=3)
    env = MaskInObservation(inner)
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        np.testing.assert_array_equal(obs["action_mask"], inner.action_masks())
        obs, *_ = env.step(inner.state)


def test_no_mask_error():
    with pytest.raises(ValueError, match=r"no action mask: .*return info\['act"):
        MaskInObservation(gym.make("CartPole-v1")).reset()


def test_repair_replaces_only_unavailable_actions():
    recorder = Recorder(mask=[1, 0, 1])
    env = RepairAction(recorder)
    env.reset(seed=0)
    repaired = [env.step(1)[-1]["repaired"] for _ in range(2000)]
    assert all(repaired)
    assert_frequencies(np.bincount(recorder.taken, minlength=3), [0.5, 0.0, 0.5])
    recorder.taken.clear()
    assert not any(env.step(2)[-1]["repaired"] for _ in range(10))
    assert recorder.taken == [2] * 10


def test_seed_replays_repairs():
    taken = []
    for _ in range(2):
        recorder = Recorder(mask=[1, 0, 1])
        env = RepairAction(recorder)
        env.reset(seed=5)
        for _ in range(50):
            env.step(1)
        taken.append(recorder.taken)
    assert taken[0] == taken[1]


def test_mask_blind_agent_is_repaired():
    """DQN acts outside the sets; without the repairs the environment would raise."""

    class CountRepairs(gym.Wrapper):
        repairs = steps = 0

        def step(self, action):
            *returned, info = self.env.step(action)
            self.repairs += info["repaired"]
            self.steps += 1
            return *returned, info

    bare = gym.make("SAS/SanFrancisco-v0", mask_in_observation=False)
    env = CountRepairs(RepairAction(bare))
    model = DQN("MlpPolicy", env, learning_starts=10, seed=0).learn(200)
    assert model._n_updates > 0
    assert env.steps == 200
    assert 0 < env.repairs < 200
    blind = DQN("MlpPolicy", bare, learning_starts=10, seed=0)
    with pytest.raises(ValueError, match="unavailable action"):
        blind.learn(200)
