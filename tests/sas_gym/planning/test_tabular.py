"""A SAS-MDP told by its arrays plays as they say."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from helpers.small_mdps import brute_force_laws, mdps, random_mdp
from helpers.statistical import assert_frequencies, set_numbers
from hypothesis import given, settings
from scipy import sparse

import sas_gym
from sas_gym import BayArea, Maze, SanFrancisco, SASEnv, SASVectorEnv, ThetaTwoTheta
from sas_gym.action_sets import Explicit, Grouped, Markov, PerEpisode
from sas_gym.planning._tabular import TabularSASMDP

NUM_DRAWS = 20_000


@settings(max_examples=20)
@given(mdp=mdps)
def test_states_are_drawn_as_the_arrays_say(mdp):
    rng = np.random.default_rng(0)
    starts = np.bincount(mdp.reset(NUM_DRAWS, rng), minlength=mdp.num_states)
    assert_frequencies(starts, mdp.initial_distribution)
    state, action = np.argwhere(mdp.possible_actions & ~mdp.is_terminal[:, None])[-1]
    next_state, reward, ended = mdp.transition(
        np.full(NUM_DRAWS, state), np.full(NUM_DRAWS, action), rng
    )
    counts = np.bincount(next_state, minlength=mdp.num_states)
    row = mdp.transition_matrix.toarray()[state * mdp.num_actions + action]
    assert_frequencies(counts, row)
    assert (reward == mdp.reward[state, action]).all()
    np.testing.assert_array_equal(ended, mdp.is_terminal[next_state])


@settings(max_examples=20)
@given(mdp=mdps)
def test_sets_are_drawn_as_the_law_says_of_what_a_state_has(mdp):
    law = mdp.action_sets
    row = np.random.default_rng(0).random(
        (NUM_DRAWS, law.num_uniforms(mdp.num_actions))
    )
    for state, chances in enumerate(brute_force_laws(mdp)):
        mask = law.sets_from(row, np.full(NUM_DRAWS, state))
        expected = np.zeros(1 << mdp.num_actions)
        for actions, chance in chances.items():
            expected[sum(1 << action for action in actions)] = chance
        counts = np.bincount(set_numbers(mask), minlength=len(expected))
        assert_frequencies(counts, expected)


@pytest.mark.parametrize("kind", ["independent", "grouped", "explicit"])
def test_one_built_by_hand_is_a_playable_environment(kind):
    env = SASEnv(random_mdp(3, 5, 4, kind, ends=True))
    sas_gym.check_env(env, skip_render_check=True)
    lenient = SASEnv(env.task, on_unavailable="noop")
    gymnasium_check_env(lenient, skip_render_check=True)


def test_a_step_takes_the_same_number_of_random_numbers_always():
    mdp = random_mdp(0, 6, 4, ends=True)
    first, second = np.random.default_rng(0), np.random.default_rng(0)
    mdp.transition(np.zeros(10, int), mdp.possible_actions[[0] * 10].argmax(1), first)
    state = np.full(10, mdp.num_states - 1)
    mdp.transition(state, np.zeros(10, int), second)
    assert first.random() == second.random()


def test_dense_and_sparse_transitions_are_one_task():
    dense = random_mdp(1, 5, 3)
    array = dense.transition_matrix.toarray()
    for matrix in (
        array.reshape(5, 3, 5),
        array,
        sparse.coo_array(array),
        sparse.csr_matrix(array),
    ):
        twin = TabularSASMDP(matrix, dense.reward, dense.action_sets)
        np.testing.assert_array_equal(twin.transition_matrix.toarray(), array)
        np.testing.assert_array_equal(twin.possible_actions, dense.possible_actions)


def test_a_road_graph_stays_sparse():
    mdp = SanFrancisco().tabular()
    assert mdp.transition_matrix.nnz == mdp.possible_actions.sum() == 88
    assert SASVectorEnv(mdp, 8).reset(seed=0)[0]["observation"].shape == (8,)


@pytest.mark.parametrize(
    "task", [SanFrancisco(0.4, start=5), BayArea(), ThetaTwoTheta()]
)
def test_a_discrete_task_gives_itself_as_arrays(task):
    """Every action in every state leads where the task says."""
    mdp, rng = task.tabular(), np.random.default_rng(0)
    for state, action in np.argwhere(mdp.possible_actions):
        one = np.array([state]), np.array([action]), rng
        if not mdp.is_terminal[state]:
            assert mdp.transition(*one) == task.transition(*one)
    starts = np.bincount(task.reset(5000, rng), minlength=mdp.num_states)
    assert_frequencies(starts, mdp.initial_distribution)


def test_the_arrays_have_the_law_that_is_played():
    law = Grouped([0, 0, 1, 1, 1], [0.3, 0.9])
    for env in (
        gym.make("SAS/SanFrancisco-v0", action_sets=law).unwrapped,
        gym.make_vec("SAS/SanFrancisco-v0", 2, action_sets=law).unwrapped,
    ):
        mdp = env.tabular()
        row = np.random.default_rng(0).random((28, 2))
        state = np.arange(28)
        possible = env.task.possible(state)
        np.testing.assert_array_equal(
            mdp.action_sets.sets_from(row, state), law.sets_from(row, state, possible)
        )


def test_a_continuous_task_says_that_it_has_no_arrays():
    with pytest.raises(ValueError, match="Maze does not give itself as arrays"):
        gym.make("SAS/Maze-v0").unwrapped.tabular()
    with pytest.raises(ValueError, match="Maze does not give itself"):
        SASVectorEnv(Maze, 2).tabular()


def test_replace_changes_what_it_is_told_and_keeps_the_rest():
    mdp = random_mdp(0, ends=True, gamma=0.9)
    changed = mdp.replace(gamma=0.5, horizon=7)
    assert (changed.gamma, changed.horizon, mdp.gamma) == (0.5, 7, 0.9)
    np.testing.assert_array_equal(changed.reward, mdp.reward)
    np.testing.assert_array_equal(changed.is_terminal, mdp.is_terminal)
    with pytest.raises(TypeError, match=r"no \['discount'\]"):
        mdp.replace(discount=0.5)


def test_a_large_graph_is_drawn_from_without_leaving_a_row():
    """Rounding along a line of a million rows must not reach a neighbour's states."""
    size = 250_000
    rows = np.arange(4 * size)
    first, second = rows // 4, (rows // 4 + 1) % size
    entries = np.full(len(rows), 0.5)
    matrix = sparse.coo_array(
        (np.tile(entries, 2), (np.tile(rows, 2), np.concatenate([first, second]))),
        shape=(4 * size, size),
    )
    mdp = TabularSASMDP(matrix, np.zeros((size, 4)), 1.0)
    state = np.arange(size)
    next_state, *_ = mdp.transition(state, np.full(size, 3), np.random.default_rng(0))
    assert np.isin((next_state - state) % size, (0, 1)).all()


