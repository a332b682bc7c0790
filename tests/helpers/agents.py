"""Small agents and environments, and what training changes in them."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import VecEnv, VecMonitor
from torch import nn
from torch.nn.utils import parameters_to_vector

from sas_agents import (
    SASNPG,
    SASPG,
    SASQ,
    MaskedA2C,
    MaskedPPO,
    MaskedQRDQN,
    MaskedRecurrentPPO,
    MaskedTRPO,
    make_vec_env,
)
from sas_agents.models._mlp import Mlp
from sas_gym.masks import MASK_KEY

TAXI = max(name for name in gym.registry if name.startswith("Taxi-v"))
"""Gymnasium's Taxi, whose masks are in the info; v4 only from Gymnasium 1.3 on."""

EPISODE_STEPS = 10
"""Length of the episodes of `make_maze`: the limit cuts them before the goal."""

# Enough to learn something in a hundred steps.
SHORT: dict[Any, dict[str, Any]] = {
    SASPG: {"n_steps": 4, "n_epochs": 2},
    SASNPG: {"n_steps": 4, "w_steps": 2, "n_epochs": 2},
    SASQ: {
        "learning_starts": 20,
        "buffer_size": 500,
        "batch_size": 8,
        "train_freq": 4,
        "gradient_steps": 1,
        "target_update_interval": 40,
    },
    MaskedPPO: {"n_steps": 16, "batch_size": 16, "n_epochs": 2},
    MaskedA2C: {"n_steps": 8},
    MaskedTRPO: {"n_steps": 16, "batch_size": 16, "n_critic_updates": 2},
    MaskedRecurrentPPO: {
        "n_steps": 16,
        "batch_size": 32,
        "n_epochs": 2,
        "policy_kwargs": {"lstm_hidden_size": 8},
    },
    MaskedQRDQN: {
        "learning_starts": 20,
        "buffer_size": 500,
        "batch_size": 8,
        "target_update_interval": 40,
        "policy_kwargs": {"n_quantiles": 10},
    },
}

EPISODIC_AGENTS = [SASPG, SASNPG]
PAPER_AGENTS = [*EPISODIC_AGENTS, SASQ]
REPLAY_AGENTS = [SASQ, MaskedQRDQN]
MASKED_AGENTS = [agent for agent in SHORT if agent not in PAPER_AGENTS]
ROLLOUT_AGENTS = [agent for agent in MASKED_AGENTS if agent not in REPLAY_AGENTS]

every_agent = pytest.mark.parametrize("agent", PAPER_AGENTS)
masked_agents = pytest.mark.parametrize("agent", MASKED_AGENTS)
all_agents = pytest.mark.parametrize("agent", SHORT)
episodic_agents = pytest.mark.parametrize("agent", EPISODIC_AGENTS)
replay_agents = pytest.mark.parametrize("agent", REPLAY_AGENTS)
rollout_agents = pytest.mark.parametrize("agent", ROLLOUT_AGENTS)


def make_maze(n_envs: int = 2, seed: int = 0, **options: Any) -> VecEnv:
    """Make mazes whose episodes all have `EPISODE_STEPS` steps."""
    options = {"max_episode_steps": EPISODE_STEPS, **options}
    return make_vec_env("SAS/Maze-v0", n_envs, seed=seed, env_kwargs=options)


def maze_observations(n_envs: int = 50) -> Any:
    """Return first observations with their masks."""
    return make_maze(n_envs, seed=7).reset()


def make_agent(
    agent: Any, env: Any = None, policy: Any = "LinearPolicy", **options: Any
) -> Any:
    """Make an agent with `SHORT` arguments, on `make_maze` by default."""
    env = make_maze() if env is None else env
    if agent is MaskedRecurrentPPO and isinstance(policy, str):
        policy = policy.replace("Policy", "LstmPolicy")
    return agent(policy, env, **({"seed": 0} | SHORT[agent] | options))


def twin_of(env: Any) -> VecEnv:
    """Return environments in the same state; SB3's own wrappers cannot be copied."""
    return VecMonitor(copy.deepcopy(env.unwrapped))


def everything_learned(model: Any) -> dict[str, th.Tensor]:
    """Return all that training changes, by name."""
    tensors = {f"policy.{name}": p for name, p in model.policy.state_dict().items()}
    for name in ("baseline_weights", "w"):
        if hasattr(model, name):
            tensors[name] = getattr(model, name)
    for name in ("optimizer", "value_optimizer", "q_optimizer"):
        if hasattr(model.policy, name):
            state = getattr(model.policy, name).state_dict()["state"]
            tensors |= {
                f"{name}.{i}.{key}": value
                for i, entries in state.items()
                for key, value in entries.items()
            }
    return {name: tensor.clone() for name, tensor in tensors.items()}


