"""Where masks come from, and how they keep a network inside the action set."""

from typing import Any, Self

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.random import Generator
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.vec_env import (
    VecEnv,
    VecEnvWrapper,
    unwrap_vec_normalize,
)
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sas_gym import MaskInObservation
from sas_gym.masks import (
    MASK_KEY,
    check_masks,
    discrete_actions,
    masked_space,
    with_mask,
)

TensorObs = dict[str, th.Tensor]


def mask_out(scores: th.Tensor, action_mask: th.Tensor) -> th.Tensor:
    """Send the scores of unavailable actions to minus infinity, both [B, A]."""
    return scores.masked_fill(action_mask == 0, -th.inf)


def sample(probs: th.Tensor, generator: th.Generator | None = None) -> th.Tensor:
    """Draw one action a row of probabilities, [B, A] to [B].

    The smallest of exponential waiting times with these rates comes first: so an action
    of probability 0 never does.
    """
    waiting = th.empty_like(probs).exponential_(generator=generator)
    return (probs / waiting.clamp_min(th.finfo(probs.dtype).tiny)).argmax(dim=-1)


def sample_softmax(
    scores: NDArray[Any], action_mask: NDArray[Any], rng: Generator
) -> NDArray[np.intp]:
    """Draw one action a row by the masked softmax of its scores, both [N, A], to [N].

    The best of scores to which independent Gumbel noise is added has just that law.
    """
    noise = rng.gumbel(size=scores.shape)
    best: NDArray[np.intp] = np.where(action_mask, scores + noise, -np.inf).argmax(
        axis=1
    )
    return best


def has_mask(space: gym.Space[Any]) -> bool:
    """Return whether observations of a space carry the action mask."""
    return isinstance(space, spaces.Dict) and MASK_KEY in space.spaces


def bare_space(space: spaces.Dict) -> gym.Space[Any]:
    """Return the space without the mask: a lone `observation` as itself."""
    rest = {key: value for key, value in space.spaces.items() if key != MASK_KEY}
    return rest["observation"] if list(rest) == ["observation"] else spaces.Dict(rest)


def bare_observation(obs: TensorObs) -> th.Tensor | TensorObs:
    """Return an observation without the mask, as `bare_space` describes it."""
    rest = {key: value for key, value in obs.items() if key != MASK_KEY}
    return rest["observation"] if list(rest) == ["observation"] else rest


class FeaturesWithoutMask:
    """What a policy needs so that its features are those of the state alone.

    v and q are functions of the state, not of the (state, set) pair: that is what saves
    a SAS-MDP from having 2 to the number of actions times as many states.
    """

    observation_space: spaces.Dict
    features_extractor_class: type[BaseFeaturesExtractor]
    features_extractor_kwargs: dict[str, Any]
    normalize_images: bool

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """Build the features extractor for the bare observation."""
        space = bare_space(self.observation_space)
        return self.features_extractor_class(space, **self.features_extractor_kwargs)

    def preprocess(self, obs: TensorObs) -> th.Tensor | TensorObs:
        """Strip the mask and encode the rest as Stable-Baselines3 does."""
        bare, space = bare_observation(obs), bare_space(self.observation_space)
        return preprocess_obs(bare, space, normalize_images=self.normalize_images)

    def extract_features(
        self, obs: TensorObs, features_extractor: BaseFeaturesExtractor
    ) -> th.Tensor:
        """Return the features of the observation without its mask."""
        features: th.Tensor = features_extractor(self.preprocess(obs))
        return features


