"""What is logged is documented, and is what the documentation says."""

import re
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import (
    EPISODE_STEPS,
    Masked,
    every_agent,
    explicit_scores,
    logged_rows,
    make_agent,
    make_maze,
    masked_agents,
)
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor
from tensorboard.backend.event_processing import event_accumulator
from torch.nn.utils import parameters_to_vector

import sas_agents
from sas_agents import SASNPG, SASPG, SASQ
from sas_gym.masks import MASK_KEY


def documented_keys(agent):
    """Return the keys in those paragraphs of the package's docstring that name it."""
    assert sas_agents.__doc__ is not None
    keys: set[str] = set()
    for paragraph in sas_agents.__doc__.split("\n\n"):
        heading = paragraph.split("\n    ")[0]
        if "All agents" in heading or re.search(rf"\b{agent.__name__}\b", heading):
            keys |= set(re.findall(r"^ {4}(\w+/\w+): ", paragraph, re.MULTILINE))
    return keys


def critic_rate(agent):
    """Return a rate for critics that are otherwise fitted without one."""
    return {} if agent is SASQ else {"critic_learning_rate": 0.1}


@every_agent
def test_documented_keys_are_the_logged_keys(agent):
    env = VecMonitor(DummyVecEnv([lambda: Masked(spaces.Discrete(4))] * 2))
    logged = set().union(
        *logged_rows(make_agent(agent, env, **critic_rate(agent)), 100)
    )
    logged = {key for key in logged if not key.startswith("time/")}
    assert logged == documented_keys(agent)


def rollout(agent, **options):
    """Return an agent that has learned a little, and its next rollout's numbers.

    These are: the scores psi of the actions taken, the probabilities, the action sets,
    the returns, v and q-bar.
    """
    model = make_agent(agent, n_steps=20, **options)
    model.learn(100)
    _, callback = model._setup_learn(1)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    actions = model.rollout_buffer.actions()
    obs: Any = obs_as_tensor(model.rollout_buffer.observations(), model.device)
    inputs, mask = model.policy.encoder(obs), obs[MASK_KEY]
    psi = explicit_scores(model.policy.actor, inputs, mask, actions)
    weights = model.policy.actor(inputs).detach().exp() * mask
    probs = weights / weights.sum(dim=1, keepdim=True)
    with th.no_grad():
        v = model.policy.value_net(inputs)[:, 0]
        q_bar = (probs * model.policy.q_net(inputs)).sum(dim=1)
    returns = th.as_tensor(
        model.rollout_buffer.returns(
            v.double().numpy() * model.return_scale,
            model._cut_values() * model.return_scale,
        )
    )
    # In the units that the update is going to have.
    old = model.return_scale
    scale = np.sqrt(0.9 * old**2 + 0.1 * float((returns**2).mean()))
    values = (returns / scale, v * old / scale, q_bar * old / scale)
    return model, psi, probs, mask, *values


def explained(prediction, returns):
    return 1 - (returns - prediction).var() / returns.var()


def assert_logged(model, expected):
    logged = model.logger.name_to_value
    for name, value in expected.items():
        assert logged[f"train/{name}"] == pytest.approx(float(value), rel=1e-3), name


def test_saspg_logs_what_is_documented():
    """Each number equals a naive computation from one gradient per sample."""
    model, psi, probs, mask, returns, v, q_bar = rollout(SASPG, **critic_rate(SASPG))
    assert min(v.abs().min(), q_bar.abs().min()) > 0  # or there would be little to see
    weights = model.baseline_weights
    samples = psi * (returns + weights[0] * v + weights[1] * q_bar)[:, None]
    norm = samples.mean(dim=0).norm()
    num_updates = model._n_updates
    model.train()
    assert_logged(
        model,
        {
            "n_updates": num_updates + 1,
            "learning_rate": 0.05,
            "critic_learning_rate": 0.1,
            "return_scale": model.return_scale,
            "entropy": -(probs * probs.clamp_min(1e-30).log()).sum(dim=1).mean(),
            "action_set_size": mask.sum(dim=1).float().mean(),
            "loss_v_hat": ((v - returns) ** 2).mean(),
            "loss_q_bar": ((q_bar - returns) ** 2).mean(),
            "explained_variance_v_hat": explained(v, returns),
            "explained_variance_q_bar": explained(q_bar, returns),
            "weight_v_hat": model.baseline_weights[0],
            "weight_q_bar": model.baseline_weights[1],
            "gradient_norm": norm,
            "gradient_variance": samples.var(dim=0, correction=0).sum(),
            "gradient_variance_without_baselines": (
                ((psi * returns[:, None]) ** 2).sum(dim=1).mean() - norm**2
            ),
        },
    )


