"""Each statement of Chandak et al. (2020) as a test that could refute it.

All is exact: small random SAS-MDPs, summed over states, sets and actions. What a
statement is compared with is computed in another way, from `brute_force`: values by
autograd, trajectories one by one, minima by a numerical minimiser.
"""

import itertools

import numpy as np
import pytest
import torch as th
from helpers.small_mdps import KINDS, random_mdp
from helpers.trajectories import exact_objective, trajectories
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sas_gym.planning import (
    TabularSASMDP,
    enumerate_policy,
    fisher_matrix,
    natural_gradient,
    policy_gradient,
    policy_iteration,
)

pytestmark = pytest.mark.slow

NUM_FEATURES = 2

problems = st.builds(
    lambda seed, kind, horizon, ends: problem(seed, kind, horizon, ends),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    horizon=st.sampled_from([None, 1, 4]),
    ends=st.booleans(),
)
few = settings(max_examples=25)


def problem(seed, kind="independent", horizon=None, ends=False, gamma=0.8):
    """Return a SAS-MDP and a policy on it: parameters and features that overlap."""
    mdp = random_mdp(seed, 3, 3, kind, ends=ends, gamma=gamma, horizon=horizon)
    rng = np.random.default_rng(seed)
    return mdp, rng.normal(size=(NUM_FEATURES, 3)), rng.normal(size=(3, NUM_FEATURES))


@few
@given(problem=problems)
def test_lemma_1_is_the_gradient_of_the_objective(problem):
    mdp, theta, features = problem
    cases = enumerate_policy(mdp, theta, features)
    parameters = th.tensor(theta, requires_grad=True)
    objective = exact_objective(mdp, parameters, features)
    objective.backward()
    assert parameters.grad is not None
    assert cases.objective == pytest.approx(objective.item(), abs=1e-10)
    np.testing.assert_allclose(
        policy_gradient(cases), parameters.grad.ravel(), atol=1e-10
    )


def test_policy_of_huge_logits():
    """Where all is available the largest takes all; features are one-hot by default."""
    mdp = TabularSASMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 0.5, gamma=0.9)
    cases = enumerate_policy(mdp, np.array([[1000.0, 0.0], [-2000.0, -1000.0]]))
    first, second, both = [[1, 0], [1, 0]], [[0, 1], [0, 1]], [[1, 0], [0, 1]]
    np.testing.assert_array_equal(cases.probs.swapaxes(0, 1), [first, second, both])


def test_lemma_1_degenerates_to_the_policy_gradient_theorem_if_all_is_available():
    """And only then: with sets, the ordinary formula is not the gradient."""
    for availability, is_equal in ((1.0, True), (0.5, False)):
        mdp, theta, features = problem(3)
        mdp = mdp.replace(action_sets=availability)
        logits = np.where(mdp.possible_actions, features @ theta, -np.inf)
        pi = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        transition = mdp.transition_matrix.toarray().reshape(*mdp.reward.shape, -1)
        moves = np.einsum("sa,sat->st", pi, transition)
        system = np.eye(3) - mdp.gamma * moves
        v = np.linalg.solve(system, (pi * mdp.reward).sum(axis=1))
        q = mdp.reward + mdp.gamma * transition @ v
        occupancy = np.linalg.solve(system.T, mdp.initial_distribution)
        advantage = pi * (q - (pi * q).sum(axis=1, keepdims=True))
        ordinary = np.einsum("s,sf,sa->fa", occupancy, features, advantage).ravel()
        ours = policy_gradient(enumerate_policy(mdp, theta, features))
        assert np.allclose(ours, ordinary, atol=1e-10) == is_equal


