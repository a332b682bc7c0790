"""The base class of all agents: masks in, actions inside the action sets out."""

from collections.abc import Iterable, Sequence
from io import BufferedIOBase
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.vec_env import VecEnv

from sas_agents.base._callbacks import BoundedProgressBar, wrapped_evaluation_envs
from sas_agents.base._checks import (
    LearningChecks,
    check_finite,
    check_has_env,
    check_observations,
    check_settings,
    checked_timesteps,
    has_checked_masks,
    is_finite,
    rate_at,
)
from sas_agents.base._predictions import (
    check_available,
    check_inputs,
    check_weights,
    seeded_torch,
)
from sas_agents.base._saving import (
    check_origin,
    check_whole,
    origin_of,
    whole_file,
    with_suffix,
)
from sas_agents.base._space_checks import check_spaces
from sas_agents.base._user_warnings import warn_user
from sas_agents.models._features import ArrayObs
from sas_agents.models._rows import unused_row_keys
from sas_agents.vec_env._infos import ended_episodes, truncated_envs
from sas_agents.vec_env._mask_in_observation import single_with_mask, vec_with_mask
from sas_gym.masks import MASK_KEY, check_masks, mask_sizes, with_mask

# Keeps the randomness of predictions apart from training's under the same seed.
_PREDICTIONS_KEY = (0x9E3D,)


