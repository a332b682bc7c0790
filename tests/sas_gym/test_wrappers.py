"""Any environment with discrete actions can have action sets."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from helpers.statistical import assert_frequencies, independent_law, set_numbers
from sb3_contrib.common.envs import InvalidActionEnvDiscrete

import sas_gym
from sas_gym import MaskInObservation, RepairAction, StochasticActionSets
from sas_gym.action_sets import Explicit, Independent, Markov, PerEpisode
from sas_gym.masks import sample_actions

TAXI = gym.envs.registration.get_env_id(
    None, "Taxi", gym.envs.registration.find_highest_version(None, "Taxi")
)


class Recorder(gym.Env):
    """Tells which actions reach it, and whichever mask it is given."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Discrete(4)

    def __init__(self, mask=None, final_mask=None):
        self.mask, self.final_mask = mask, final_mask
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
        return np.int64(len(self.taken) % 4), 1.0, ended, False, info


def random_masks(env, num_steps, seed=0):
    """Play at random inside the sets; return the masks, [T, A], and observations."""
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


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", TAXI, "FrozenLake-v1", "Blackjack-v1"]
)
@pytest.mark.parametrize("law", [0.6, Markov(0.5, 0.2), PerEpisode(0.5)])
# CartPole's observations are unbounded, of which Gymnasium's checker warns.
@pytest.mark.filterwarnings("ignore:.*A Box observation space .*imum value is")
def test_wrapped_environments_keep_the_contract(env_id, law):
    env = StochasticActionSets(gym.make(env_id), law)
    sas_gym.check_env(env, skip_render_check=True)


def test_sets_of_a_wrapped_environment_have_their_law():
    masks, _ = random_masks(StochasticActionSets(Recorder(), [0.2, 0.5, 0.1]), 20_000)
    counts = np.bincount(set_numbers(masks), minlength=8)
    assert_frequencies(counts, independent_law([0.2, 0.5, 0.1]))


def test_a_law_may_differ_by_a_discrete_observation():
    table = np.eye(4, 3) * 0.5 + 0.25
    masks, seen = random_masks(StochasticActionSets(Recorder(), table), 20_000)
    states = np.array([obs["observation"] for obs in seen])
    for state in range(4):
        counts = np.bincount(set_numbers(masks[states == state]), minlength=8)
        assert_frequencies(counts, independent_law(table[state]))


def test_an_environments_own_mask_is_intersected_and_stays_non_empty():
    env = StochasticActionSets(Recorder(mask=[1, 0, 1]), 0.1)
    masks, _ = random_masks(env, 20_000)
    counts = np.bincount(set_numbers(masks), minlength=8)
    assert_frequencies(counts, independent_law([0.1, 0.0, 0.1]))


def test_taxis_own_mask_is_respected():
    env = StochasticActionSets(gym.make(TAXI), 0.3)
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


def test_wrapping_leaves_the_environments_own_randomness_alone():
    """With everything available, the wrapped environment plays as the bare one."""
    bare, wrapped = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    wrapped = StochasticActionSets(wrapped, 1.0, mask_in_observation=False)
    bare.reset(seed=3)
    wrapped.reset(seed=3)
    for action in (0, 1, 1, 0, 1):
        one, other = bare.step(action), wrapped.step(action)
        assert data_equivalence(one[:4], other[:4], exact=True)


def test_a_seed_replays_a_wrapped_environment():
    first, second, other = (
        random_masks(StochasticActionSets(gym.make("CartPole-v1"), 0.5), 100, seed)[0]
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_an_unavailable_action_does_not_reach_the_environment():
    recorder = Recorder()
    env = StochasticActionSets(recorder, [0.0, 1.0, 0.0])
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"unavailable action: 2 is not in .* \[1\]"):
        env.step(2)
    with pytest.raises(ValueError, match="action 3 is not in Discrete"):
        env.step(3)
    env.step(1)
    assert recorder.taken == [1]


def test_a_noop_does_not_step_the_environment_and_costs_the_penalty():
    recorder = Recorder()
    env = StochasticActionSets(
        recorder, [0.0, 1.0, 0.0], on_unavailable="noop", unavailable_penalty=2.0
    )
    before, _ = env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step(0)
    assert data_equivalence(obs, before)
    assert (reward, terminated, truncated, recorder.taken) == (-2.0, False, False, [])
    np.testing.assert_array_equal(info["action_mask"], [0, 1, 0])