def assert_same(one: dict[str, th.Tensor], other: dict[str, th.Tensor]) -> None:
    """Assert that tensors are equal to the last bit."""
    assert one.keys() == other.keys()
    differing = [name for name in one if not th.equal(one[name], other[name])]
    assert differing == []


def assert_close(found: Any, expected: Any) -> None:
    """Assert that arrays are equal by torch's measure for single precision."""
    np.testing.assert_allclose(found, expected, rtol=1.3e-6, atol=1e-5)


def assert_differ(one: dict[str, th.Tensor], other: dict[str, th.Tensor]) -> None:
    """Assert that some tensor differs."""
    assert any(not th.equal(one[name], other[name]) for name in one)


class Recorder(KVWriter):
    """Keeps what is logged, one row per dump."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
        """Keep a row."""
        self.rows.append(dict(key_values))

    def close(self) -> None:
        """Do nothing: there is no file."""


def logged_rows(model: Any, num_steps: int, **options: Any) -> list[dict[str, Any]]:
    """Train and return what is logged, one row per dump."""
    recorder = Recorder()
    model.set_logger(Logger(None, [recorder]))
    model.learn(num_steps, log_interval=1, **options)
    return recorder.rows


class Masked(gym.Env[Any, Any]):
    """Any observations; three actions, of which the step number's is unavailable."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any] | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(3)
        self.num_steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode of `EPISODE_STEPS` steps."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.num_steps = 0
        return self.observation_space.sample(), {"action_mask": self.action_masks()}

    def step(self, action: Any) -> Any:
        """Take a step; its reward is the action's number."""
        assert self.action_masks()[action], "unavailable"
        self.num_steps += 1
        ended = self.num_steps == EPISODE_STEPS
        info = {"action_mask": self.action_masks(), "is_success": action == 2}
        return self.observation_space.sample(), float(action), ended, False, info

    def action_masks(self) -> Any:
        """Return the action set."""
        return (np.arange(3) != self.num_steps % 3).astype(np.int8)


class MaskInside(Masked):
    """An environment of a user's, whose observations carry the mask themselves."""

    def __init__(self, **faults: Any) -> None:
        super().__init__(spaces.Box(0, 1, (2,)))
        self.bare_space = self.observation_space
        self.bare_space.seed(0)
        self.observation_space = spaces.Dict(
            observation=self.bare_space, action_mask=spaces.MultiBinary(3)
        )
        self.faults = faults

    def observe(self, when: str) -> Any:
        mask = self.action_masks()
        seen = {"observation": self.bare_space.sample(), MASK_KEY: mask}
        return seen | self.faults.get(when, {})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.num_steps = 0
        return self.observe("reset"), {}

    def step(self, action: Any) -> Any:
        assert self.action_masks()[action], "unavailable"
        self.num_steps += 1
        ended = self.num_steps == EPISODE_STEPS
        obs = self.observe("end" if ended else f"step {self.num_steps}")
        reward = self.faults.get("reward", 1.0) if self.num_steps == 3 else 1.0
        return obs, reward, ended, False, {}


def random_mlp(
    seed: int,
    net_arch: list[int] | None = None,
    bias: bool = False,
    num_outputs: int = 5,
    activation: type[nn.Module] = nn.Tanh,
) -> Mlp:
    """Return layers from 4 features, with random parameters; by default one layer."""
    model = Mlp(4, net_arch or [], activation, num_outputs, bias)
    rng = np.random.default_rng(seed)
    model.set_theta(0.5 * rng.standard_normal(model.theta.size, dtype=np.float32))
    return model


def explicit_scores(actor: Any, inputs: Any, mask: Any, actions: Any) -> th.Tensor:
    """Differentiate the log probabilities one by one: one row of psi per sample."""
    rows = []
    arrays = map(th.as_tensor, (inputs, mask, actions))
    for one, row, action in zip(*arrays, strict=True):
        actor.zero_grad()
        logits = actor(one[None])[0]
        available = th.where(row.bool(), logits, -th.inf)
        available.log_softmax(dim=0)[action].backward()
        rows.append(parameters_to_vector([p.grad for p in actor.parameters()]))
    return th.stack(rows)
