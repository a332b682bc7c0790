"""The two-tower policy knows actions by their features."""

from typing import Any

import numpy as np
import pytest
import torch as th
from helpers.agents import SHORT
from stable_baselines3.common.evaluation import evaluate_policy

from sas_agents import MaskedPPO, make_vec_env
from sas_agents.models._rows import standardized
from sas_gym import Recommender


def make_model(num_products: int = 30, **policy_kwargs: Any) -> MaskedPPO:
    task = Recommender(num_products=num_products, num_topics=3)
    options = {"action_features": task.product_features()} | policy_kwargs
    model: MaskedPPO = MaskedPPO(
        "TwoTowerPolicy",
        make_vec_env(task, 4, seed=0),
        policy_kwargs=options,
        seed=0,
        device="cpu",
        **SHORT[MaskedPPO],
    )
    return model


def test_actions_with_equal_features_are_equally_likely():
    features = np.repeat(np.arange(10.0), 3)[:, None]
    model = make_model(action_features=features).learn(200)
    obs: Any = make_vec_env(Recommender(1.0, num_products=30, num_topics=3), 4).reset()
    tensors = model.policy.obs_to_tensor(obs)[0]
    categorical: Any = model.policy.get_distribution(tensors).distribution
    probs = categorical.probs
    assert probs.std(dim=1).min() > 0
    np.testing.assert_allclose(
        probs.detach(), probs.detach()[:, ::3].repeat_interleave(3, dim=1), rtol=1e-4
    )


def test_number_of_parameters_does_not_grow_with_actions():
    few, many = (
        sum(p.numel() for p in make_model(size).policy.parameters())
        for size in (10, 1000)
    )
    assert few == many


def test_units_of_features_do_not_matter():
    one = Recommender(num_products=30, num_topics=3).product_features()
    other = 1000 * one - 5
    np.testing.assert_allclose(
        standardized(one.astype(np.float32)),
        standardized(other.astype(np.float32)),
        atol=1e-2,
    )
    constant = standardized(np.ones((4, 2), np.float32))
    np.testing.assert_array_equal(constant, np.zeros((4, 2)))


def test_saved_and_loaded(tmp_path):
    model = make_model(embedding_size=8, action_net_arch=[]).learn(100)
    model.save(tmp_path / "model")
    model.policy.save(tmp_path / "policy")
    env: Any = model.env
    obs = env.reset()
    expected = model.predict(obs, deterministic=True)[0]
    loaded = MaskedPPO.load(tmp_path / "model", env=env)
    policy = type(model.policy).load(tmp_path / "policy")
    assert "action_features" not in model.policy.state_dict()
    for other in (loaded, policy):
        actions = other.predict(obs, deterministic=True)[0]
        np.testing.assert_array_equal(actions, expected)
    evaluate_policy(loaded, env, 8)


def test_wrong_features_are_an_error():
    with pytest.raises(ValueError, match=r"30 rows; got shape \(29, 2\)"):
        make_model(action_features=np.zeros((29, 2)))


def test_product_features_say_what_the_products_are():
    task = Recommender(num_products=30, num_topics=3)
    features = task.product_features()
    assert features.shape == (30, 3 + 2 * 3)
    assert features[:, 0].max() == 1
    np.testing.assert_array_equal(features[:, 3:6].argmax(axis=1), task.topic)
    np.testing.assert_array_equal(features[:, 6:].argmax(axis=1), task.complement)
    assert th.as_tensor(features).isfinite().all()