def test_a_dict_observation_keeps_its_keys():
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


def test_a_space_that_does_not_start_at_zero_is_served():
    recorder = Recorder()
    recorder.action_space = gym.spaces.Discrete(3, start=5)
    env = StochasticActionSets(recorder, [1.0, 0.0, 1.0])
    random_masks(env, 50)
    assert set(recorder.taken) == {5, 7}
    with pytest.raises(ValueError, match="unavailable action: 6"):
        env.step(6)


def test_a_continuous_action_space_is_an_error():
    with pytest.raises(ValueError, match="need a Discrete action space, got Box"):
        StochasticActionSets(gym.make("Pendulum-v1"))


def test_a_law_by_state_needs_a_discrete_observation():
    with pytest.raises(ValueError, match="are not numbered"):
        StochasticActionSets(gym.make("CartPole-v1"), Independent(np.full((5, 2), 0.5)))


def test_a_mask_of_the_wrong_shape_is_named():
    env = StochasticActionSets(Recorder(mask=[1, 1]), 0.5)
    with pytest.raises(ValueError, match=r"info\['action_mask'\] must have .* \(3,\)"):
        env.reset()


def test_an_environment_that_offers_nothing_is_named():
    with pytest.raises(
        ValueError, match="offers no action in a state that is not final"
    ):
        MaskInObservation(Recorder(mask=[0, 0, 0])).reset()


@pytest.mark.parametrize("wrapper", [MaskInObservation, StochasticActionSets])
def test_a_final_state_that_offers_nothing_counts_as_offering_everything(wrapper):
    env = wrapper(Recorder(mask=[1, 1, 1], final_mask=[0, 0, 0]))
    _, info = env.reset(seed=0)
    obs, _, terminated, _, info = env.step(int(info["action_mask"].argmax()))
    assert terminated
    assert obs["action_mask"].any()


def test_a_law_that_excludes_all_that_is_possible_is_an_error():
    env = StochasticActionSets(Recorder(mask=[0, 0, 1]), Explicit([[1, 1, 0]], [1.0]))
    with pytest.raises(ValueError, match="no set of the law contains an action"):
        env.reset()


def test_a_mask_in_the_info_goes_into_the_observation():
    env = MaskInObservation(gym.make(TAXI))
    obs, info = env.reset(seed=0)
    expected = env.unwrapped.action_mask(int(obs["observation"]))
    for told in (obs["action_mask"], info["action_mask"], env.action_masks()):
        np.testing.assert_array_equal(told, expected)
    assert obs in env.observation_space


def test_a_mask_from_a_method_goes_into_the_observation():
    inner = InvalidActionEnvDiscrete(dim=6, n_invalid_actions=3)
    env = MaskInObservation(inner)
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        np.testing.assert_array_equal(obs["action_mask"], inner.action_masks())
        obs, *_ = env.step(inner.state)


def test_no_mask_anywhere_is_an_error():
    with pytest.raises(ValueError, match=r"tells no action mask: return info\['action"):
        MaskInObservation(gym.make("CartPole-v1")).reset()


def test_an_unavailable_action_is_repaired_and_an_available_one_kept():
    recorder = Recorder(mask=[1, 0, 1])
    env = RepairAction(recorder)
    env.reset(seed=0)
    repaired = [env.step(1)[-1]["repaired"] for _ in range(2000)]
    assert all(repaired)
    assert_frequencies(np.bincount(recorder.taken, minlength=3), [0.5, 0.0, 0.5])
    recorder.taken.clear()
    assert not any(env.step(2)[-1]["repaired"] for _ in range(10))
    assert recorder.taken == [2] * 10


def test_a_seed_replays_the_repairs():
    taken = []
    for _ in range(2):
        recorder = Recorder(mask=[1, 0, 1])
        env = RepairAction(recorder)
        env.reset(seed=5)
        for _ in range(50):
            env.step(1)
        taken.append(recorder.taken)
    assert taken[0] == taken[1]


def test_a_mask_blind_agent_runs_on_a_repaired_environment():
    from stable_baselines3 import DQN

    env = RepairAction(gym.make("SAS/SanFrancisco-v0", mask_in_observation=False))
    DQN("MlpPolicy", env, learning_starts=10, seed=0).learn(200)
