"""Environments of a study: ours, guests with masks of any kind, and tasks."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.agents import TAXI

import sas_gym
from sas_agents.study import EnvironmentSettings, Evaluation, Study, execute
from sas_agents.study.definition._algorithms import ALGORITHMS, MaskChannel
from sas_agents.study.definition._environments import find_spec, make_problem
from sas_agents.study.running._acting import Actor
from sas_agents.study.running._before import check_environments
from sas_agents.study.running._envs import evaluation_env, make_env, training_env
from sas_agents.study.running._evaluation import played_at_random
from sas_agents.study.running._references import reference_returns

pytestmark = pytest.mark.slow

# By where the mask is: the environment, its arguments, and a policy for all.
GUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "info": (TAXI, {}, "MlpPolicy"),
    "method": (
        "sb3_contrib.common.envs:InvalidActionEnvDiscrete",
        {"dim": 5, "n_invalid_actions": 3},
        "MlpPolicy",
    ),
    "nowhere": ("CartPole-v1", {"availability": 0.5}, "MlpPolicy"),
    "both": ("examples.dispatch:sas_examples/Dispatch-v0", {}, "MultiInputPolicy"),
    "named": ("helpers.boards:InKey", {"mask": "valid_mask"}, "MultiInputPolicy"),
    "a task's": ("sas_gym:SanFrancisco", {"max_episode_steps": 9}, "MlpPolicy"),
}
BY_CHANNEL = {
    "observation": "MaskedPPO",
    "method": "MaskablePPO",
    "repair": "RepairedDQN",
}


@pytest.mark.parametrize("channel", BY_CHANNEL)
@pytest.mark.parametrize("guest", GUESTS)
def test_every_kind_of_environment_runs(guest: str, channel: str, tiny: Study) -> None:
    """Wherever the masks are, an algorithm of every kind learns, and repeats itself."""
    environment, arguments, policy = GUESTS[guest]
    algorithm = BY_CHANNEL[channel]
    short = {"n_steps": 16, "batch_size": 16}
    run = replace(
        tiny.runs()[0].run,
        environment=environment,
        environment_arguments=arguments,
        algorithm=algorithm,
        policy=policy,
        arguments={"learning_starts": 8} if channel == "repair" else short,
        num_steps=64,
        evaluation=Evaluation(1, 3, 5),
    )
    result = execute(run)
    is_greedy = channel == "repair"
    assert set(result["final"]) == {"greedy"} | (set() if is_greedy else {"sampled"})
    of_task = guest == "a task's"  # Tabular: nothing is played.
    assert result["curve"]["num_episodes"] == ([0, 0] if of_task else [3, 3])
    assert result["final"]["greedy"]["num_episodes"] == (0 if of_task else 5)
    again = execute(run)
    assert again["curve"] == result["curve"]
    assert again["final"] == result["final"]
    assert again["random"] == result["random"]


@pytest.mark.parametrize("channel", BY_CHANNEL)
@pytest.mark.parametrize("guest", GUESTS)
def test_evaluation_has_masks_in_info(guest: str, channel: MaskChannel) -> None:
    """They are what the environment allows, and only ours see them as an input."""
    environment, arguments, _ = GUESTS[guest]
    env = evaluation_env(make_problem(environment, arguments), channel, 4, seed=0)
    actions: Any = env.single_action_space
    obs, infos = env.reset(seed=0)
    for _ in range(20):
        masks = infos["action_mask"]
        assert masks.shape == (4, actions.n)
        sees_mask = isinstance(obs, dict) and "action_mask" in obs
        assert sees_mask == (channel == "observation")
        if sees_mask:
            np.testing.assert_array_equal(obs["action_mask"], masks)
        obs, _, terminated, truncated, infos = env.step(masks.argmax(axis=1))
        np.testing.assert_array_equal(env.episode_starts, terminated | truncated)
    env.close()


def test_availability_of_a_guest_wraps_it() -> None:
    """An environment without sets gets them; one that draws its own is asked."""
    cartpole = make_env(make_problem("CartPole-v1", {"availability": 0.3}))
    assert isinstance(cartpole, sas_gym.StochasticActionSets)
    sets: Any = cartpole.action_sets
    np.testing.assert_allclose(sets.availability, 0.3)
    markov = {"action_sets": {"Markov": [0.1, [0.0, 0.05]]}}
    cartpole = make_env(make_problem("CartPole-v1", markov))
    assert isinstance(
        cartpole.get_wrapper_attr("action_sets"), sas_gym.action_sets.Markov
    )
    maze = make_env(make_problem("SAS/Maze-v0", {"availability": 0.3}))
    assert not isinstance(maze, sas_gym.StochasticActionSets)


def test_mask_of_a_guest_stays_as_it_is(tiny: Study) -> None:
    """A study that names no availability draws no sets; without a mask it says so."""
    assert EnvironmentSettings(TAXI).variants() == [{}]
    taxi = make_env(make_problem(TAXI, {}))
    assert not taxi.has_wrapper_attr("action_sets")
    run = replace(tiny.runs()[0].run, environment=TAXI, environment_arguments={})
    check_environments([run])
    cartpole = replace(run, environment="CartPole-v1")
    with pytest.raises(ValueError, match=r"cannot make CartPole-v1.*no action mask.*"):
        check_environments([cartpole])


def test_task_is_stepped_at_once_and_has_an_optimum() -> None:
    """A function that returns a task gives what its id would."""
    problem = make_problem("sas_gym:SanFrancisco", {"max_episode_steps": 30})
    venv = training_env(problem, "observation", 4, seed=0)
    assert isinstance(venv.unwrapped.vector_env, sas_gym.SASVectorEnv)
    assert venv.unwrapped.vector_env.max_episode_steps == 30
    arguments = {"availability": 0.2, "max_episode_steps": 30}
    reference = reference_returns("sas_gym:SanFrancisco", arguments)
    assert reference == reference_returns("SAS/SanFrancisco-v0", {"availability": 0.2})
    assert reference["optimal"] == pytest.approx(3.967, abs=1e-3)


@pytest.mark.parametrize(
    "name", ["SAS/Mace-v0", "no_module:Maze", "sas_gym:Mace", "sas_gym:__version__"]
)
def test_unknown_environment_is_named(name: str) -> None:
    """The message says how an environment is written."""
    with pytest.raises(ValueError, match=f"no environment '{name}'.*'module:name'"):
        find_spec(name)


def test_time_limit_of_an_entry_point() -> None:
    """`max_episode_steps` truncates whatever an entry point returns."""
    name = "gymnasium.envs.classic_control:CartPoleEnv"
    arguments = {"availability": 1.0, "max_episode_steps": 3}
    env = make_env(make_problem(name, arguments))
    env.reset(seed=0)
    assert [env.step(index % 2)[3] for index in range(3)] == [False, False, True]
    assert find_spec(name) is None
    assert isinstance(find_spec("CartPole-v1"), gym.envs.registration.EnvSpec)


class Memory:
    """A model that counts the steps of each episode, and plays at random."""

    def __init__(self) -> None:
        self.longest = 0
        self.policy = sas_gym.RandomPolicy()

    def predict(
        self, obs: Any, state: Any, episode_start: Any, deterministic: bool
    ) -> Any:
        counts = np.zeros(len(episode_start)) if state is None else state
        counts = np.where(episode_start, 0, counts) + 1
        self.longest = max(self.longest, int(counts.max()))
        return self.policy.predict(obs)[0], counts


def test_memory_starts_anew_with_each_episode() -> None:
    """It is handed on from step to step, and never from one episode to the next."""
    problem = make_problem("sas_gym:SanFrancisco", {"max_episode_steps": 7})
    env = evaluation_env(problem, "observation", 5, seed=0)
    model = Memory()
    actor = Actor(ALGORITHMS["MaskedRecurrentPPO"], model, greedy=False)
    sas_gym.episode_returns(
        env,
        lambda obs, masks: actor.actions(obs, masks, env.episode_starts),
        num_episodes=20,
        seed=0,
    )
    assert model.longest == 7


def test_random_play_repeats_itself_and_disturbs_nobody() -> None:
    """Also where an environment draws from NumPy's shared numbers, as this one does."""
    environment, arguments, _ = GUESTS["method"]
    problem = make_problem(environment, arguments)
    before = np.random.get_state(legacy=False)  # noqa: NPY002  # what it draws from
    first = played_at_random(problem, num_episodes=3)
    after = np.random.get_state(legacy=False)  # noqa: NPY002  # likewise
    np.testing.assert_equal(after, before)
    np.random.seed(5)  # noqa: NPY002  # likewise
    assert played_at_random(problem, num_episodes=3) == first