def test_lemma_2_the_gradient_goes_to_0_under_a_robbins_monro_rate():
    """From ten times more steps to ten times more it falls by a factor of its own."""
    for seed in range(2):
        mdp, theta, features = problem(seed)
        norms, objectives = [], []
        for step in range(3000):
            cases = enumerate_policy(mdp, theta, features)
            gradient = policy_gradient(cases)
            norms.append(np.linalg.norm(gradient))
            objectives.append(cases.objective)
            # Sum of rates infinite, sum of their squares finite.
            theta = theta + 2 * (step + 1) ** -0.6 * gradient.reshape(theta.shape)
        first, second, third = (max(norms[i:]) for i in (30, 300, 2999))
        assert second < 0.6 * first
        assert third < 0.6 * second
        assert (np.diff(objectives[300:]) > -1e-12).all()


@pytest.mark.parametrize("gamma", [1.0, 0.6])
@pytest.mark.parametrize("ends", [False, True])
def test_property_1_is_the_hessian_of_the_trajectory_log_likelihood(gamma, ends):
    mdp = random_mdp(11, 2 + ends, 2, ends=ends, gamma=gamma, horizon=2)
    rng = np.random.default_rng(0)
    theta, features = rng.normal(size=(2, 2)), rng.normal(size=(2 + ends, 2))
    fisher = fisher_matrix(enumerate_policy(mdp, theta, features))
    probs = [prob for prob, _ in trajectories(mdp, th.tensor(theta), features)]
    assert sum(probs) == pytest.approx(1)

    def log_likelihood(parameters):
        pairs = trajectories(mdp, parameters.reshape(2, 2), features)
        logs = th.stack([log for _, log in pairs])
        return th.tensor(probs, dtype=th.double) @ logs

    hessian = th.autograd.functional.hessian(log_likelihood, th.tensor(theta).ravel())
    np.testing.assert_allclose(fisher, -hessian.numpy(), atol=1e-10)


def test_property_1_is_the_mean_outer_product_of_the_trajectory_score():
    """The definition itself, of which the Hessian is a consequence."""
    mdp = random_mdp(7, 2, 2, horizon=3, gamma=0.7)
    theta, features = np.random.default_rng(0).normal(size=(2, 2, 2))
    parameters = th.tensor(theta, requires_grad=True)
    outer = np.zeros((4, 4))
    for prob, log in trajectories(mdp, parameters, features):
        (score,) = th.autograd.grad(log, parameters, retain_graph=True)
        outer += prob * np.outer(score, score)
    fisher = fisher_matrix(enumerate_policy(mdp, theta, features))
    np.testing.assert_allclose(fisher, outer, atol=1e-10)


def compatible_fit(cases):
    """Return the rows and targets whose least-squares fit is the w of Lemma 3."""
    root = np.sqrt(cases.weights)[..., None]
    score = np.broadcast_to(cases.score, (len(cases.weights), *cases.score.shape))
    target = np.broadcast_to(cases.q_values[:, :, None], cases.weights.shape)
    rows = (root * score).reshape(-1, score.shape[-1])
    return rows, (root[..., 0] * target).ravel()


@few
@given(problem=problems)
def test_lemma_3_the_compatible_weights_are_the_natural_gradient(problem):
    """Up to the null space of F, and nothing more.

    F is singular as soon as a direction u shifts the logits of all actions of every
    set that occurs by the same amount: then psi^T u = 0 in every case that occurs. The
    minimisers w are exactly the solutions of F w = grad J, which has some, since grad J
    lies in the range of F. They are the shortest one, F^+ grad J, plus any u in the
    null space; such a u changes the policy nowhere that the agent ever is. So w is not
    unique, but the policy to which it leads is.
    """
    mdp, theta, features = problem
    cases = enumerate_policy(mdp, theta, features)
    rows, target = compatible_fit(cases)
    shortest = np.linalg.lstsq(rows, target, rcond=1e-5)[0]
    fisher, gradient = fisher_matrix(cases), policy_gradient(cases)
    # Where a direction hardly matters the weights are large, and so is their rounding.
    tolerance = 1e-6 * (1 + np.abs(shortest).max())
    np.testing.assert_allclose(shortest, natural_gradient(cases), atol=tolerance)
    np.testing.assert_allclose(fisher @ shortest, gradient, atol=1e-8)

    eigenvalues, vectors = np.linalg.eigh(fisher)
    free = vectors[:, eigenvalues < 1e-10 * max(eigenvalues[-1], 1e-300)]
    # One direction per feature at least: the same shift for all actions.
    assert free.shape[1] >= NUM_FEATURES
    for u in free.T:
        other = shortest + 3 * u
        np.testing.assert_allclose(rows.T @ (rows @ other - target), 0, atol=1e-8)
        moved = enumerate_policy(mdp, theta + u.reshape(theta.shape), features)
        occurs = cases.weights.sum(axis=0) > 1e-12
        np.testing.assert_allclose(moved.probs[occurs], cases.probs[occurs], atol=1e-4)


