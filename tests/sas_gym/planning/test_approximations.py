"""The approximations of the continuous tasks are right where the answer is known."""

import numpy as np
import pytest
from helpers.brute_force import independent_set_probs
from helpers.statistical import ERROR_RATE, assert_frequencies, assert_mean
from scipy import stats

from sas_gym import Maze, Recommender, SASVectorEnv, episode_returns
from sas_gym.action_sets._set_lists import subsets
from sas_gym.planning import Solution, backward_induction
from sas_gym.planning.approximations._maze import GridPolicy, MazeGrid
from sas_gym.planning.approximations._recommender import (
    FittedPlan,
    _distinct,
    _distorted,
    best_available,
    bounds,
    plan_returns,
    relaxed_excess,
)


def free_positions(maze, num_positions, seed):
    position = np.random.default_rng(seed).random((num_positions, 2))
    return position[maze.is_free(position)]


def test_interpolation_reproduces_a_plane():
    grid = MazeGrid(Maze(walls=(), goal=(0.9, 0.91, 0.9, 0.91)), 10)
    # Within the outermost centres: beyond them values are held.
    position = 0.05 + 0.9 * free_positions(grid.maze, 500, seed=0)
    plane = grid.nodes[grid.is_state] @ [2.0, -3.0] + 1.0
    np.testing.assert_allclose(
        grid.weights(position) @ plane, position @ [2.0, -3.0] + 1.0, atol=1e-7
    )


def test_interpolation_holds_values_at_the_border():
    """The corners of the square have the values of the outermost centres."""
    grid = MazeGrid(Maze(walls=(), goal=(0.4, 0.6, 0.4, 0.6)), 10)
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(
        grid.weights(corners) @ grid.nodes[grid.is_state],
        [[0.05, 0.05], [0.05, 0.95], [0.95, 0.05], [0.95, 0.95]],
        atol=1e-8,
    )


def test_interpolation_stays_on_one_side_of_a_wall():
    """Neighbours that have weight lie on one's own side of the walls, and near."""
    grid = MazeGrid(Maze(), 20)
    position = free_positions(grid.maze, 2000, seed=0)
    position = position[~((position > 0.2) & (position < 0.6)).all(axis=1)]
    weights = grid.weights(position).tocoo()
    assert weights.data.min() >= 0
    np.testing.assert_allclose(grid.weights(position).sum(axis=1), 1.0)
    near = grid.nodes[grid.is_state][weights.coords[1]]
    own = position[weights.coords[0]]
    assert np.abs(near - own).max() <= 1.5 / 20
    below, above = own[:, 1] < 0.25, own[:, 1] > 0.30
    behind = own[:, 0] < 0.5
    assert not (behind & below & (near[:, 1] > 0.25)).any()
    assert not (behind & above & (near[:, 1] < 0.30)).any()


def test_maze_grid_solves_a_known_case():
    """Straight up, without noise: three actions of five micro-steps from 0.1 to 0.7."""
    maze = Maze(
        walls=(),
        noise=0.0,
        num_actuators=4,
        start=(0.5, 0.1),
        goal=(0.4, 0.6, 0.7, 1.0),
    )
    mdp = MazeGrid(maze, 40).tabular(num_samples=1, seed=0)
    assert np.flatnonzero(mdp.is_terminal).tolist() == [mdp.num_states - 1]
    found = backward_induction(mdp.replace(action_sets=1.0, horizon=10))
    assert found.mean_return == pytest.approx(100 - 3 * 0.05, abs=0.02)


def test_maze_grid_value_equals_return_in_play():
    maze = Maze(availability=0.5)
    grid = MazeGrid(maze, 40)
    found = backward_induction(grid.tabular(24, seed=0).replace(horizon=80))
    env = SASVectorEnv(maze, 1000, max_episode_steps=80)
    returns = episode_returns(env, GridPolicy(grid, found), 2000, seed=0)
    assert returns.mean() == pytest.approx(found.mean_return, abs=0.05)


def test_maze_grid_is_sampled_in_parts(monkeypatch):
    """Where nothing is random it is the same as at once."""
    grid = MazeGrid(Maze(noise=0.0), 12)
    whole = grid.tabular(2, seed=0)
    monkeypatch.setattr("sas_gym.planning.approximations._maze._CHUNK", 500)
    in_parts = grid.tabular(2, seed=0)
    np.testing.assert_array_equal(
        in_parts.transition_matrix.toarray(), whole.transition_matrix.toarray()
    )
    np.testing.assert_array_equal(in_parts.reward, whole.reward)


def test_grid_policy_acts_by_the_first_steps_values():
    grid = MazeGrid(Maze(num_actuators=4), 6)
    num_states = 1 + np.count_nonzero(grid.is_state)
    q = np.zeros((2, num_states, 4))
    q[0], q[1] = [1.0, 3.0, 2.0, 0.0], [0.0, 0.0, 0.0, 9.0]
    possible = np.ones((num_states, 4), dtype=bool)
    solution = Solution(np.zeros((3, num_states)), q, 0.0, possible)
    obs = {"observation": np.array([[0.1, 0.1], [0.9, 0.9]])}
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 1]], dtype=np.int8)
    assert GridPolicy(grid, solution)(obs, mask).tolist() == [1, 2]


def small_shop():
    return Recommender(
        0.5, num_products=4, num_topics=2, num_recommendations=3, taste_sharpness=2.0
    )