class VecMaskInObservation(VecEnvWrapper):
    """Put the masks that a `VecEnv` tells elsewhere into its observations.

    They come from `info["action_mask"]` or from a method `action_masks()`. The latter
    cannot tell the set of a final state, as the environment is reset by then: it counts
    as everything.
    """

    def __init__(self, venv: VecEnv) -> None:
        if unwrap_vec_normalize(venv) is not None:
            raise ValueError(
                "masks must be in the observations before these are normalised: write "
                "VecNormalize(VecMaskInObservation(venv), norm_obs_keys=[...])"
            )
        self._num_actions = int(discrete_actions(venv.action_space).n)
        super().__init__(venv, masked_space(venv.observation_space, self._num_actions))

    def reset(self) -> VecEnvObs:
        """Reset every lane."""
        obs = self.venv.reset()
        return with_mask(obs, self._masks(self.unwrapped.reset_infos))

    def step_wait(self) -> VecEnvStepReturn:
        """Finish a step in every lane."""
        obs, rewards, dones, infos = self.venv.step_wait()
        for info in (infos[lane] for lane in np.flatnonzero(dones)):
            final_mask = check_masks(
                info.get(MASK_KEY, np.ones(self._num_actions)),
                self._num_actions,
                f"info[{MASK_KEY!r}]",
                batch_shape=(),
                final=True,
            )
            info["terminal_observation"] = with_mask(
                info["terminal_observation"], final_mask
            )
        # Of wrappers and environment, only the latter keeps these up to date.
        resets = self.unwrapped.reset_infos
        current = [
            resets[lane] if done else infos[lane] for lane, done in enumerate(dones)
        ]
        return with_mask(obs, self._masks(current)), rewards, dones, infos

    def _masks(self, infos: list[dict[str, Any]]) -> NDArray[np.bool_]:
        if all(MASK_KEY in info for info in infos):
            masks = [info[MASK_KEY] for info in infos]
        elif self.venv.has_attr("action_masks"):
            masks = self.venv.env_method("action_masks")
        else:
            raise ValueError(
                "the environment tells no action mask: put it into the observation "
                "(key 'action_mask'), return info['action_mask'] from reset and step, "
                "or write a method action_masks()"
            )
        return check_masks(
            np.stack(masks), self._num_actions, batch_shape=(self.num_envs,)
        )


class MaskedAlgorithm(BaseAlgorithm):
    """What all our algorithms do to see the masks of any environment."""

    def policy_class_of(self, policy: str | type[BasePolicy]) -> type[BasePolicy]:
        """Return a policy's class, which the base class should be given.

        Stable-Baselines3 takes the names `"MlpPolicy"` and `"CnnPolicy"` for a mistake
        on dict observations, which all of ours are.
        """
        return self._get_policy_from_name(policy) if isinstance(policy, str) else policy

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.verbose >= 1:
            features = self.policy.features_extractor_class.__name__
            print(f"Features of the state: {features}")

    @staticmethod
    def _wrap_env(
        env: gym.Env[Any, Any] | VecEnv, verbose: int = 0, monitor_wrapper: bool = True
    ) -> VecEnv:
        """Wrap as Stable-Baselines3 does, and put the masks into the observations."""
        # SB3 rejects other action spaces itself, with a message of its own.
        wrap = isinstance(env.action_space, spaces.Discrete) and not has_mask(
            env.observation_space
        )
        if wrap and not isinstance(env, VecEnv):
            env = MaskInObservation(env)
        vec_env = BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper)
        if wrap and not has_mask(vec_env.observation_space):
            return VecMaskInObservation(vec_env)
        return vec_env

    def learn(
        self, total_timesteps: int, callback: MaybeCallback = None, **kwargs: Any
    ) -> Self:
        """Learn from so many steps.

        Args:
            total_timesteps: Number of steps, of all lanes together.
            callback: Called at every step.
            **kwargs: As in Stable-Baselines3: `log_interval`, `tb_log_name`,
                `reset_num_timesteps`, `progress_bar`.
        """
        named = {"tb_log_name": type(self).__name__} | kwargs
        return super().learn(total_timesteps, callback, **named)

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose actions inside the action sets.

        Args:
            observation: One observation, or one a lane.
            state: Unused; part of Stable-Baselines3's interface.
            episode_start: Likewise.
            deterministic: Whether to take the best action instead of drawing one.
            action_masks: The mask of each observation that does not carry it itself.
        """
        masked = require_mask(observation, action_masks, int(self.action_space.n))
        return self._choose(masked, state, episode_start, deterministic)

    def _choose(self, masked: dict[str, NDArray[Any]], *args: Any) -> tuple[Any, Any]:
        """Choose actions for observations that carry their masks."""
        return super().predict(masked, *args)


def require_mask(
    observation: Any, action_masks: NDArray[Any] | None, num_actions: int
) -> dict[str, NDArray[Any]]:
    """Return an observation that carries its mask, or say what is missing."""
    if action_masks is not None:
        observation = with_mask(observation, np.asarray(action_masks))
    elif not isinstance(observation, dict) or MASK_KEY not in observation:
        raise ValueError(
            "predict() needs the action mask: pass observations that carry it (wrap "
            "the environment in sas_gym.MaskInObservation, or a VecEnv in "
            "sas_agents.VecMaskInObservation), or pass action_masks=..."
        )
    check_masks(observation[MASK_KEY], num_actions)
    masked: dict[str, NDArray[Any]] = observation
    return masked