@few
@given(problem=problems)
def test_lemma_3_holds_as_stated_where_the_fisher_matrix_is_regular(problem):
    """Keep only the parameters that matter: then w is unique, and F^-1 grad J."""
    mdp, theta, features = problem
    cases = enumerate_policy(mdp, theta, features)
    fisher, gradient = fisher_matrix(cases), policy_gradient(cases)
    eigenvalues, vectors = np.linalg.eigh(fisher)
    basis = vectors[:, eigenvalues > 1e-6 * max(eigenvalues[-1], 1e-300)]
    if not basis.shape[1] or eigenvalues[-1] < 1e-6:
        return
    rows, target = compatible_fit(cases)
    inverse = np.linalg.inv(basis.T @ fisher @ basis)
    fit, _, rank, _ = np.linalg.lstsq(rows @ basis, target)
    assert rank == basis.shape[1]
    np.testing.assert_allclose(fit, inverse @ (basis.T @ gradient), atol=1e-6)


def baselines(cases, rng):
    """Return arbitrary v-hat(s) and the q-bar(s, set) of an arbitrary q-hat."""
    v_hat = rng.normal(size=cases.probs.shape[0])
    q_hat = rng.normal(size=cases.q_values.shape[1:])
    q_bar = (cases.probs * q_hat[:, None]).sum(axis=2)
    return v_hat, q_bar, q_hat


def estimator_mean(cases, weight):
    """Sum of psi times a weight over time, states, sets and actions."""
    return np.einsum("tska,skad->d", cases.weights * weight, cases.score)


@few
@given(problem=problems, weights=st.tuples(st.floats(-9, 9), st.floats(-9, 9)))
def test_property_2_is_unbiased_for_any_weights(problem, weights):
    mdp, theta, features = problem
    cases = enumerate_policy(mdp, theta, features)
    v_hat, q_bar, _ = baselines(cases, np.random.default_rng(0))
    q = cases.q_values[:, :, None]
    baseline = weights[0] * v_hat[:, None, None] + weights[1] * q_bar[..., None]
    np.testing.assert_allclose(
        estimator_mean(cases, q + baseline), policy_gradient(cases), atol=1e-9
    )


def test_property_2_needs_the_sum_over_time_and_not_its_normalised_form():
    """As printed, with (1 - gamma) in d, the mean is (1 - gamma) times the gradient."""
    cases = enumerate_policy(*problem(0, gamma=0.8))
    normalised = 0.2 * estimator_mean(cases, cases.q_values[:, :, None])
    assert 0.2 * cases.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(normalised, 0.2 * policy_gradient(cases), atol=1e-12)
    assert not np.allclose(normalised, policy_gradient(cases), rtol=0.1)


def test_property_2_does_not_hold_for_a_baseline_that_depends_on_the_action():
    cases = enumerate_policy(*problem(0))
    _, _, q_hat = baselines(cases, np.random.default_rng(0))
    biased = estimator_mean(cases, (cases.q_values + q_hat)[:, :, None])
    assert not np.allclose(biased, policy_gradient(cases), rtol=0.1)


