"""Tasks name their states and actions, and may be too large for any table."""

from typing import Any

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest

from sas_gym import (
    SPECS,
    RandomPolicy,
    Routing,
    SASEnv,
    SASVectorEnv,
    ShutTheBox,
    Task,
    episode_returns,
)
from sas_gym.action_sets import Independent, Outcomes
from sas_gym.planning import normalized_score, optimal_return, policy_return, solve
from sas_gym.tasks._task import TaskSolution

every_id = pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])


@every_id
def test_actions_have_different_names_and_states_are_described(env_id):
    task: Any = gym.make(env_id).unwrapped.task  # type: ignore[attr-defined]
    names = task.action_names
    assert len(names) == len(set(names)) == task.num_actions
    states = task.reset(3, np.random.default_rng(0))
    for state in states:
        assert len(task.names_at(state)) == task.num_actions
        text = task.describe(state)
        assert "\n" not in text
        assert 3 < len(text) < 80
    numbered = task.states()
    if numbered is not None:
        described = {task.describe(state) for state in numbered}
        assert len(described) == task.num_states


def test_own_task_has_numbers_for_names():
    class Plain(ShutTheBox):
        action_names = Task.action_names
        describe = Task.describe

    task = Plain(1)
    assert task.action_names == ["0", "1"]
    assert task.describe(np.array([1.23456, 2.0])) == "state [1.235 2.   ]"


class Coins(Task):
    """Five hundred million states: a purse to be emptied, by at most a die's face.

    Every step costs 1. The best play takes all that the die allows; with faces 1 and 2,
    equally likely, the mean number of steps from 2 coins is 1/2 + 1/2 (1 + 1) = 1.5.
    """

    num_states = 500_000_000
    num_actions = 3
    observation_space = gym.spaces.Discrete(500_000_000)
    action_sets = Outcomes(
        [0.5, 0.5],
        lambda state, face: (
            (np.arange(3) <= np.minimum(face + 1, state)[:, None])
            & ((np.arange(3) > 0) | (state[:, None] == 0))
        ),
    )
    always_ends = True
    rules_decide = True

    def reset(self, num_envs, rng):
        return np.full(num_envs, 2)

    def transition(self, state, action, rng):
        left = state - action
        return left, np.full(len(state), -1.0), left == 0

    def solve(self):
        return TaskSolution(-1.5, lambda _, mask: 2 - mask[:, ::-1].argmax(axis=1))


def test_task_with_its_own_solver_needs_no_table():
    for make in (SASEnv, lambda task: SASVectorEnv(task, 1000)):
        env: Any = make(Coins())
        assert optimal_return(env) == -1.5
        best: Any = solve(env).policy
        assert episode_returns(env, best, 4000, seed=0).mean() == pytest.approx(
            -1.5, abs=0.05
        )
        assert episode_returns(env, RandomPolicy(), 4000, seed=0).mean() < -1.6
    with pytest.raises(ValueError, match="Coins has no tabular form"):
        policy_return(Coins(), best)


def test_own_solution_is_that_of_the_tasks_own_sets_and_without_a_limit():
    class Solved(ShutTheBox):
        rules_decide = False

        def solve(self):
            return TaskSolution(77.0, lambda _, mask: mask.argmax(axis=1))

    assert optimal_return(Solved(2)) == 77.0
    assert optimal_return(Solved(2), gamma=0.9) < 1
    # An episode ends by itself, within any limit.
    assert optimal_return(SASVectorEnv(Solved(2), 1, max_episode_steps=9)) == 77.0
    other = Independent(np.ones(4))
    assert optimal_return(SASEnv(Solved(2), action_sets=other)) < 2


@pytest.mark.parametrize(
    "problem",
    [
        ShutTheBox(),
        SASEnv(ShutTheBox()),
        gym.make("SAS/ShutTheBox-v0"),
        gym.make_vec("SAS/ShutTheBox-v0", 3),
        "SAS/ShutTheBox-v0",
    ],
    ids=["task", "SASEnv", "gym.make", "gym.make_vec", "id"],
)
def test_planners_take_a_problem_in_every_form(problem):
    assert optimal_return(problem) == solve(problem).mean_return
    assert normalized_score(problem, optimal_return(problem)) == 1


GRAPH = nx.relabel_nodes(nx.cycle_graph(5), str)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": None}, r"graph must be a graph of networkx, such as .* got None"),
        ({"goal": 3}, r"goal 3 is not a node of the graph: write goal='3'"),
        ({"goal": 1000}, r"goal 1000 is not .*: its nodes are '0', '1', '2' \.\.\."),
        ({"start": "x"}, r"start 'x' is not a node"),
        ({"availability": {("0", "1"): 0.5}}, r"no entry for the edge \('0', '4'\)"),
    ],
)
def test_wrong_graphs_are_named(arguments, message):
    options: dict[str, Any] = {"graph": GRAPH, "goal": "3", "length": None, **arguments}
    with pytest.raises(ValueError, match=message):
        Routing.from_networkx(options.pop("graph"), **options)


def test_availability_by_edge():
    """Of an undirected graph either direction names the edge, and a key its twin."""
    by_edge = {(v, u): 0.1 * (int(u) + 1) for u, v in GRAPH.edges}
    task = Routing.from_networkx(GRAPH, goal="0", length=None, availability=by_edge)
    found = dict(zip(task.names_at(1), task.availability[1], strict=True))
    assert found == pytest.approx({"to 0": 0.1, "to 2": 0.2})
    directed = nx.DiGraph(GRAPH)
    one_way = {(u, v): 0.9 if u < v else 0.3 for u, v in directed.edges}
    task = Routing.from_networkx(directed, goal="0", length=None, availability=one_way)
    found = dict(zip(task.names_at(1), task.availability[1], strict=True))
    assert found == pytest.approx({"to 0": 0.3, "to 2": 0.9})
    assert task.describe(1) == "at 1"
