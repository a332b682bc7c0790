"""The catalogue of the recommender, and its arguments."""

import tracemalloc

import numpy as np
import pytest
from helpers.statistical import assert_frequencies
from hypothesis import given
from hypothesis import strategies as st

from sas_gym import RandomPolicy, SASVectorEnv, episode_returns
from sas_gym.tasks._recommender import Recommender

ATTRIBUTES = ["topic", "complement", "profit", "appeal", "pull"]


def test_seed_determines_catalogue():
    one, same, other = (Recommender(catalogue_seed=seed) for seed in (3, 3, 4))
    for name in ATTRIBUTES:
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
        assert (getattr(one, name) != getattr(other, name)).any()


def test_profits_by_hand():
    """Topics of rank 0 and 1 with two products each: 8, 8 / 4 and 8 / 2, 8 / 2 / 4."""
    task = Recommender(
        num_products=4, num_topics=2, max_profit=8.0, topic_decay=1.0, product_decay=2.0
    )
    np.testing.assert_allclose(np.sort(task.profit), [1.0, 2.0, 4.0, 8.0])
    assert len(set(task.topic[np.isin(task.profit, [8.0, 2.0])])) == 1


@given(
    num_topics=st.integers(2, 12), extra=st.integers(0, 50), seed=st.integers(0, 999)
)
def test_catalogue_is_as_page_says(num_topics, extra, seed):
    task = Recommender(
        num_products=num_topics + extra, num_topics=num_topics, catalogue_seed=seed
    )
    assert np.ptp(np.bincount(task.topic, minlength=num_topics)) <= 1
    assert (task.topic != task.complement).all()
    assert ((task.complement >= 0) & (task.complement < num_topics)).all()
    assert task.profit.max() == 10.0
    assert task.profit.min() > 0
    for share in (task.appeal, task.pull):
        assert ((share >= 0.9) & (share <= 1)).all()


def test_complements_are_uniform_over_other_topics():
    task = Recommender(num_products=5000, num_topics=5)
    assert_frequencies(
        np.bincount((task.complement - task.topic) % 5), [0, *[0.25] * 4]
    )


def test_many_products_take_little_memory():
    """A few numbers per product; a table products x products would take 80 GB."""
    tracemalloc.start()
    task = Recommender(num_products=100_000)
    rng = np.random.default_rng(0)
    state = task.reset(1000, rng)
    for _ in range(5):
        state, _, _ = task.transition(state, rng.integers(100_000, size=1000), rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6
    env = SASVectorEnv(task, 4)
    returns = episode_returns(env, RandomPolicy(seed=0), num_episodes=4, seed=0)
    assert (returns >= 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"availability": 1.2}, r"availability must be probabilities in \[0, 1\]"),
        ({"availability": [0.5] * 3}, "availability must have 100 columns"),
        ({"num_topics": 1}, "num_topics must be an integer of at least 2, got 1"),
        ({"num_topics": 2.0}, "num_topics must be an integer of at least 2, got 2.0"),
        ({"num_products": 9}, "num_products must be an integer of at least 10, got 9"),
        (
            {"num_recommendations": 0},
            "num_recommendations must be .* at least 1, got 0",
        ),
        ({"num_recommendations": True}, "num_recommendations must be .*, got True"),
        ({"catalogue_seed": -1}, "catalogue_seed must be .* at least 0, got -1"),
        ({"catalogue_seed": None}, "catalogue_seed must be .* at least 0, got None"),
        (
            {"max_profit": -1.0},
            "max_profit must be a finite number of at least 0, got -1.0",
        ),
        ({"max_profit": np.inf}, "max_profit must be a finite number of at least 0"),
        ({"topic_decay": np.nan}, "topic_decay must be a finite number of at least 0"),
        ({"product_decay": "2"}, "product_decay must be a finite number .*, got '2'"),
        (
            {"min_appeal": 1.1},
            r"min_appeal must be a finite number in \[0, 1\], got 1.1",
        ),
        ({"min_pull": -0.1}, r"min_pull must be a finite number in \[0, 1\], got -0.1"),
        ({"fatigue": 2}, r"fatigue must be a finite number in \[0, 1\], got 2"),
        ({"taste_sharpness": -1}, "taste_sharpness must be .* at least 0, got -1"),
    ],
)
def test_invalid_argument_error(options, message):
    with pytest.raises(ValueError, match=message):
        Recommender(**options)
