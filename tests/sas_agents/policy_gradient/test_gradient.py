"""SASPG's mean update is the exact policy gradient, SASNPG's w the natural one.

Both are held to a small SAS-MDP whose action sets are enumerated, and whose objective
is differentiated by autograd: no formula of the paper is used.
"""

from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import episodic_agents, explicit_scores
from helpers.brute_force import independent_set_probs
from helpers.statistical import ERROR_RATE
from scipy import stats
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecMonitor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sas_agents import SASNPG, SASPG, VectorEnvAdapter
from sas_agents.maths._masked_ops import masked_log_probs
from sas_gym import SASVectorEnv, Task
from sas_gym.action_sets import Independent
from sas_gym.action_sets._set_lists import subsets

pytestmark = pytest.mark.slow

S, A = 3, 3  # the last state is the end


class Stroll(Task):
    """Two states and an end that comes sooner or later: episodes differ in length."""

    num_states, num_actions = S, A
    observation_space = spaces.Discrete(S)
    always_ends = True

    def __init__(self):
        rng = np.random.default_rng(4)
        self.transition_probs = rng.dirichlet(np.ones(S), size=(S, A))
        self.reward = rng.normal(size=(S, A)) + 1.0
        self.availability = np.array([[0.3, 0.5, 0.4], [0.6, 0.2, 0.5], [1.0] * A])
        self.action_sets = Independent(self.availability)

    def reset(self, num_envs, rng):
        return (rng.random(num_envs) < 0.3).astype(np.int64)

    def transition(self, state, action, rng):
        cumulative = self.transition_probs[state, action].cumsum(axis=1)
        node = (rng.random((len(state), 1)) > cumulative).sum(axis=1)
        return node, self.reward[state, action], node == S - 1


TASK = Stroll()
START = th.tensor([0.7, 0.3], dtype=th.float64)
THETA = th.tensor(np.random.default_rng(5).normal(size=(S, A)), dtype=th.float64)


def action_probs(theta):
    """Probability of each action in each state, averaged over every set."""
    masks = th.tensor(subsets(A)[1:])
    rows = []
    for state in range(S - 1):
        set_probs = th.tensor(independent_set_probs(TASK.availability[state])[1:])
        logits = theta[state].expand(len(masks), A)
        rows.append(set_probs @ masked_log_probs(logits, masks).exp())
    return th.stack(rows)


def objective(theta):
    """Expected undiscounted return: mu' (I - P_pi)^-1 r_pi."""
    pi = action_probs(theta)
    transition = th.tensor(TASK.transition_probs)[: S - 1, :, : S - 1]
    moves = th.einsum("sa,sat->st", pi, transition)
    rewards = (pi * th.tensor(TASK.reward)[: S - 1]).sum(dim=1)
    return START @ th.linalg.solve(th.eye(S - 1).double() - moves, rewards)


def exact_gradient():
    theta = THETA.clone().requires_grad_()
    (gradient,) = th.autograd.grad(objective(theta), theta)
    return gradient.flatten().numpy()


def visits():
    """Expected number of visits to each state in an episode."""
    transition = th.tensor(TASK.transition_probs)[: S - 1, :, : S - 1]
    moves = th.einsum("sa,sat->st", action_probs(THETA), transition)
    return th.linalg.solve(th.eye(S - 1).double() - moves.T, START)


def exact_fisher():
    """Sum over states, sets and actions of visits * phi * pi * psi psi'."""
    fisher = np.zeros((S * A, S * A))
    for state, visit in enumerate(visits()):
        set_probs = independent_set_probs(TASK.availability[state])
        for mask, set_prob in zip(subsets(A)[1:], set_probs[1:], strict=True):
            probs = (
                masked_log_probs(THETA[None, state], th.tensor(mask)[None])[0]
                .exp()
                .numpy()
            )
            for action in np.flatnonzero(mask):
                psi = np.zeros((S, A))
                psi[state] = np.eye(A)[action] - probs
                fisher += float(visit) * set_prob * probs[action] * np.outer(psi, psi)
    return fisher


