"""Small cases with exact answers that masked implementations often get wrong.

`make peers` asks other libraries the same questions.
"""

from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import every_agent, make_agent, make_maze, maze_observations
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

import sas_gym
from sas_agents.maths._estimators import td_target
from sas_agents.maths._masked_ops import (
    best_actions,
    gumbel_noise,
    masked_log_probs,
    sample_softmax,
)
from sas_gym.masks import MASK_KEY


def test_bootstrap_target_is_masked():
    """r + gamma max over the set = 1 + 0.5 * 3, though 100 is on offer outside it."""
    q = np.array([[100.0, 3.0, 2.0]], np.float32)
    best = best_actions(q, np.array([[0, 1, 1]], np.int8))
    one = np.ones(1, np.float32)
    assert td_target(one, one, 0.5, q[[0], best]).item() == 2.5


def test_masks_read_twice_are_one_set():
    env = sas_gym.SASEnv("sas_gym:Maze", availability=0.5)
    obs, info = env.reset(seed=0)
    for _ in range(20):
        reads = [env.action_masks() for _ in range(3)]
        for mask in (*reads, info["action_mask"], obs["action_mask"]):
            np.testing.assert_array_equal(mask, reads[0])
        obs, *_, info = env.step(int(reads[0].argmax()))


@every_agent
def test_all_false_mask_is_an_error(agent):
    model, obs = make_agent(agent), maze_observations(2)
    with pytest.raises(ValueError, match="offers no action"):
        model.predict(obs["observation"], action_masks=np.zeros((2, 16), bool))


@pytest.mark.parametrize("unavailable", [1e4, 1e8, 1e30, 3e38])
def test_dominant_unavailable_logit(unavailable):
    """Two actions with logits 0 and log 3: probabilities 1/4 and 3/4, exactly."""
    logits = th.tensor([[unavailable, 0.0, float(np.log(3.0))]])
    mask = th.tensor([[0, 1, 1]])
    probs = masked_log_probs(logits, mask).exp()
    np.testing.assert_allclose(probs[0], [0.0, 0.25, 0.75], atol=1e-7)
    rng = np.random.default_rng(0)
    many, masks = np.tile(logits, (4_000, 1)), np.tile(mask, (4_000, 1))
    noise = next(gumbel_noise(masks.shape, rng))
    drawn = np.bincount(sample_softmax(many, masks, noise), minlength=3)
    assert drawn[0] == 0
    assert abs(drawn[2] - 3_000) < 150


@pytest.mark.parametrize("size", [1_000, 10_000])
def test_large_set_has_probabilities_that_sum_to_one(size):
    """torch's simplex check refuses such float32 probabilities now and then."""
    generator = th.Generator().manual_seed(0)
    logits = 10 * th.randn((8, size), generator=generator)
    mask = th.rand((8, size), generator=generator) < 0.5
    probs = masked_log_probs(logits, mask).exp()
    np.testing.assert_allclose(probs.sum(dim=1), 1.0, atol=1e-5)
    assert (probs[~mask] == 0).all()
    noise = next(gumbel_noise(mask.shape, np.random.default_rng(0)))
    actions = sample_softmax(logits.numpy(), mask.numpy(), noise)
    assert mask.numpy()[np.arange(8), actions].all()


def test_normalisation_of_the_mask_is_refused():
    with pytest.raises(ValueError, match="norm_obs_keys"):
        VecNormalize(make_maze())
    venv = VecNormalize(make_maze(), norm_obs_keys=["observation"])
    obs: Any = venv.reset()
    assert set(np.unique(obs[MASK_KEY])) <= {0, 1}


@every_agent
def test_evaluation_keeps_the_mask(agent):
    """One action is available at a time: every other one would raise an error."""
    one_at_a_time = sas_gym.action_sets.Explicit(np.eye(16), np.full(16, 1 / 16))
    env = make_maze(action_sets=one_at_a_time)
    model = make_agent(agent, env)
    for deterministic in (True, False):
        evaluate_policy(model, env, 2, deterministic=deterministic)


@every_agent
def test_only_available_action_is_certain(agent):
    model = make_agent(agent)
    obs = maze_observations(16)
    obs[MASK_KEY] = np.eye(16, dtype=np.int8)
    for deterministic in (True, False):
        actions, _ = model.predict(obs, deterministic=deterministic)
        np.testing.assert_array_equal(actions, np.arange(16))
        assert actions in spaces.MultiDiscrete([16] * 16)