TWO = {
    "transition": np.full((2, 2, 2), 0.5),
    "reward": np.zeros((2, 2)),
    "action_sets": 0.5,
}
HALF = np.array([[[0.5, 0.4], [0.5, 0.5]]] * 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": [0.0, 1.0]}, r"reward must have a row a state .* shape \(2,\)"),
        ({"reward": [[0, np.nan], [0, 0]]}, r"reward must be finite; .* states \[0\]"),
        ({"transition": np.ones((2, 3, 2))}, r"shape \(2, 2, 2\) of the rewards"),
        ({"transition": HALF}, "action 0 in state 0 must be probabilities"),
        ({"transition": np.full((2, 2, 2), np.nan)}, "action 0 in state 0"),
        (
            {"transition": [[[0.5, 0.5]] * 2, [[0.5, 0.5], [1.5, -0.5]]]},
            "action 1 in state 1 must be probabilities",
        ),
        (
            {"transition": [[[0.0, 0.0]] * 2, [[0.5, 0.5]] * 2]},
            r"zero for every action in states \[0\]",
        ),
        ({"initial_distribution": [1.0]}, "one number a state"),
        ({"initial_distribution": [0.7, 0.7]}, "sum to 1; got sum 1.4"),
        ({"initial_distribution": [1.5, -0.5]}, "smallest -0.5"),
        (
            {"initial_distribution": [1.0, 0.0], "terminal_states": [0]},
            r"starts in the terminal states \[0\]",
        ),
        ({"terminal_states": [0, 1]}, "leave a state to start from"),
        ({"terminal_states": [2]}, r"terminal_states \[2\] are no states"),
        ({"terminal_states": [0.5]}, "terminal_states must be numbers"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], got 1.5"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"action_sets": [0.5] * 3}, "availability must have 2 columns"),
        ({"action_sets": PerEpisode(0.5)}, "PerEpisode is outside the SAS-MDP model"),
        ({"action_sets": Markov(0.5, 0.5)}, "Markov is outside the SAS-MDP model"),
    ],
)
def test_what_makes_no_sense_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        TabularSASMDP(**{**TWO, **options})


def test_a_law_that_offers_nothing_a_state_has_is_named():
    transition = np.array([[[0.5, 0.5], [0.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]])
    with pytest.raises(ValueError, match=r"availability is 0 .* in states \[0\]"):
        TabularSASMDP(transition, np.zeros((2, 2)), [0.0, 0.5])
    mdp = TabularSASMDP(transition, np.zeros((2, 2)), Explicit([[0, 1]], [1.0]))
    with pytest.raises(ValueError, match="no set of the law"):
        mdp.action_sets.sets_from(np.array([[0.5]]), np.array([0]))


def test_importing_the_package_loads_no_scipy():
    script = "import sys, sas_gym; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
