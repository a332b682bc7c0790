"""A SAS-MDP given by its arrays plays as they say."""

import subprocess
import sys
from unittest.mock import Mock

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from helpers import brute_force
from helpers.small_mdps import KINDS, mdps, random_mdp
from helpers.statistical import assert_frequencies, set_numbers
from hypothesis import given, settings
from scipy import sparse

import sas_gym
from sas_gym import BayArea, Maze, SanFrancisco, SASEnv, SASVectorEnv, ThetaTwoTheta
from sas_gym.action_sets import Explicit, Grouped, Markov
from sas_gym.planning import TabularSASMDP

NUM_DRAWS = 20_000


@settings(max_examples=20)
@given(mdp=mdps)
def test_states_have_their_probabilities(mdp):
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
def test_sets_have_their_probabilities(mdp):
    shape = (NUM_DRAWS, mdp.action_sets.num_uniforms(mdp.num_actions))
    uniforms = np.random.default_rng(0).random(shape)
    for number, probs in enumerate(brute_force.set_probs_by_state(mdp)):
        state = np.full(NUM_DRAWS, number)
        mask = mdp.action_sets.sets_from(uniforms, state, mdp.possible(state))
        expected = brute_force.by_number(probs, mdp.num_actions)
        counts = np.bincount(set_numbers(mask), minlength=len(expected))
        assert_frequencies(counts, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_playable_as_environment(kind):
    env = SASEnv(random_mdp(3, 5, 4, kind, ends=True))
    sas_gym.check_env(env, skip_render_check=True)
    lenient = SASEnv(env.task, on_unavailable="repair")
    gymnasium_check_env(lenient, skip_render_check=True)


def test_step_takes_a_fixed_number_of_random_numbers():
    mdp = random_mdp(0, 6, 4, ends=True)
    first, second = np.random.default_rng(0), np.random.default_rng(0)
    mdp.transition(np.zeros(10, int), mdp.possible_actions[[0] * 10].argmax(1), first)
    state = np.full(10, mdp.num_states - 1)
    mdp.transition(state, np.zeros(10, int), second)
    assert first.random() == second.random()


def test_dense_and_sparse_transitions_are_equal():
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


def test_users_matrix_is_left_alone():
    """Zeros that are written out are dropped from a copy."""
    written = [[0.0, 1.0], [0.5, 0.5]]
    indices, indptr = np.array([0, 1, 0, 1]), np.array([0, 2, 4])
    matrix = sparse.csr_array((np.ravel(written), indices, indptr), shape=(2, 2))
    mdp = TabularSASMDP(matrix, np.zeros((2, 1)), 0.5)
    assert mdp.transition_matrix.nnz == 3
    assert matrix.nnz == 4
    np.testing.assert_array_equal(matrix.toarray(), written)


def test_road_graph_stays_sparse():
    mdp = SanFrancisco().tabular()
    assert mdp.transition_matrix.nnz == mdp.possible_actions.sum() == 88
    assert SASVectorEnv(mdp, 8).reset(seed=0)[0]["observation"].shape == (8,)


@pytest.mark.parametrize(
    "task", [SanFrancisco(0.4, start=5), BayArea(), ThetaTwoTheta()]
)
def test_tabular_form_equals_task(task):
    """Every action in every state leads where the task says."""
    mdp, rng = task.tabular(), np.random.default_rng(0)
    for state, action in np.argwhere(mdp.possible_actions):
        one = np.array([state]), np.array([action]), rng
        if not mdp.is_terminal[state]:
            assert mdp.transition(*one) == task.transition(*one)
    starts = np.bincount(task.reset(5000, rng), minlength=mdp.num_states)
    assert_frequencies(starts, mdp.initial_distribution)


def test_tabular_form_has_the_environments_action_sets():
    groups = Grouped([0, 0, 1, 1, 1], [0.3, 0.9])
    for env in (
        gym.make("SAS/SanFrancisco-v0", action_sets=groups).unwrapped,
        gym.make_vec("SAS/SanFrancisco-v0", 2, action_sets=groups).unwrapped,
    ):
        assert isinstance(env, SASEnv | SASVectorEnv)
        mdp, state = env.tabular(), np.arange(28)
        uniforms = np.random.default_rng(0).random((28, 2))
        np.testing.assert_array_equal(
            mdp.action_sets.sets_from(uniforms, state, mdp.possible(state)),
            groups.sets_from(uniforms, state, env.task.possible(state)),
        )


def test_task_without_tabular_form():
    assert Maze().tabular() is None
    for env in (SASEnv(Maze), SASVectorEnv(Maze, 2)):
        with pytest.raises(ValueError, match="Maze has no tabular form"):
            env.tabular()


def test_replace_keeps_the_rest():
    mdp = random_mdp(0, ends=True, gamma=0.9)
    changed = mdp.replace(gamma=0.5, horizon=7)
    assert (changed.gamma, changed.horizon, mdp.gamma) == (0.5, 7, 0.9)
    np.testing.assert_array_equal(changed.reward, mdp.reward)
    np.testing.assert_array_equal(changed.is_terminal, mdp.is_terminal)
    assert changed.transition_matrix is mdp.transition_matrix
    changed = mdp.replace(action_sets=0.5, gamma=0.5, horizon=7)
    assert changed.transition_matrix is mdp.transition_matrix
    richer = mdp.replace(reward=mdp.reward + 1, horizon=7)
    np.testing.assert_array_equal(richer.reward, mdp.reward + 1)
    assert (richer.gamma, richer.horizon) == (0.9, 7)
    for invalid in ({"gamma": 2.0}, {"horizon": 0}, {"action_sets": 0.0}):
        with pytest.raises(ValueError, match=f"{next(iter(invalid))}|availability"):
            mdp.replace(**invalid)
    with pytest.raises(TypeError, match=r"unexpected arguments \['discount'\]"):
        mdp.replace(discount=0.5)


def test_large_graph_stays_in_its_row():
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


def test_largest_random_number_stays_in_its_row():
    """Added to the number of a row it is rounded to that of the next one."""
    stay = np.repeat(np.eye(3)[:, None], 2, axis=1)
    mdp = TabularSASMDP(stay, np.zeros((3, 2)), 1.0)
    largest = np.nextafter(1.0, 0.0)
    assert 1 + largest == 2
    rng = Mock(random=lambda size: np.full(size, largest))
    next_state, *_ = mdp.transition(np.arange(3), np.ones(3, int), rng)
    assert next_state.tolist() == [0, 1, 2]


TWO = {
    "transition": np.full((2, 2, 2), 0.5),
    "reward": np.zeros((2, 2)),
    "action_sets": 0.5,
}
HALF = np.array([[[0.5, 0.4], [0.5, 0.5]]] * 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": [0.0, 1.0]}, r"reward must have one row per state .* shape \(2,\)"),
        ({"reward": [[0, np.nan], [0, 0]]}, r"reward must be finite; .* states \[0\]"),
        (
            {"transition": np.ones((2, 3, 2))},
            r"shape \(2, 2, 2\), by the shape of reward",
        ),
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
        ({"initial_distribution": [1.0]}, "one entry per state"),
        ({"initial_distribution": [0.7, 0.7]}, "sum to 1; got sum 1.4"),
        ({"initial_distribution": [1.5, -0.5]}, "smallest -0.5"),
        (
            {"initial_distribution": [1.0, 0.0], "terminal_states": [0]},
            r"0 in terminal states; it is not in states \[0\]",
        ),
        ({"terminal_states": [0, 1]}, "leave a state to start from"),
        ({"terminal_states": [2]}, r"terminal_states \[2\] do not exist"),
        ({"terminal_states": [0.5]}, "terminal_states must be numbers"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], got 1.5"),
        ({"horizon": 0}, "horizon must be an integer of at least 1"),
        ({"horizon": 1.5}, "horizon must be an integer of at least 1"),
        ({"action_sets": [0.5] * 3}, "availability must have 2 columns"),
        ({"action_sets": Markov(0.5, 0.5)}, r"no action is left in states \[0, 1\]"),
        ({"reward": [[0.0, 1e300], [0.0, 0.0]]}, r"larger than 1e\+150.* states \[0\]"),
    ],
)
def test_invalid_arrays_error(options, message):
    with pytest.raises(ValueError, match=message):
        TabularSASMDP(**{**TWO, **options})


@pytest.mark.parametrize(
    "action_sets", [[0.0, 0.5], Grouped([0, 1], [0.0, 0.5]), Explicit([[0, 1]], [1.0])]
)
def test_infeasible_state_error(action_sets):
    """Found when the MDP is built, not on arrival in the state."""
    transition = np.array([[[0.5, 0.5], [0.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]])
    with pytest.raises(ValueError, match=r"no possible action .* in states \[0\]"):
        TabularSASMDP(transition, np.zeros((2, 2)), action_sets)


def test_import_loads_no_scipy():
    script = "import sys, sas_gym; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