def test_sasnpg_logs_what_is_documented():
    """The fit of w, by a solver with one score per sample; then the step."""
    options = {"w_steps": 100, **critic_rate(SASNPG)}
    model, psi, probs, mask, returns, v, q_bar = rollout(SASNPG, **options)
    weights = model.baseline_weights
    advantage = returns + weights[0] * v + weights[1] * q_bar
    advantage = advantage / advantage.square().mean().sqrt()
    moment = psi.T @ psi / len(psi)
    rank = min(psi.shape)
    moment += model.damping * moment.trace() / rank * th.eye(len(moment))
    w = th.linalg.solve(moment, psi.T @ advantage / len(psi))
    theta = parameters_to_vector(model.policy.actor.parameters()).detach()
    num_updates = model._n_updates
    model.train()
    new = parameters_to_vector(model.policy.actor.parameters()).detach()
    assert_logged(
        model,
        {
            "n_updates": num_updates + 1,
            "learning_rate": 0.7,
            "critic_learning_rate": 0.1,
            "step_length": (new - theta).norm(),
            "entropy": -(probs * probs.clamp_min(1e-30).log()).sum(dim=1).mean(),
            "action_set_size": mask.sum(dim=1).float().mean(),
            "w_norm": w.norm(),
            "explained_variance_w": explained(psi @ w, advantage),
        },
    )


def test_action_set_size_and_entropy_of_full_sets():
    row = logged_rows(make_agent(SASPG, make_maze(availability=1.0)), 40)[1]
    assert row["train/action_set_size"] == 16
    # The policy of the first rollout is uniform.
    assert row["train/entropy"] == pytest.approx(np.log(16))


def logged_scalars(path):
    (run,) = path.iterdir()
    events = event_accumulator.EventAccumulator(str(run)).Reload()
    scalars = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
    return run.name, {tag: [e.value for e in found] for tag, found in scalars.items()}


@every_agent
def test_tensorboard_gets_finite_numbers(agent, tmp_path):
    model = make_agent(agent, tensorboard_log=tmp_path, **critic_rate(agent))
    model.learn(400, log_interval=1)
    name, scalars = logged_scalars(tmp_path)
    assert name == f"{agent.__name__}_1"
    # The maze has no successes; SB3 keeps the number of updates out of TensorBoard.
    absent = {"rollout/success_rate", "train/n_updates"}
    assert (documented_keys(agent) - absent) | {"time/fps"} == scalars.keys()
    assert set(scalars["rollout/ep_len_mean"]) == {EPISODE_STEPS}
    # At the start returns may be constant, and explain nothing.
    assert all(np.isfinite(values[-1]) for values in scalars.values()), scalars


@masked_agents
def test_masked_agents_log_to_tensorboard(agent, tmp_path):
    model = make_agent(agent, tensorboard_log=tmp_path)
    model.learn(200, log_interval=1)
    _, scalars = logged_scalars(tmp_path)
    assert {"rollout/ep_rew_mean", "time/fps"} <= scalars.keys()
    assert any(key.startswith("train/") for key in scalars)
    losses = [scalars[key][-1] for key in scalars if key.endswith("loss")]
    assert np.isfinite(losses).all()


@every_agent
def test_tb_log_name(agent, tmp_path):
    model = make_agent(agent, tensorboard_log=tmp_path)
    model.learn(60, tb_log_name="mine")
    assert logged_scalars(tmp_path)[0] == "mine_1"


def test_verbose_prints_features(capsys):
    make_agent(SASPG, verbose=1)
    assert "Features of the state: FourierBasis" in capsys.readouterr().out


@every_agent
def test_rate_follows_schedule(agent):
    model = make_agent(agent, learning_rate=lambda remaining: 0.005 * remaining)
    rows = logged_rows(model, 300)
    steps = np.array([row["time/total_timesteps"] for row in rows])
    rates = np.array([row.get("train/learning_rate", np.nan) for row in rows])
    valid = np.isfinite(rates) & (steps < 300)
    assert valid.sum() > 5
    # It is logged with the rollout after the one from which it was learned.
    lag = 8 if agent is not SASQ else 0
    expected = 0.005 * (1 - (steps[valid] - lag) / 300)
    np.testing.assert_allclose(rates[valid], expected, atol=0.005 * 8 / 300)


def test_each_rate_has_its_own_schedule():
    model = make_agent(
        SASPG,
        learning_rate=lambda remaining: 0.01 * remaining,
        critic_learning_rate=lambda remaining: 0.02 * remaining,
    )
    row = logged_rows(model, 100)[-1]
    assert row["train/critic_learning_rate"] == 2 * row["train/learning_rate"]
    model = make_agent(SASPG, learning_rate=0.01, critic_learning_rate=0.25)
    logged_rows(model, 100)
    policy = model.policy
    assert policy.optimizer.param_groups[0]["lr"] == 0.01
    assert policy.q_optimizer.param_groups[0]["lr"] == 0.25
    assert policy.value_optimizer.param_groups[0]["lr"] == 0.25


def test_target_kl_of_sasnpg_follows_schedule():
    model = make_agent(SASNPG, n_steps=50, target_kl=lambda remaining: 0.02 * remaining)
    kls = [row["train/kl"] for row in logged_rows(model, 800)[1:]]
    assert kls[0] > 2 * kls[-1] > 0