@few
@example(seed=1085, kind="grouped")  # where Nelder and Mead's simplex gets stuck
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_lemma_4_gives_the_weights_of_least_variance(seed, kind):
    mdp, theta, features = problem(seed, kind)
    cases = enumerate_policy(mdp, theta, features)
    v_hat, q_bar, _ = baselines(cases, np.random.default_rng(seed))
    prob = cases.weights[0] / cases.weights.sum()
    shape = prob.shape
    q = np.broadcast_to(cases.q_values[0, :, None], shape)
    columns = [np.broadcast_to(v_hat[:, None, None], shape)]
    columns.append(np.broadcast_to(q_bar[..., None], shape))
    b = cases.score[..., None] * np.stack(columns, axis=-1)[..., None, :]
    c = cases.score * q[..., None]
    b_b = np.einsum("ska,skadi,skadj->ij", prob, b, b)
    b_c = np.einsum("ska,skadi,skad->i", prob, b, c)
    if np.linalg.cond(b_b) > 1e4:  # The two baselines are one: any mixture is best.
        return

    def variance(weights):
        estimate = c + b @ weights
        mean = np.einsum("ska,skad->d", prob, estimate)
        return (prob * (estimate**2).sum(axis=-1)).sum() - mean @ mean

    best = -np.linalg.solve(b_b, b_c)
    found = minimize(variance, [-0.5, -0.5], method="BFGS", jac="3-point", tol=1e-9)
    np.testing.assert_allclose(best, found.x, atol=1e-3 * (1 + np.abs(best).max()))
    for shift in itertools.product((-0.1, 0.0, 0.1), repeat=2):
        assert variance(best + shift) >= variance(best) - 1e-12


def q_learning(mdp, num_sweeps, seed, *, masked):
    """Sweep over all state-action pairs with SAS-Q's or with plain Q-learning's target.

    A pair's rate falls as Robbins and Monro want it; the draws are the same for both.
    """
    rng = np.random.default_rng(seed)
    state, action = np.argwhere(mdp.possible_actions).T
    action_sets, q = mdp.action_sets, np.zeros(mdp.reward.shape)
    impossible = np.where(mdp.possible_actions, 0.0, -np.inf)
    for sweep in range(num_sweeps):
        next_state, reward, ended = mdp.transition(state, action, rng)
        uniforms = rng.random((len(state), action_sets.num_uniforms(mdp.num_actions)))
        possible = mdp.possible(next_state)
        ahead = (q + impossible)[next_state]
        if masked:
            mask = action_sets.sets_from(uniforms, next_state, possible)
            ahead = np.where(mask, ahead, -np.inf)
        target = reward + mdp.gamma * np.where(ended, 0.0, ahead.max(axis=1))
        q[state, action] += (1 + 0.1 * sweep) ** -0.8 * (target - q[state, action])
    return q + impossible


def test_sas_q_learning_reduces_to_q_learning_if_all_is_available():
    mdp = random_mdp(1, 4, 3, ends=True, gamma=0.8)
    everything = mdp.replace(action_sets=1.0)
    for task, is_equal in ((everything, True), (mdp, False)):
        ours, plain = (q_learning(task, 500, 0, masked=m) for m in (True, False))
        assert np.array_equal(ours, plain) == is_equal


@pytest.mark.parametrize("kind", KINDS)
def test_sas_q_learning_finds_the_values_of_the_planner(kind):
    """As Boutilier et al. (2018) state it, for a table; plain Q-learning does not."""
    mdp = random_mdp(2, 4, 3, kind, ends=True, gamma=0.7)
    exact = policy_iteration(mdp).q_values
    possible = mdp.possible_actions
    ours, plain = (q_learning(mdp, 20_000, 0, masked=m) for m in (True, False))
    np.testing.assert_allclose(ours[possible], exact[possible], atol=0.1)
    assert np.abs(plain[possible] - exact[possible]).max() > 0.2
