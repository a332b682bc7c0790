"""What a user sets, in the constructor, in `learn` or by a schedule, is checked."""

from typing import Any

import numpy as np
import pytest
import torch as th
from helpers.agents import (
    all_agents,
    assert_same,
    every_agent,
    everything_learned,
    make_agent,
)

from sas_agents import SASNPG, SASPG, SASQ, MaskedPPO


@all_agents
@pytest.mark.parametrize("total", [np.nan, np.inf, -5, 1.5, "many", None, True])
def test_number_of_steps_is_checked(agent, total):
    with pytest.raises(
        ValueError,
        match=f"total_timesteps must be an integer of at least 0, got {total!r}",
    ):
        make_agent(agent).learn(total)


@every_agent
@pytest.mark.parametrize("interval", [0, -1, 1.5])
def test_log_interval_is_checked(agent, interval):
    with pytest.raises(ValueError, match="log_interval must be an integer of at least"):
        make_agent(agent).learn(1, log_interval=interval)


@every_agent
def test_no_log_interval_writes_no_log(agent, capsys):
    model = make_agent(agent, verbose=1)
    capsys.readouterr()
    model.learn(300, log_interval=None)
    assert "rollout/" not in capsys.readouterr().out
    model.learn(300, log_interval=1)
    assert "rollout/" in capsys.readouterr().out


@all_agents
@pytest.mark.filterwarnings(r"ignore:learn\(0\) learns nothing")
def test_no_steps_learn_nothing(agent):
    """As in Stable-Baselines3, but for the warning."""
    model = make_agent(agent)
    before = everything_learned(model)
    assert model.learn(0).num_timesteps == 0
    assert_same(before, everything_learned(model))


@all_agents
def test_whole_number_of_steps_may_be_a_float(agent):
    learned = [everything_learned(make_agent(agent).learn(n)) for n in (100, 1e2)]
    assert_same(*learned)


@all_agents
@pytest.mark.parametrize("rate", [-1.0, np.nan, np.inf, "fast"])
def test_learning_rate_is_checked(agent, rate):
    with pytest.raises(ValueError, match="learning_rate must be a finite number of"):
        make_agent(agent, learning_rate=rate)


@all_agents
@pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan, None])
def test_gamma_is_checked(agent, gamma):
    with pytest.raises(ValueError, match=r"gamma must be a finite number in \[0, 1\]"):
        make_agent(agent, gamma=gamma)


@pytest.mark.parametrize(
    ("agent", "option", "value"),
    [
        (SASPG, "n_steps", 1.5),
        (SASPG, "n_epochs", -1),
        (SASPG, "n_epochs", 1.5),
        (SASPG, "weight_decay", 2),
        (SASPG, "ridge", -1),
        (SASPG, "ridge", np.nan),
        (SASPG, "critic_learning_rate", -1),
        (SASPG, "critic_learning_rate", np.nan),
        (SASPG, "baseline_weights", (np.nan, 0.0)),
        (SASPG, "baseline_weights", (1.0, 0.0, 0.0)),
        (SASPG, "stats_window_size", 0),
        (SASNPG, "w_learning_rate", -1),
        (SASNPG, "w_steps", 1.5),
        (SASQ, "tau", 1.5),
        (SASQ, "batch_size", 0),
        (SASQ, "buffer_size", 0),
        (SASQ, "learning_starts", -1),
        (SASQ, "gradient_steps", -2),
        (SASQ, "target_update_interval", 0),
        (SASQ, "exploration_fraction", np.nan),
        (SASQ, "exploration_initial_eps", 1.5),
        (SASQ, "exploration_final_eps", -0.1),
        (SASQ, "max_grad_norm", np.nan),
        (MaskedPPO, "ent_coef", np.nan),
        (MaskedPPO, "vf_coef", np.inf),
    ],
)
def test_silently_wrong_setting_is_named(agent, option, value):
    with pytest.raises(ValueError, match=f"{option} must be "):
        make_agent(agent, **{option: value})


def later(wrong: float) -> Any:
    """Return a schedule that is right at first, when the constructor asks it."""
    return lambda progress_remaining: wrong if progress_remaining < 0.5 else 1e-3


@all_agents
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_schedule_of_the_learning_rate_is_checked(agent, wrong):
    model = make_agent(agent, learning_rate=later(wrong))
    with pytest.raises(ValueError, match=f"learning_rate must be a .* got {wrong}"):
        model.learn(200)
    assert model.num_timesteps >= 100


@pytest.mark.parametrize(
    ("agent", "option"),
    [
        (SASPG, "critic_learning_rate"),
        (SASNPG, "critic_learning_rate"),
        (SASNPG, "w_learning_rate"),
        (SASNPG, "target_kl"),
    ],
)
@pytest.mark.parametrize("wrong", [np.nan, -1.0])
def test_other_schedules_are_checked(agent, option, wrong):
    model = make_agent(agent, **{option: later(wrong)})
    with pytest.raises(ValueError, match=f"{option} must be a .* got {wrong}"):
        model.learn(200)


@all_agents
def test_linear_schedule_is_never_negative(agent):
    """The last rollout goes beyond the last step, where progress is less than 0."""
    seen = []

    def schedule(progress_remaining: float) -> float:
        seen.append(progress_remaining)
        return 1e-3 * progress_remaining

    model = make_agent(agent, learning_rate=schedule).learn(101)
    assert model.num_timesteps > 101
    assert min(seen) == 0


@pytest.mark.parametrize(
    ("agent", "option", "value"),
    [
        (SASPG, "learning_rate", np.float64(0.1)),
        (SASPG, "critic_learning_rate", np.float64(0.1)),
        (SASPG, "gamma", np.float64(0.9)),
        (SASPG, "gae_lambda", np.float64(0.5)),
        (SASPG, "clip_range", np.float64(0.1)),
        (SASPG, "target_kl", np.float64(0.01)),
        (SASPG, "weight_decay", np.float64(0.9)),
        (SASPG, "ridge", np.float64(0.01)),
        (SASPG, "batch_size", np.int64(5)),
        (SASPG, "n_epochs", np.int64(3)),
        (SASPG, "n_steps", np.int64(8)),
        (SASNPG, "n_steps", np.int64(8)),
        (SASNPG, "learning_rate", np.float64(0.1)),
        (SASNPG, "target_kl", np.float64(0.1)),
        (SASNPG, "w_learning_rate", np.float64(0.1)),
        (SASNPG, "w_steps", np.int64(3)),
        (SASNPG, "w_memory", np.float64(0.5)),
        (SASNPG, "damping", np.float64(0.1)),
    ],
)
def test_numpy_numbers_are_as_good_as_pythons(agent, option, value):
    """To the last bit and in single precision: searches draw them with NumPy."""
    learned = [
        everything_learned(make_agent(agent, **{option: given}).learn(60))
        for given in (value, value.item())
    ]
    assert {tensor.dtype for tensor in learned[0].values()} == {th.float32}
    assert_same(*learned)