# What makes the agents the paper's, but for the optimiser and the fit of w.
PAPER: dict[str, Any] = {
    "whole_episodes": True,
    "normalize": False,
    "target_kl": None,
}


def make(algorithm, num_envs, **options):
    env = VecMonitor(VectorEnvAdapter(SASVectorEnv(TASK, num_envs)))
    env.seed(0)
    model = algorithm("LinearPolicy", env, gamma=1.0, seed=0, **options)
    model.set_logger(Logger(None, []))
    _, callback = model._setup_learn(1)
    set_theta(model)
    return model, callback


def set_theta(model):
    vector_to_parameters(THETA.flatten().float(), model.policy.actor.parameters())


def collect(model, callback):
    return model.collect_rollouts(
        model.env, callback, model.rollout_buffer, model.n_steps
    )


@pytest.mark.parametrize(
    ("num_envs", "n_steps", "num_rollouts", "all_weights"),
    [
        (64, 4, 100, [(0.0, 0.0), (-0.5, -0.5), (-1.0, 0.0), (0.7, -1.6)]),
        (1, 1, 1500, [(-0.5, -0.5)]),  # the paper's update: one episode
    ],
)
# In some episodes of one step a single action is available.
@pytest.mark.filterwarnings("ignore:the gradient of the policy is 0")
def test_saspg_mean_update_is_exact_gradient(
    num_envs, n_steps, num_rollouts, all_weights
):
    """For any weights, component by component, within the error of many rollouts.

    By Wald's identity an update's expectation is the gradient times the expected number
    of episodes, over the constant that the update is divided by.
    """
    rate = 1e-3
    model, callback = make(
        SASPG,
        num_envs,
        learning_rate=rate,
        n_steps=n_steps,
        n_epochs=1,
        batch_size=None,
        critic_learning_rate=0.0,
        adapt_weights=False,
        clip_range=None,
        policy_kwargs={"optimizer_class": th.optim.SGD},
        **PAPER,
    )
    # Critics that are neither zero nor right: any will do.
    rng = th.Generator().manual_seed(1)
    for critic in (model.policy.value_net, model.policy.q_net):
        for parameter in critic.parameters():
            parameter.data.normal_(generator=rng)
    gradient = exact_gradient()
    surplus: list[list[Any]] = [[] for _ in all_weights]
    for _ in range(num_rollouts):
        set_theta(model)
        collect(model, callback)
        share = model.rollout_buffer.num_episodes() / (n_steps * num_envs)
        before = parameters_to_vector(model.policy.actor.parameters()).detach()
        for weights, found in zip(all_weights, surplus, strict=True):
            set_theta(model)
            model.baseline_weights = th.tensor(weights)
            model.train()
            after = parameters_to_vector(model.policy.actor.parameters()).detach()
            found.append((after - before).double().numpy() / rate - share * gradient)
    bound = stats.norm.isf(ERROR_RATE / 2 / gradient.size / len(all_weights))
    for differences in np.array(surplus):
        error = differences.std(axis=0, ddof=1) / np.sqrt(num_rollouts)
        # Rounding to float32 is all that is left where a component cannot vary.
        assert (np.abs(differences.mean(axis=0)) <= bound * error + 1e-3).all()
        # The bound means something: it is well below the gradient itself.
        assert (bound * error).max() < np.abs(gradient).max()


@pytest.mark.parametrize(
    "fit",
    [{"damping": 0.0, "w_steps": 30}, {"w_learning_rate": 5.0, "w_steps": 100}],
    ids=["conjugate gradients", "gradient steps"],
)
@pytest.mark.parametrize("critic_rate", [0.0, 0.1], ids=["no baselines", "baselines"])
def test_sasnpg_w_is_natural_gradient(fit, critic_rate):
    """F^-1 grad J, within the standard error of independent rollouts.

    Adding a constant to all logits of a state changes no policy, so F is singular; w,
    started at 0, stays in the span of the scores, where the solution is unique.
    """
    natural = np.linalg.pinv(exact_fisher(), rcond=1e-10) @ exact_gradient()
    options = {"learning_rate": 0.0, "critic_learning_rate": critic_rate}
    model, callback = make(SASNPG, 64, n_steps=32, **options, **PAPER, **fit)
    found = []
    for _ in range(30):
        model.w = th.zeros_like(model.w)
        collect(model, callback)
        model.train()
        found.append(model.w.double().numpy())
    solutions = np.array(found)
    error = solutions.std(axis=0, ddof=1) / np.sqrt(len(solutions))
    bound = stats.t.isf(ERROR_RATE / 2 / natural.size, df=len(solutions) - 1)
    assert (np.abs(solutions.mean(axis=0) - natural) <= bound * error + 1e-3).all()
    assert (bound * error).max() < 0.5 * np.abs(natural).max()