def exact_values(task, state, left):
    """Best mean returns of contexts: every set, every decision of the user."""
    if left == 0:
        return np.zeros(len(state))
    q = []
    for product in range(task.num_actions):
        bought, refused = (
            exact_values(task, task.drift(state, product, decision), left - 1)
            for decision in (True, False)
        )
        p = task.purchase_probability(state)[:, product]
        q.append(p * (task.profit[product] + bought) + (1 - p) * refused)
    probs = independent_set_probs(np.full(task.num_actions, 0.5))[1:]
    masks = subsets(task.num_actions)[1:]
    return np.where(masks, np.array(q).T[:, None], -np.inf).max(axis=2) @ probs


@pytest.fixture(scope="module")
def shop():
    return small_shop()


@pytest.fixture(scope="module")
def poor_plan(shop):
    """A plan with errors, for bounds to be bounds in spite of them."""
    return FittedPlan(shop, num_contexts=40, num_features=2, seed=0)


@pytest.fixture(scope="module")
def good_plan(shop):
    return FittedPlan(shop, num_contexts=400, num_features=40, seed=0)


@pytest.fixture(scope="module")
def blind_plan(shop):
    """A plan that sees nothing ahead: its error is all that is to come."""
    plan = FittedPlan(shop, num_contexts=40, num_features=2, seed=0)
    plan._weights[:] = 0.0
    return plan


@pytest.mark.parametrize(
    ("quality", "tightness"), [("poor_plan", 0.05), ("blind_plan", 0.5)]
)
def test_bounds_enclose_the_exact_optimum(quality, tightness, shop, request):
    """With the same users, drawn first from the seed; error rate 1e-6 on each side."""
    plan = request.getfixturevalue(quality)
    users = shop.reset(200, np.random.default_rng(7))
    exact = exact_values(shop, users, 3)
    predicted, lower = plan_returns(plan, 200, np.random.default_rng(7))
    excess = relaxed_excess(plan, 200, slack=20.0, rng=np.random.default_rng(7))
    for above, below in ((predicted + excess, exact), (exact, lower)):
        gap = above - below
        noise = gap.std(ddof=1) / np.sqrt(len(gap))
        assert gap.mean() > stats.norm.isf(1 - ERROR_RATE) * noise
        assert gap.mean() < tightness * exact.mean()
    # The prediction itself is no bound: the plan is wrong by more than that.
    assert np.abs(predicted - exact).mean() > 0.05


def test_best_available_product(shop):
    """A product is in stock with probability 1/2, and taken if no better one is."""
    preferences = np.tile([1.0, 4.0, 3.0, 2.0], (20_000, 1))
    taken = best_available(shop, preferences, np.random.default_rng(0))
    assert_frequencies(np.bincount(taken, minlength=4), np.array([1, 8, 4, 2]) / 15)


def test_every_second_users_preferences_are_distorted():
    preferences = np.full((6, 3), 5.0)
    distorted = _distorted(preferences, np.random.default_rng(0))
    assert (distorted != 5.0).all(axis=1).tolist() == [True, False] * 3
    np.testing.assert_array_equal(distorted[1::2], 5.0)


def test_search_tries_one_refusal_per_topic():
    """All that are bought, and the refused product of the smallest gap."""
    task, rng = Recommender(num_products=7, num_topics=3), np.random.default_rng(0)
    gap, bought = rng.random((20, 7)), rng.random((20, 7)) < 0.5
    tried = _distinct(task, gap, bought)
    for row, product in np.ndindex(gap.shape):
        rivals = (task.topic == task.topic[product]) & ~bought[row]
        is_best = gap[row, product] == gap[row].min(where=rivals, initial=np.inf)
        assert tried[row, product] == (bought[row, product] or is_best)


def test_slack_of_the_search(poor_plan):
    """More than the errors changes nothing; without any, less may be found."""
    none, enough, more = (
        relaxed_excess(poor_plan, 50, slack, np.random.default_rng(7))
        for slack in (0.0, 2.0, 1000.0)
    )
    np.testing.assert_array_equal(enough, more)
    assert (none <= enough).all()
    assert none.mean() < enough.mean()


@pytest.mark.parametrize("quality", ["poor_plan", "blind_plan"])
def test_plan_returns_equal_returns_in_play(quality, shop, request):
    """The estimate with little noise agrees with the returns themselves."""
    plan = request.getfixturevalue(quality)

    def policy(obs, mask):
        q = plan.q_values(obs["observation"].astype(float))
        return np.where(mask == 1, q, -np.inf).argmax(axis=1)

    _, lower = plan_returns(plan, 4000, np.random.default_rng(0))
    returns = episode_returns(SASVectorEnv(shop, 4000), policy, 4000, seed=0)
    assert_mean(returns - lower, 0.0)


def test_good_plan_has_the_exact_values(shop, good_plan):
    """They are 12 to 16; looking one recommendation ahead comes closer still."""
    users = shop.reset(300, np.random.default_rng(9))
    exact = exact_values(shop, users, 3)
    np.testing.assert_allclose(good_plan.values(users), exact, atol=0.06)
    ahead = good_plan.best_values(good_plan.q_values(users))
    np.testing.assert_allclose(ahead, exact, atol=0.02)


def test_good_plan_closes_the_gap(good_plan):
    predicted, lower, excess = bounds(good_plan, 400, 100, slack=0.5, seed=0)
    assert lower.mean() == pytest.approx(predicted.mean() + excess.mean(), rel=0.01)
