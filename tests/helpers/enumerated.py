"""Exact returns in small environments: every outcome of every step is enumerated."""

import copy
from collections.abc import Callable, Hashable
from math import prod
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Rule = Callable[[Any, NDArray[np.int8]], int]
MASK = "action_mask"


class Branch:
    """Random integers that follow a script, in the place of a generator.

    Args:
        script: The outcomes to take; 0 after its end.
    """

    def __init__(self, script: list[int]) -> None:
        self.script = list(script)
        self.outcomes: list[int] = []
        self.widths: list[int] = []

    def integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Return the next outcomes, as NumPy's generators return random ones."""
        low, high = (0, low) if high is None else (low, high)
        shape = np.broadcast(low, high).shape if size is None else size
        lows, highs = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        drawn = [
            start + self._next(int(end - start))
            for start, end in zip(lows.flat, highs.flat, strict=True)
        ]
        return np.reshape(drawn, shape) if shape != () else drawn[0]

    def _next(self, width: int) -> int:
        number = len(self.outcomes)
        outcome = self.script[number] if number < len(self.script) else 0
        self.outcomes.append(outcome)
        self.widths.append(width)
        return outcome

    def following(self) -> list[int] | None:
        """Return the script of the next branch, and `None` after the last one."""
        for number in reversed(range(len(self.outcomes))):
            if self.outcomes[number] + 1 < self.widths[number]:
                return [*self.outcomes[:number], self.outcomes[number] + 1]
        return None


class Model(NamedTuple):
    """A finite decision problem; one row for each available action of each state."""

    transition: Any
    """Probability of each state after a row, a sparse matrix [rows, states]."""
    reward: Floats
    """Expected reward of a row."""
    first_row: NDArray[np.intp]
    """First row of each state that is not final."""
    rule_row: NDArray[np.intp]
    """Row of the rule's action in each state that is not final."""
    start: Floats
    """Probability of each state at the start."""
    num_states: int
    """Number of states that are not final; they have the first numbers."""

    def best_return(self, horizon: int) -> float:
        """Return the largest expected return of so many steps."""
        return self._value(horizon, lambda q: np.maximum.reduceat(q, self.first_row))

    def rule_return(self, horizon: int) -> float:
        """Return the expected return of the rule in so many steps."""
        return self._value(horizon, lambda q: q[self.rule_row])

    def random_return(self, horizon: int) -> float:
        """Return the expected return of random available actions in so many steps."""
        counts = np.diff(np.append(self.first_row, len(self.reward)))
        return self._value(
            horizon, lambda q: np.add.reduceat(q, self.first_row) / counts
        )

    def _value(self, horizon: int, choose: Callable[[Floats], Floats]) -> float:
        value = np.zeros(self.num_states)
        for _ in range(horizon):
            value = choose(self.reward + self.transition @ value)
        return float(self.start @ value)


def enumerate_model(
    env: gym.Env[Any, Any], rule: Rule, seed: int | None = None
) -> Model:
    """Return the model of an environment that draws by `np_random.integers` alone.

    Args:
        env: The environment, without a time limit.
        rule: From an observation and a mask to an action.
        seed: Seed of the start; by default every start is enumerated.
    """
    states: dict[Hashable, int] = {}
    seen: list[tuple[Any, Any, NDArray[Any]]] = []

    def number(state: Any, observation: Any, info: Any) -> int:
        key = _key(state)
        if key not in states:
            states[key] = len(seen)
            seen.append((state, observation, _mask(state, observation, info)))
        return states[key]

    starts = [
        (number(state, *returned), p) for state, returned, p in _starts(env, seed)
    ]
    entries: list[tuple[int, int, float]] = []
    rewards: list[float] = []
    first_row, rule_row = [], []
    for state, observation, mask in seen:  # which grows
        first_row.append(len(rewards))
        chosen = rule(observation, mask.astype(np.int8))
        actions = np.flatnonzero(mask).tolist()
        assert chosen in actions, f"the rule chose {chosen}, available are {actions}"
        rule_row.append(len(rewards) + actions.index(chosen))
        for action in actions:
            row, reward = len(rewards), 0.0
            for after, (observed, gain, ended, _, info), p in _branches(state, action):
                reward += p * float(gain)
                if not ended:
                    entries.append((row, number(after, observed, info), p))
            rewards.append(reward)
    rows, columns, probs = zip(*entries, strict=True)
    shape = len(rewards), len(seen)
    start = np.zeros(len(seen))
    np.add.at(start, [state for state, _ in starts], [p for _, p in starts])
    return Model(
        transition=sparse.csr_matrix((probs, (rows, columns)), shape),
        reward=np.array(rewards),
        first_row=np.array(first_row),
        rule_row=np.array(rule_row),
        start=start,
        num_states=len(seen),
    )


def _starts(env: Any, seed: int | None) -> Any:
    if seed is not None:
        return [(env, env.reset(seed=seed), 1.0)]
    return _every_branch(env, lambda twin: twin.reset())


def _branches(state: Any, action: int) -> Any:
    return _every_branch(state, lambda twin: twin.step(action))


def _every_branch(env: Any, play: Callable[[Any], Any]) -> Any:
    script: list[int] | None = []
    while script is not None:
        twin, branch = _twin(env), Branch(script)
        twin.np_random = branch
        result = play(twin)
        yield twin, result, 1.0 / prod(branch.widths)
        script = branch.following()


def _twin(env: Any) -> Any:
    """Return an environment in the same state, which may go its own way."""
    twin = copy.copy(env)
    for name, value in vars(env).items():
        if isinstance(value, np.ndarray | list):
            setattr(twin, name, copy.deepcopy(value))
    return twin


def _key(env: Any) -> Hashable:
    return tuple(
        value.tobytes() if isinstance(value, np.ndarray) else repr(value)
        for name, value in vars(env).items()
        if not name.startswith("_np_random") and not isinstance(value, Space)
    )


def _mask(env: Any, observation: Any, info: Any) -> NDArray[Any]:
    if MASK in observation:
        return np.asarray(observation[MASK])
    return np.asarray(info[MASK] if MASK in info else env.action_masks())