class MaskedAlgorithm(BaseAlgorithm):
    """An algorithm that sees the masks of any environment, and acts inside them."""

    behaviour_version: ClassVar[int]
    """Version of what the agent learns from a seed, raised when training changes:
    results of studies are keyed by it."""
    origin: dict[str, str | None]
    """Names of the agent and its policy, by which `load` recognises a file."""
    prediction_rng: np.random.Generator
    """Draws what `predict` chooses at random, so that an evaluation leaves training as
    it would be without. It is saved with the model."""

    _has_new_weights = False
    """Whether the weights were replaced since the last prediction."""
    _last_end = 0
    """Number of steps at the last end of an episode, or at the start of training."""

    def policy_class_of(self, policy: str | type[BasePolicy]) -> type[Any]:
        """Return a policy's class, which the base class should be given.

        Stable-Baselines3 takes the names `"MlpPolicy"` and `"CnnPolicy"` for a mistake
        on dict observations, which all of ours are.
        """
        aliases = self.policy_aliases
        if isinstance(policy, str):
            if policy not in aliases:
                raise ValueError(
                    f"Policy {policy} unknown: {type(self).__name__} has "
                    f"{sorted(aliases)}"
                )
            return aliases[policy]
        base = aliases.get("MlpPolicy") or aliases["MlpLstmPolicy"]
        if not (isinstance(policy, type) and issubclass(policy, base)):
            raise ValueError(
                f"policy must be one of {sorted(aliases)} or a subclass of "
                f"sas_agents.{base.__name__}, which masks the actions; got {policy!r}"
            )
        return policy

    def _setup_model(self) -> None:
        check_has_env(self)
        self._set_defaults()
        check_settings(self)
        super()._setup_model()  # type: ignore[safe-super]  # SB3's, by the subclass
        if not hasattr(self, "prediction_rng"):  # a loaded model has it
            sequence = np.random.SeedSequence(self.seed, spawn_key=_PREDICTIONS_KEY)
            self.prediction_rng = np.random.default_rng(sequence)
        self.origin = origin_of(type(self), self.policy_class)
        # Shared: a policy that is used by itself has one of its own.
        self.policy.rng = self.prediction_rng  # type: ignore[assignment]  # a Module's
        if self.verbose >= 1:
            features = self.policy.features_extractor_class.__name__
            print(f"Features of the state: {features}")
            self._print_rows()

    def _print_rows(self) -> None:
        """Print which entries are taken as rows of features per action, or could be."""
        layout = getattr(self.policy, "_layout", None)
        if layout is not None:
            rows = [*layout.keys, *["static rows"] * (layout.static is not None)]
            print(f"Features of the actions: {', '.join(rows)}")
        space, actions = self.observation_space, self.action_space
        if isinstance(space, spaces.Dict) and isinstance(actions, spaces.Discrete):
            keys = unused_row_keys(space, int(actions.n), layout)
            if keys:
                print(
                    f"{keys} have one entry per action: to score every action by its "
                    f"row, pass policy_kwargs={{'action_keys': {keys}}}"
                )

    def _set_defaults(self) -> None:
        """Replace `None` in settings whose defaults depend on policy or environment."""

    @staticmethod
    def _wrap_env(
        env: gym.Env[Any, Any] | VecEnv, verbose: int = 0, monitor_wrapper: bool = True
    ) -> VecEnv:
        """Wrap as Stable-Baselines3 does, and put the masks into the observations."""
        check_spaces(env)
        # SB3 and the policies reject other action spaces, with messages of their own.
        if not isinstance(env, VecEnv):
            env = single_with_mask(env)
        return vec_with_mask(BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper))

    def _update_info_buffer(
        self, infos: Sequence[dict[str, Any]], dones: NDArray[Any] | None = None
    ) -> None:
        """Keep the statistics of episodes that have ended: only their infos are read.

        Of more than the statistics keep, the last ones would be left.
        """
        if dones is None:
            super()._update_info_buffer(list(infos))
            return
        ended = dones.nonzero()[0]
        if not ended.size:
            return
        self._last_end = self.num_timesteps
        assert self.ep_info_buffer is not None  # set up with the training
        assert self.ep_success_buffer is not None
        last = ended_episodes(infos, ended[-self._stats_window_size :])
        for buffer, key in (
            (self.ep_info_buffer, "episode"),
            (self.ep_success_buffer, "is_success"),
        ):
            buffer += [x for info in last if (x := info.get(key)) is not None]

    def save(
        self,
        path: str | Path | BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Save the model, whole or not at all.

        It is written beside its place and then moved there, so that a save which is
        interrupted leaves an older one as it was. `load` unpickles the file, which can
        run any code: load files of people whom you trust.

        To continue training, load with the environment: `load(path, env=env)`. The
        environment is not saved, and with the model's own seed Stable-Baselines3 would
        seed it again: the episodes of the first training would be played again. So pass
        another seed, `load(path, env=env, seed=1)`, or, if `env` is still as the
        training left it, `load(path, env=env, seed=None, force_reset=False)`, which
        continues as if it had never stopped. `SASQ` and `MaskedQRDQN` also need
        `save_replay_buffer` and `load_replay_buffer`, and, to go on to the last bit,
        NumPy's global state, from which Stable-Baselines3's replay buffer draws; the
        stock on-policy algorithms (`MaskedPPO` and so on) torch's state, and NumPy's.
        sb3-contrib does not save the memory of `MaskedRecurrentPPO`: it starts empty.

        Args:
            path: Where to; `.zip` is added to a name without a suffix.
            exclude: Attributes to leave out beside those left out by default.
            include: Attributes to save even so.
        """
        if isinstance(path, BufferedIOBase):
            super().save(path, exclude, include)
            return
        with whole_file(with_suffix(path, "zip")) as file:
            super().save(file, exclude, include)

    @classmethod
    def load(
        cls,
        path: str | Path | BufferedIOBase,
        env: GymEnv | None = None,
        device: th.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Load a model that an agent of this class has saved.

        A file can run any code while it is loaded, as Stable-Baselines3 unpickles
        parts of it: load files of people you trust alone.

        Args:
            path: The file; `.zip` is added to a name that does not exist.
            env: The environment to learn in; see `save`. Default: none, to predict.
            device: Where the tensors are; `"auto"` takes a GPU if there is one.
            custom_objects: Values that replace saved ones, which are not unpickled.
            print_system_info: Whether to print the versions of then and now.
            force_reset: Whether training starts by resetting the environment.
            **kwargs: Attributes that replace saved ones, such as `seed`.

        Raises:
            ValueError: If the file is damaged, or another agent saved it, or a value
                cannot be unpickled.
        """
        objects = check_origin(cls, path) | (custom_objects or {})
        try:
            return super().load(
                path, env, device, objects, print_system_info, force_reset, **kwargs
            )
        except UnpicklingError as error:
            raise ValueError(
                f"a value in {path} cannot be unpickled ({error}): replace it by "
                "custom_objects={name: value}, or save the model again"
            ) from error

    def set_parameters(
        self,
        load_path_or_dict: str | dict[str, Any],
        exact_match: bool = True,
        device: th.device | str = "auto",
    ) -> None:
        """Replace the parameters; the next prediction checks that they are finite.

        Args:
            load_path_or_dict: A saved model, or the `state_dict` of each object.
            exact_match: Whether every parameter must be given.
            device: Where the parameters go.
        """
        if not isinstance(load_path_or_dict, dict):
            check_whole(load_path_or_dict)
        super().set_parameters(load_path_or_dict, exact_match, device)
        self._has_new_weights = True

    def _setup_learn(
        self, total_timesteps: int, *args: Any, **kwargs: Any
    ) -> tuple[int, BaseCallback]:
        total_timesteps = checked_timesteps(total_timesteps)
        if total_timesteps == 0:
            warn_user("learn(0) learns nothing: pass the number of steps to learn from")
        arguments = super()._setup_learn(total_timesteps, *args, **kwargs)
        assert self.env is not None  # or it could not have been set up
        self._last_end = self.num_timesteps
        # Looked up once: at every step it took as long as the step.
        self._trusts_masks = has_checked_masks(self.env)
        self._mask_sizes = mask_sizes(self.action_space)
        self._check_reset(self._last_obs)
        return arguments

    def _update_current_progress_remaining(
        self, num_timesteps: int, total_timesteps: int
    ) -> None:
        """Let schedules end at 0, where a last rollout goes beyond the last step."""
        super()._update_current_progress_remaining(num_timesteps, total_timesteps)
        self._current_progress_remaining = max(self._current_progress_remaining, 0.0)

    def _update_learning_rate(
        self, optimizers: list[th.optim.Optimizer] | th.optim.Optimizer
    ) -> None:
        rate_at("learning_rate", self.lr_schedule, self._current_progress_remaining)
        super()._update_learning_rate(optimizers)

    def _init_callback(
        self, callback: MaybeCallback, progress_bar: bool = False
    ) -> BaseCallback:
        """Let the checks come first: every loop calls its callbacks at every step.

        The environments of callbacks such as `EvalCallback` get their masks in the
        observations, as the environments of the training have them.
        """
        given = callback if isinstance(callback, list) else [callback]
        callbacks = [
            one if isinstance(one, BaseCallback) else ConvertCallback(one)
            for one in given
            if one is not None
        ]
        bar = [BoundedProgressBar()] if progress_bar else []
        checks, others = LearningChecks(), [*callbacks, *bar]
        # A list of one would take longer than what is in it.
        with wrapped_evaluation_envs(callbacks, self._wrap_env):
            return super()._init_callback([checks, *others] if others else checks)

    def _check_reset(self, obs: Any) -> None:
        """Raise `ValueError` for first observations that nothing can be learned from.

        A silent NaN would end in weights that are all NaN, and an empty mask in an
        unavailable action.
        """
        self._checked(obs, "at reset()", self.n_envs)

    def _check_step(
        self,
        obs: Any,
        rewards: NDArray[Any],
        dones: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Raise `ValueError` for a step that nothing can be learned from.

        An empty mask of a final state, where nobody acts, becomes one with every
        action.
        """
        trusts = self._trusts_masks
        ended = truncated_envs(infos, dones) if trusts else dones.nonzero()[0].tolist()
        # Nearly always, and so without anything that an error would need.
        if trusts and not ended and all(map(is_finite, (rewards, *obs.values()))):
            return
        when = f"at step {self.num_timesteps}"
        check_finite("reward", rewards, when)
        self._checked(obs, when, self.n_envs)
        # Nothing is learned from a final state but its mask, unless it was cut off.
        for info in (infos[index] for index in ended):
            last = info.get("terminal_observation")
            if last is not None:
                last = self._checked(last, f"{when}, in a final state", None)
                info["terminal_observation"] = last

    def _checked(self, obs: ArrayObs, when: str, num_envs: int | None) -> ArrayObs:
        return check_observations(
            obs,
            self._mask_sizes,
            when,
            num_envs=num_envs,
            trusts_masks=self._trusts_masks,
        )

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
            observation: One observation, or a batch of them.
            state: Hidden states of a recurrent policy; others do not use it.
            episode_start: Whether each observation starts an episode; likewise.
            deterministic: Whether to take the best action instead of drawing one.
            action_masks: The mask of each observation; replaces one that it carries.

        Returns:
            The action of each observation, and the new `state`.

        Raises:
            ValueError: If a mask is missing, wrong or empty, if an observation or a
                weight is NaN or infinite, or if the values of the available actions
                are.
        """
        sizes = mask_sizes(self.action_space)
        masked = require_mask(observation, action_masks, sizes, self.observation_space)
        check_inputs(masked, state, episode_start)
        if self._has_new_weights:
            check_weights(self.policy.named_parameters())
            self._has_new_weights = False
        actions, state = self._choose(masked, state, episode_start, deterministic)
        check_available(actions, masked[MASK_KEY], sizes)
        return actions, state

    def _choose(
        self,
        masked: dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None,
        episode_start: NDArray[Any] | None,
        deterministic: bool,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose actions for observations that carry their masks."""
        if deterministic:
            return super().predict(masked, state, episode_start, deterministic)
        # Stable-Baselines3's policies draw from torch's generator, as training does.
        with seeded_torch(int(self.prediction_rng.integers(2**63)), self.device):
            return super().predict(masked, state, episode_start, deterministic)


def require_mask(
    observation: Any,
    action_masks: NDArray[Any] | None,
    sizes: list[int],
    space: gym.Space[Any],
) -> dict[str, NDArray[Any]]:
    """Return an observation that carries its mask, or say what is missing."""
    if isinstance(observation, tuple):
        raise ValueError(
            "predict() got a tuple, where it needs an observation: Gymnasium's reset() "
            "returns `obs, info = env.reset()`, a VecEnv's `obs = vec_env.reset()`"
        )
    source = f"observation[{MASK_KEY!r}]"
    if action_masks is not None:
        source = "action_masks"
        if not isinstance(observation, dict):
            observation = {"observation": observation}
    elif not isinstance(observation, dict) or MASK_KEY not in observation:
        raise ValueError(
            "predict() needs the action mask, and the observation has none: write "
            "`env = sas_gym.MaskInObservation(env)` before evaluate_policy(model, env) "
            "or a loop of your own, for a VecEnv "
            "`env = sas_agents.VecMaskInObservation(env)`; or pass "
            "predict(observation, action_masks=...)"
        )
    _check_keys(observation, space)
    shape = _batch_shape(observation, space)
    given = observation[MASK_KEY] if action_masks is None else action_masks
    masks = check_masks(given, sizes, source, batch_shape=shape)
    return with_mask(observation, masks)


def _check_keys(observation: dict[str, Any], space: gym.Space[Any]) -> None:
    """Raise `ValueError` for an observation with other keys than its space."""
    known = set(space.spaces) if isinstance(space, spaces.Dict) else {"observation"}
    given = set(observation)
    missing = sorted(known - given - {MASK_KEY})
    unknown = sorted(given - known - {MASK_KEY})
    if missing or unknown:
        raise ValueError(
            f"predict() got an observation with the keys {sorted(given)}: missing "
            f"{missing}, unknown {unknown}. The model learned from the keys "
            f"{sorted(known)}"
        )


def _batch_shape(
    observation: dict[str, Any], space: gym.Space[Any]
) -> tuple[int, ...] | None:
    """Return the shape of a batch of observations, `()` for one alone.

    `None` where the observation is not of the space: what is wrong with it is then
    Stable-Baselines3's to say.
    """
    parts = space.spaces if isinstance(space, spaces.Dict) else {}
    for key, part in parts.items():
        if key != MASK_KEY and key in observation and part.shape is not None:
            shape: tuple[int, ...] = np.shape(observation[key])
            return shape[: max(len(shape) - len(part.shape), 0)]
    return None
