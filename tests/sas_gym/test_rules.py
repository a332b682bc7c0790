"""Hand-written rules take what they say, as policies of every kind."""

from typing import Any

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy

from sas_agents import make_vec_env
from sas_gym import SPECS, Maze, Recommender, Routing, rules
from sas_gym.planning import best_rule, normalized_score, rule_score
from sas_gym.planning._returns import reference_return

WITH_RULES = [
    spec.id
    for spec in SPECS
    if rules.rules_of(gym.make(spec.id).unwrapped.task)  # type: ignore[attr-defined]
]
every_id = pytest.mark.parametrize("env_id", WITH_RULES)


def test_all_but_the_counterexample_have_rules():
    assert set(WITH_RULES) == {spec.id for spec in SPECS} - {"SAS/ThetaTwoTheta-v0"}


@every_id
def test_rules_take_the_same_actions_in_every_form(env_id):
    env: Any = gym.make_vec(env_id, num_envs=20)
    for rule in rules.rules_of(env.unwrapped.task):
        obs, infos = env.reset(seed=0)
        for _ in range(10):
            mask = infos["action_mask"]
            actions = rule(obs, mask)
            assert mask[np.arange(20), actions].all()
            np.testing.assert_array_equal(rule(obs["observation"], mask), actions)
            np.testing.assert_array_equal(rule.predict(obs)[0], actions)
            one = {key: value[3] for key, value in obs.items()}
            assert rule.predict(one)[0] == actions[3]
            obs, *_, infos = env.step(actions)


def test_rule_plays_in_evaluate_policy():
    env = make_vec_env("SAS/SanFrancisco-v0", n_envs=4, seed=0)
    rule: Any = rules.shortest_path(gym.make("SAS/SanFrancisco-v0").unwrapped.task)  # type: ignore[attr-defined]
    mean, _ = evaluate_policy(rule, env, 40)
    assert np.mean(mean) > 8


def test_ties_go_to_the_lower_number_and_minus_infinity_can_be_taken():
    rule = rules.Rule("flat", lambda _: np.array([-np.inf, 1.0, 1.0, -np.inf]))
    masks = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0, 1], [0, 0, 0, 1]])
    assert rule(np.zeros(4), masks).tolist() == [1, 2, 0, 3]
    with pytest.raises(ValueError, match="offers no action"):
        rule(np.zeros(1), np.zeros((1, 4)))


def test_shortest_path_is_dijkstras():
    graph = nx.gnm_random_graph(30, 90, seed=1, directed=True)
    graph = graph.subgraph(max(nx.strongly_connected_components(graph), key=len))
    graph = nx.DiGraph(graph)
    rng = np.random.default_rng(0)
    for *_, data in graph.edges(data=True):
        data["length"] = rng.random()
    goal = next(iter(graph))
    task = Routing.from_networkx(graph, goal=goal, wait_cost=0.1)
    rule = rules.shortest_path(task)
    length = nx.single_source_dijkstra_path_length(
        graph.reverse(), goal, weight="length"
    )
    labels: Any = task.labels
    for node, label in enumerate(labels):
        if label == goal:
            continue
        roads = list(graph.out_edges(label, data="length"))
        best = int(np.argmin([cost + length[head] for _, head, cost in roads]))
        mask = task.possible(np.array([node]))
        assert rule(np.array([node]), mask).tolist() == [best]
        mask[0, best] = False
        left = [k for k in range(len(roads)) if k != best]
        second = min(
            left, key=lambda k: roads[k][2] + length[roads[k][1]], default=None
        )
        expected = task.num_actions - 1 if second is None else second
        taken = rule(np.array([node]), mask).tolist()
        assert taken == [expected] or second is not None


def test_profitable_circle_has_no_shortest_path():
    task = Routing([0, 1, 0], [1, 0, 2], [1.0, 1.0, 0.0], 0.5, num_nodes=3, goal=2)
    with pytest.raises(ValueError, match="in a circle at a profit"):
        rules.shortest_path(task)


def test_shortest_way_walks_round_the_walls():
    """With everything available and no noise it is there after the fewest pushes."""
    task = Maze(1.0, noise=0.0)
    rule = rules.shortest_way(task)
    state, rng = task.reset(1, np.random.default_rng(0)), np.random.default_rng(0)
    num_pushes, is_there = 0, False
    while not is_there and num_pushes < 9:
        action = rule(task.observe(state), np.ones((1, 16)))
        state, _, (is_there,) = task.transition(state, action, rng)
        num_pushes += 1
    # The way is 1.48 long, by (.55, .25) and (.5, .8), and a push .225.
    assert is_there
    assert num_pushes in (7, 8)


def test_myopic_takes_the_largest_expected_profit():
    task = Recommender(num_products=7, num_topics=3)
    context = task.reset(5, np.random.default_rng(0))
    mask = np.random.default_rng(1).random((5, 7)) < 0.5
    mask[:, 2] = True
    worth = task.profit * task.appeal * context[:, task.topic]
    expected = [
        max(np.flatnonzero(row).tolist(), key=values.__getitem__)
        for values, row in zip(worth, mask, strict=True)
    ]
    assert rules.myopic(task)(context, mask).tolist() == expected
    profit = np.where(mask, task.profit, -1).argmax(axis=1)
    np.testing.assert_array_equal(rules.most_profitable(task)(context, mask), profit)


def test_rule_score_is_0_for_the_rule_and_1_for_the_optimum():
    env = gym.make("SAS/SanFrancisco-v0", availability=0.2)
    rule = best_rule(env)
    assert rule.name == "shortest_path"
    low, high = rule.mean_return, 3.96711
    scores = rule_score(env, [low, high, 2 * low - high])
    np.testing.assert_allclose(scores, [0, 1, -1], atol=1e-5)
    assert 0.9 < normalized_score(env, low) < 0.99
    known = reference_return("SAS/Recommender-v0")
    assert rule_score("SAS/Recommender-v0", known.rule_return) == 0
    assert best_rule("SAS/Recommender-v0") == (known.rule, known.rule_return)


def test_rule_score_needs_a_rule_that_leaves_something():
    with pytest.raises(ValueError, match="nothing is left to be scored above it"):
        rule_score("SAS/SanFrancisco-v0", [9.0])
    with pytest.raises(ValueError, match="has no rule for ThetaTwoTheta"):
        rule_score("SAS/ThetaTwoTheta-v0", [0.0])