@pytest.mark.parametrize("w_memory", [0.0, 0.7])
@pytest.mark.parametrize(("num_envs", "n_steps"), [(64, 32), (4, 2)])
def test_sasnpg_w_solves_its_equation(w_memory, num_envs, n_steps):
    """With every score written out; damping holds w back at where its fit started.

    With more samples than parameters, and with fewer.
    """
    options = {"n_steps": n_steps, "w_steps": 60, "w_memory": w_memory}
    model, callback = make(SASNPG, num_envs, **options)
    collect(model, callback)
    batch, scores = model._batch()
    model.w = th.randn(model.w.shape, generator=th.Generator().manual_seed(1))
    inputs = batch.inputs.values, scores.action_mask, batch.actions
    psi = explicit_scores(model.policy.actor, *inputs).numpy()
    damping = np.square(psi).sum() / len(psi) / min(psi.shape)
    moment = psi.T @ psi / len(psi) + damping * np.eye(psi.shape[1])
    held = damping * w_memory * model.w.numpy()
    expected = np.linalg.solve(moment, psi.T @ batch.advantage / len(psi) + held)
    found = model._fitted_w(scores, scores.norms()[0], batch.advantage)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_sasnpg_step_length_is_the_rate():
    model, callback = make(SASNPG, 8, learning_rate=0.25, n_steps=4, target_kl=None)
    collect(model, callback)
    model.train()
    step = parameters_to_vector(model.policy.actor.parameters()) - THETA.flatten()
    assert step.norm().item() == pytest.approx(0.25, rel=1e-4)
    th.testing.assert_close(
        (step / step.norm()).float(), model.w / model.w.norm(), rtol=1e-3, atol=1e-4
    )


def test_sasnpg_step_changes_policy_by_target():
    model, callback = make(SASNPG, 64, n_steps=32, target_kl=0.01)
    collect(model, callback)
    model.train()
    assert 0.005 < model.logger.name_to_value["train/kl"] < 0.015


@episodic_agents
def test_power_of_two_in_rewards_changes_no_bit(agent):
    learned = []
    for scale in (1.0, 2.0**-20, 2.0**20):
        model, callback = make(agent, 16, n_steps=8)
        for _ in range(3):
            collect(model, callback)
            buffer = model.rollout_buffer
            buffer._rewards = [scale * rewards for rewards in buffer._rewards]
            model.train()
        learned.append(parameters_to_vector(model.policy.parameters()).detach())
    assert th.equal(learned[0], learned[1])
    assert th.equal(learned[0], learned[2])


def test_weight_decay_per_episode():
    """An update of many episodes keeps as much of the weights as one by one."""
    options = {"weight_decay": 0.99, "whole_episodes": True}
    model, callback = make(SASPG, 16, n_steps=4, **options)
    model.baseline_weights = th.tensor([5.0, 7.0])
    collect(model, callback)
    num_episodes = model.rollout_buffer.num_episodes()
    model.train()
    # The critics start at 0, where the best weights are 0.
    kept = 0.99**num_episodes
    th.testing.assert_close(model.baseline_weights, kept * th.tensor([5.0, 7.0]))


def test_weights_can_be_frozen():
    # Whole numbers, as a user may write them.
    model, callback = make(SASPG, 16, baseline_weights=(-1, 0), adapt_weights=False)
    for _ in range(3):
        collect(model, callback)
        model.train()
    assert model.baseline_weights.tolist() == [-1.0, 0.0]
