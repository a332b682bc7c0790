"""A masked-softmax policy in torch: its objective set by set, its trajectories."""

import numpy as np
import torch as th

from helpers import brute_force


def log_policy(theta, features, state, actions):
    """Masked log-softmax of one set, in torch."""
    return th.log_softmax(th.as_tensor(features[state]) @ theta[:, list(actions)], 0)


def exact_objective(mdp, theta, features):
    """J(theta) in torch, set by set."""
    size = mdp.num_states
    transition = mdp.transition_matrix.toarray().reshape(*mdp.reward.shape, size)
    rewards, moves = [], []
    for state, probs in enumerate(brute_force.set_probs_by_state(mdp)):
        reward, move = th.zeros((), dtype=th.double), th.zeros(size, dtype=th.double)
        for actions, weight in probs.items():
            pi = weight * log_policy(theta, features, state, actions).exp()
            reward = reward + pi @ th.as_tensor(mdp.reward[state, list(actions)])
            move = move + pi @ th.as_tensor(transition[state, list(actions)])
        alive = float(not mdp.is_terminal[state])
        rewards.append(alive * reward)
        moves.append(alive * move)
    r, p = th.stack(rewards), th.stack(moves)
    mu = th.as_tensor(mdp.initial_distribution)
    if mdp.horizon is None:
        return mu @ th.linalg.solve(th.eye(size, dtype=th.double) - mdp.gamma * p, r)
    v = th.zeros(size, dtype=th.double)
    for _ in range(mdp.horizon):
        v = r + mdp.gamma * p @ v
    return mu @ v


def trajectories(mdp, theta, features):
    """Yield every trajectory's probability and its log-likelihood's policy terms.

    An episode goes on after a step with probability gamma: that is what discounting
    the terms of a trajectory means, and the sense in which Property 1 holds.
    """
    distributions = brute_force.set_probs_by_state(mdp)
    transition = mdp.transition_matrix.toarray().reshape(*mdp.reward.shape, -1)
    starts = np.flatnonzero(mdp.initial_distribution)
    started = [(mdp.initial_distribution[s], s, 0.0) for s in starts]
    for step in range(mdp.horizon):
        continued = []
        for (weight, state, log), (actions, p) in (
            (case, item) for case in started for item in distributions[case[1]].items()
        ):
            log_pi = log_policy(theta, features, state, actions)
            for action, term in zip(actions, log_pi, strict=True):
                share = weight * p * term.exp().item()
                last = step == mdp.horizon - 1
                stops = 1.0 if last else 1 - mdp.gamma
                if stops:
                    yield share * stops, log + term
                for successor in np.flatnonzero(transition[state, action]):
                    likely = share * (1 - stops) * transition[state, action, successor]
                    if mdp.is_terminal[successor]:
                        yield likely, log + term
                    elif likely:
                        continued.append((likely, successor, log + term))
        started = continued
