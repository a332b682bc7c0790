"""The problems of the masked benchmark: contract, rules, optima of small instances."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from helpers.enumerated import Branch, enumerate_model
from problems import (
    PROBLEMS,
    Haulage,
    JobShop,
    Loading,
    Picking,
    Towing,
    Wholesale,
)
from problems.wholesale import Products, Suppliers

from sas_gym import check_env
from sas_gym.masks import MASK_KEY

IDS = list(PROBLEMS.values())
each_problem = pytest.mark.parametrize("env_id", IDS)


def small_wholesale():
    products = Products(
        pallet=np.array([100]),
        cost=np.array([10.0]),
        price=np.array([15.0]),
        storage=np.array([0.1]),
        capacity=np.array([800]),
        history=np.array([[0], [100], [200]]),
    )
    suppliers = Suppliers(
        lead_days=np.array([2, 1]),
        factor=np.array([0.9, 1.2]),
        days_up=np.array([3, 3]),
        days_down=np.array([2, 2]),
    )
    return Wholesale(products, suppliers, (1, 3), (6, 1.5), target_days=7)


# An instance, and a number of steps: where nobody knows the step, stock that is left at
# the end is lost, and the horizon is long for that reason.
SMALL = {
    "towing": (Towing(2, np.array([[0, 0], [5, 0], [10, 0]]), (30,)), 100),
    "wholesale": (small_wholesale(), 2000),
    "picking": (Picking(3, 2, 3, (5, 10), 20), 100),
    "loading": (Loading(3, 10, np.array([2, 4, 5, 6])), 200),
    "haulage": (Haulage(2, (3, 1), np.array([220]), 1, 8), 8),
}


def masks_of(env, observation, info):
    """Return the mask from every place that has it."""
    masks = [place[MASK_KEY] for place in (observation, info) if MASK_KEY in place]
    if env.has_wrapper_attr("action_masks"):
        masks.append(env.get_wrapper_attr("action_masks")())
    return masks


def play(env_id, num_episodes, choose, **arguments):
    """Return the returns; every mask of a step is asserted to be the same one."""
    env, returns = gym.make(env_id, **arguments), []
    for seed in range(num_episodes):
        observation, info = env.reset(seed=seed)
        returns.append(0.0)
        ended = False
        while not ended:
            masks = masks_of(env, observation, info)
            assert all((mask == masks[0]).all() for mask in masks)
            assert masks[0].any()
            action = choose(env.unwrapped, observation, masks[0])
            observation, reward, terminated, truncated, info = env.step(action)
            returns[-1] += float(reward)
            ended = terminated or truncated
    return np.array(returns)


def rule(env, observation, mask):
    return env.rule(observation, mask)


def random_choice(seed):
    rng = np.random.default_rng(seed)
    return lambda _env, _observation, mask: rng.choice(np.flatnonzero(mask))


# Stable-Baselines3 warns of arrays with two axes.
@pytest.mark.filterwarnings("ignore:.*unconventional shape")
@pytest.mark.parametrize("action_features", [False, True])
@each_problem
def test_problem_keeps_the_contract_of_masks(env_id, action_features):
    check_env(gym.make(env_id, action_features=action_features), skip_render_check=True)


@each_problem
def test_mask_is_never_empty_before_the_end_in_random_play(env_id):
    play(env_id, 5, random_choice(0))


@each_problem
def test_rule_earns_more_than_random_play_in_nearly_every_episode(env_id):
    by_rule, by_chance = play(env_id, 20, rule), play(env_id, 20, random_choice(1))
    assert (by_rule > by_chance).mean() > 0.9


@each_problem
def test_rule_reads_the_observation_and_not_the_state(env_id):
    other: Any = gym.make(env_id).unwrapped
    other.reset(seed=1000)
    by_itself = play(env_id, 2, rule)
    by_the_other = play(env_id, 2, lambda _, obs, mask: other.rule(obs, mask))
    assert (by_itself == by_the_other).all()


SLOW = "wholesale", "haulage"


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in SMALL],
)
def test_rule_is_within_5_percent_of_the_optimum_of_a_small_instance(name):
    env, horizon = SMALL[name]
    model = enumerate_model(env, env.rule)
    best, ours = model.best_return(horizon), model.rule_return(horizon)
    assert best >= ours >= best - 0.05 * abs(best)
    assert model.random_return(horizon) < ours


def test_rule_is_within_5_percent_of_the_optimum_of_small_job_shops():
    env, horizon = JobShop(4, 3), 12
    models = [enumerate_model(env, env.rule, seed) for seed in range(30)]
    best = np.mean([model.best_return(horizon) for model in models])
    ours = np.mean([model.rule_return(horizon) for model in models])
    assert best >= ours >= 1.05 * best
    assert np.mean([model.random_return(horizon) for model in models]) < 1.1 * ours


def test_rule_of_the_load_board_is_within_7_percent_of_a_bound():
    haulage = Haulage()
    bound = haulage.week_hours * haulage.most_per_hour()
    assert 0.93 * bound < play(PROBLEMS["haulage"], 20, rule).mean() < bound


def test_enumeration_agrees_with_play():
    env, horizon = SMALL["loading"]
    model = enumerate_model(env, env.rule)
    limited = gym.wrappers.TimeLimit(env, horizon)
    returns = []
    for seed in range(200):
        (observation, info), ended, total = limited.reset(seed=seed), False, 0.0
        while not ended:
            action = env.rule(observation, info["action_mask"])
            observation, reward, _, ended, info = limited.step(action)
            total += float(reward)
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - model.rule_return(horizon)) < 4 * error


def test_branches_are_all_outcomes_of_several_draws():
    seen = []
    script: list[int] | None = []
    while script is not None:
        branch = Branch(script)
        first = branch.integers(2)
        seen.append((first, *branch.integers(1, np.array([3, 2])), branch.integers(1)))
        script = branch.following()
    assert seen == [(0, 1, 1, 0), (0, 2, 1, 0), (1, 1, 1, 0), (1, 2, 1, 0)]


@each_problem
def test_rows_of_features_hold_no_information_about_the_next_step(env_id):
    """With and without rows, one seed is one sequence of rewards and masks."""
    flat, rows = gym.make(env_id), gym.make(env_id, action_features=True)
    rng = np.random.default_rng(0)
    returned: Any = flat.reset(seed=0)
    other: Any = rows.reset(seed=0)
    for _ in range(50):
        mask = masks_of(flat, returned[0], returned[-1])[0]
        assert (mask == masks_of(rows, other[0], other[-1])[0]).all()
        action = rng.choice(np.flatnonzero(mask))
        returned, other = flat.step(action), rows.step(action)
        assert data_equivalence(returned[1:4], other[1:4])
        if returned[2]:
            break


@pytest.mark.parametrize(
    ("name", "column", "key"),
    [
        ("towing", 0, "distance"),
        ("picking", 0, "walk_seconds"),
        ("loading", 0, "kg_left"),
        ("haulage", 7, "pay"),
        ("job shop", 0, "weight"),
    ],
)
def test_a_row_holds_the_numbers_of_its_action(name, column, key):
    flat = gym.make(PROBLEMS[name]).reset(seed=3)[0]
    rows = gym.make(PROBLEMS[name], action_features=True).reset(seed=3)[0]
    values = flat[key]
    assert (rows["action_features"][: len(values), column] == values).all()


def test_a_row_of_an_order_holds_its_product_and_quantity():
    env = gym.make(PROBLEMS["wholesale"], action_features=True)
    wholesale: Any = env.unwrapped
    rows = env.reset(seed=0)[0]["action_features"]
    stock, quantity = rows[:-1, 0], rows[:-1, 3]
    assert (stock == wholesale.stock[wholesale.product]).all()
    assert (quantity == wholesale.quantity).all()
    assert not rows[-1].any()


def test_a_failed_supplier_stays_failed_for_days_and_takes_no_orders():
    env = Wholesale()
    env.reset(seed=0)
    closed = []
    for _ in range(2000):
        *_, info = env.step(env.num_orders)
        orders = info["action_mask"][:-1]
        assert not orders[~env.is_open[env.supplier]].any()
        closed.append(~env.is_open)
    ends = np.diff(np.array(closed).astype(int), axis=0) == -1
    lengths = np.sum(closed, axis=0) / ends.sum(axis=0)
    assert (np.abs(lengths / env.suppliers.days_down - 1) < 0.5).all()


def test_a_truck_is_busy_for_the_minutes_of_its_way_and_tow():
    env = Towing(1, np.array([[0, 0], [3, 4]]), (1,))
    env.reset(seed=0)
    env.positions[0] = env.destination = env.addresses[0]
    env.pickup = env.addresses[1]
    observation, reward, *_ = env.step(0)
    minutes = 2 * (7 + 7) + 10
    assert reward == 60 - 4 * 7
    for left in range(minutes - 1, -1, -1):
        assert observation["minutes_until_free"][0] == left
        assert observation["action_mask"].tolist() == [left == 0, True]
        observation, *_ = env.step(1)


def test_walks_take_the_shorter_cross_aisle():
    walks = Picking(2, 4).walks
    front, back, depot = 0, 3, 8
    assert walks[front, front + 4] == 1.5 + 4 + 1.5  # by the front
    assert walks[back, back + 4] == 1.5 + 4 + 1.5  # by the back
    assert walks[front, back] == 4.5
    assert walks[depot, back] == 6.0
    assert (walks == walks.T).all()


def test_a_job_shop_of_one_machine_costs_its_weighted_completion_times():
    env = JobShop(3, 1)
    env.reset(seed=0)
    env.weight, env.minutes = [1, 2, 3], [[10], [20], [30]]
    cost = -sum(env.step(job)[1] for job in (2, 0, 1)) * env.UNIT
    assert cost == 3 * 30 + 1 * 40 + 2 * 60


def test_smiths_rule_is_optimal_on_one_machine():
    env = JobShop(5, 1)
    for seed in range(5):
        model = enumerate_model(env, env.rule, seed)
        assert np.isclose(model.rule_return(5), model.best_return(5))
