"""What installed peers answer to the questions of `test_known_answers.py`.

    python benchmarks/peers.py

sb3-contrib is asked always, Tianshou where it is installed (it pins old versions, so
that it needs an environment of its own).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import sas_gym
from sas_agents.maths._masked_ops import masked_log_probs


def dominant_logit_of(library: str) -> Any:
    """Probabilities of the logits (1e30, 0, log 3), the first unavailable."""
    logits = th.tensor([[1e30, 0.0, float(np.log(3.0))]])
    mask = np.array([[False, True, True]])
    if library == "sas_agents":
        return _rounded(masked_log_probs(logits, th.as_tensor(mask)).exp())
    if library == "sb3-contrib":
        from sb3_contrib.common.maskable.distributions import MaskableCategorical

        return _rounded(MaskableCategorical(logits=logits, masks=mask).probs)
    return _tianshou_q(logits.numpy(), mask)


def all_false_of(library: str) -> Any:
    """Probabilities of three equal logits, none of them available."""
    logits, mask = th.zeros((1, 3)), np.zeros((1, 3), dtype=bool)
    if library == "sas_agents":
        return str(_error(lambda: sas_gym.masks.check_masks(mask, 3)))
    if library == "sb3-contrib":
        from sb3_contrib.common.maskable.distributions import MaskableCategorical

        return _rounded(MaskableCategorical(logits=logits, masks=mask).probs)
    return _tianshou_q(logits.numpy(), mask)


def large_simplex_of(library: str) -> Any:
    """Share of 200 batches of 10,000 random logits that are taken without an error."""
    generator = th.Generator().manual_seed(0)
    taken = 0
    for _ in range(200):
        logits = 10 * th.randn((1, 10_000), generator=generator)
        mask = np.ones((1, 10_000), dtype=bool)
        if library == "sas_agents":
            total = masked_log_probs(logits, th.as_tensor(mask)).exp().sum().item()
            taken += abs(total - 1) < 1e-4
        elif library == "sb3-contrib":
            from sb3_contrib.common.maskable.distributions import MaskableCategorical

            build = MaskableCategorical(logits=logits)
            taken += _error(partial(build.apply_masking, mask)) is None
        else:
            return "not asked"
    return taken / 200


def normalised_mask_of(library: str) -> Any:
    """Values of the mask (0, 1, 1) after SB3's VecNormalize."""
    if library == "Tianshou":
        return "not asked"
    kind: Any = gym.spaces.MultiBinary(3)
    if library == "sb3-contrib":
        # Its masks are not in the observations: this is a user's own, as a Box.
        kind = gym.spaces.Box(0, 1, (3,), np.float32)
    env = _Fixed(gym.spaces.Dict(place=gym.spaces.Box(0, 1, (1,)), action_mask=kind))
    answer: Any = _error(lambda: VecNormalize(DummyVecEnv([lambda: env])))
    if answer is not None:
        return f"refused: {answer}"
    venv = VecNormalize(DummyVecEnv([lambda: env]))
    venv.reset()
    obs: Any = venv.step(np.array([0]))[0]
    return f"as a Box: {np.round(obs['action_mask'][0].astype(float), 3).tolist()}"


QUESTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "a dominant unavailable logit": (dominant_logit_of, "[0, 0.25, 0.75]"),
    "a mask without an action": (all_false_of, "an error"),
    "10,000 categories": (large_simplex_of, "1.0"),
    "VecNormalize on the mask": (normalised_mask_of, "refused, or [0, 1, 1]"),
}


class _Fixed(gym.Env[Any, Any]):
    """Returns the mask (0, 1, 1) beside a number."""

    action_space = gym.spaces.Discrete(3)

    def __init__(self, space: gym.Space[Any]) -> None:
        self.observation_space = space

    def observe(self) -> Any:
        """Return the one observation."""
        return {"place": np.zeros(1, np.float32), "action_mask": np.array([0, 1, 1])}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start."""
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        """Go on."""
        return self.observe(), 0.0, False, False, {}


def _tianshou_q(q: Any, mask: Any) -> Any:
    """Return what Tianshou's DQN takes the maximum of."""
    try:
        from tianshou.policy import DQNPolicy
    except ImportError:
        return "not installed"
    return DQNPolicy.compute_q_value(None, th.as_tensor(q), mask).tolist()


def _error(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _rounded(probs: th.Tensor) -> list[float]:
    return [round(p, 4) for p in probs[0].tolist()]


def main() -> None:
    """Print every question, the right answer, and each library's."""
    for question, (ask, right) in QUESTIONS.items():
        print(f"{question}; right: {right}")
        for library in ("sas_agents", "sb3-contrib", "Tianshou"):
            try:
                answer = ask(library)
            except Exception as error:
                answer = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            print(f"    {library}: {answer}")


if __name__ == "__main__":
    main()
