"""What an environment or a user may pass an agent: checked once, where it enters."""

import warnings
from io import BytesIO
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import (
    EPISODE_STEPS,
    PAPER_AGENTS,
    Masked,
    all_agents,
    assert_same,
    episodic_agents,
    every_agent,
    everything_learned,
    make_agent,
    make_maze,
    maze_observations,
    replay_agents,
)
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.dqn.policies import DQNPolicy
from tqdm import TqdmExperimentalWarning

from sas_agents import SASNPG, SASPG, SASQ, MaskedPPO, MaskedQRDQN, MaskedTRPO
from sas_gym import Maze, SASVectorEnv
from sas_gym.masks import MASK_KEY


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


def mask(*values: float) -> dict[str, Any]:
    return {MASK_KEY: np.array(values)}


@all_agents
@pytest.mark.parametrize("when", ["reset", "step 2"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (mask(0, 0, 0), "offers no action"),
        (mask(1, 2, 0), "must be 1 where an action is available"),
        (mask(1, -1, 0), "must be 1 where an action is available"),
    ],
)
def test_mask_in_observation_is_checked(agent, when, fault, message):
    model = make_agent(agent, MaskInside(**{when: fault}))
    where = r"observation\['action_mask'\] at " + when.replace("reset", r"reset\(\)")
    with pytest.raises(ValueError, match=f"{where} {message}"):
        model.learn(40)


@all_agents
def test_empty_final_mask_is_harmless(agent):
    """Board games end with nothing to do: the weights stay finite."""
    model = make_agent(agent, MaskInside(end=mask(0, 0, 0))).learn(60)
    assert model.num_timesteps >= 60
    assert all(th.isfinite(p).all() for p in model.policy.parameters())


@all_agents
@pytest.mark.parametrize("when", ["reset", "step 2", "end"])
@pytest.mark.parametrize(
    "values", [(0.5, 1, 0), (np.nan, 1, 1), (256, 1, 0), [(1,) * 3]]
)
def test_mask_in_observation_is_checked_before_it_is_cast(agent, when, values):
    """Stable-Baselines3 would make 0 of the first three, and broadcast the last."""
    model = make_agent(agent, MaskInside(**{when: {MASK_KEY: np.array(values)}}))
    where = {"reset": r"reset\(\)", "end": f"step {EPISODE_STEPS}"}.get(when, when)
    with pytest.raises(
        ValueError, match=rf"observation\['action_mask'\] at {where} must"
    ):
        model.learn(40)


@all_agents
def test_progress_bar_ends_where_it_should(agent, capsys):
    """A last rollout that goes beyond it is not shown as 48 steps of 41."""
    # Those of Stable-Baselines3's bar, not ours.
    with warnings.catch_warnings(action="ignore", category=TqdmExperimentalWarning):
        model = make_agent(agent).learn(41, progress_bar=True)
    assert model.num_timesteps > 41
    shown = capsys.readouterr()
    assert "41/41" in shown.out + shown.err


@all_agents
def test_vector_environment_of_gymnasium_names_the_adapter(agent):
    with pytest.raises(ValueError, match=r"sas_agents\.VectorEnvAdapter\(env\)"):
        make_agent(agent, SASVectorEnv(Maze(), 2))


@all_agents
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_reward_that_is_not_finite_stops_learning(agent, wrong):
    model = make_agent(agent, MaskInside(reward=wrong))
    with pytest.raises(
        ValueError, match=r"reward is not finite at step 3: \[(nan|inf)"
    ):
        model.learn(40)


@all_agents
@pytest.mark.parametrize("when", ["reset", "step 2", "end"])
def test_observation_that_is_not_finite_stops_learning(agent, when):
    fault = {"observation": np.array([0, np.nan], np.float32)}
    model = make_agent(agent, MaskInside(**{when: fault}))
    with pytest.raises(ValueError, match=r"observation\['observation'\] is not finite"):
        model.learn(40)


NOT_FINITE = "(are|is) not finite|beyond single precision"


# What NumPy warns of on the way: it is the numbers that follow which are refused.
overflowing = pytest.mark.filterwarnings(
    "ignore:overflow encountered in:RuntimeWarning",
    "ignore:invalid value encountered in:RuntimeWarning",
)


@all_agents
@overflowing
def test_weights_never_become_nan_silently(agent):
    """The largest observation that is finite makes numbers that are not."""
    fault = {"observation": np.array([0, 3e38], np.float32)}
    model = make_agent(agent, MaskInside(**{"step 2": fault}))
    with pytest.raises(ValueError, match=NOT_FINITE):
        model.learn(300)


@episodic_agents
@pytest.mark.parametrize(
    "options",
    [{"whole_episodes": True}, {"n_steps": 4}, {"n_steps": 2}],
    ids=["episodes", "within a rollout", "at the end of a rollout"],
)
@overflowing
def test_overflow_of_the_critics_names_the_observations(agent, options):
    """The rewards, which are harmless, are not blamed."""
    fault = {"observation": np.array([-3e38, 3e38], np.float32)}
    model = make_agent(agent, MaskInside(**{"step 2": fault}), **options)
    with pytest.raises(ValueError, match=r"critics' values .* check the observations"):
        model.learn(300)


@episodic_agents
@overflowing
def test_overflow_of_the_returns_names_the_rewards(agent):
    model = make_agent(agent, MaskInside(reward=3e38), gamma=1.0)
    with pytest.raises(ValueError, match=r"the returns are .* check the rewards"):
        model.learn(300)


@pytest.mark.parametrize("agent", [MaskedPPO, MaskedTRPO, MaskedQRDQN])
def test_overflow_of_the_returns_is_named(agent):
    model = make_agent(agent, MaskInside(reward=3e38))
    with pytest.raises(ValueError, match=NOT_FINITE):
        model.learn(300)


def test_divergence_of_sas_q_is_named():
    """Its scale follows the targets as long as these are single-precision numbers."""
    model = make_agent(SASQ, learning_rate=1e10)
    with pytest.raises(ValueError, match="the targets have grown to"):
        model.learn(1000)


@all_agents
def test_user_callbacks_of_every_kind_are_called(agent):
    """They come after the checks, whether functions, objects or lists of these."""
    calls: list[str] = []

    def note(_locals: Any, _globals: Any) -> bool:
        calls.append("function")
        return True

    class Note(BaseCallback):
        def _on_step(self) -> bool:
            calls.append("object")
            return True

    for callback in (None, note, Note(), [Note(), Note()]):
        make_agent(agent, make_maze(1)).learn(32, callback)
    assert calls.count("function") >= 32
    assert calls.count("object") == 3 * calls.count("function")


@every_agent
def test_mask_space_of_wrong_size(agent):
    env = MaskInside()
    assert isinstance(env.observation_space, spaces.Dict)
    env.observation_space.spaces[MASK_KEY] = spaces.MultiBinary((1, 3))
    with pytest.raises(ValueError, match=r"there are 3 actions: make it .*Binary\(3\)"):
        make_agent(agent, env)


@every_agent
def test_masks_must_match_observations(agent):
    """One mask beside three observations, or three beside one, is a mistake."""
    model, obs = make_agent(agent), maze_observations(3)
    bare, masks = obs["observation"], obs[MASK_KEY]
    for state, given in ((bare, masks[:1]), (bare, masks[0]), (bare[0], masks)):
        with pytest.raises(ValueError, match="action_masks must have one entry per"):
            model.predict(state, action_masks=given)
        with pytest.raises(ValueError, match=r"observation\['action_mask'\] must have"):
            model.predict({"observation": state, MASK_KEY: given})


@every_agent
def test_result_of_gymnasiums_reset_is_named(agent):
    env: Any = gym.make("SAS/Maze-v0")
    with pytest.raises(ValueError, match=r"got a tuple.*`obs, info = env\.reset\(\)`"):
        make_agent(agent).predict(env.reset(seed=0))


@every_agent
@pytest.mark.parametrize("policy", ["MlpPolicy", "LinearPolicy", "MultiInputPolicy"])
def test_dict_observations_of_several_keys(agent, policy):
    space = spaces.Dict(place=spaces.Box(0, 1, (2,)), room=spaces.Discrete(3))
    model = make_agent(agent, Masked(space), policy=policy).learn(60)
    assert model.num_timesteps >= 60


@every_agent
def test_cnn_policy_on_dict_names_multi_input_policy(agent):
    space = spaces.Dict(place=spaces.Box(0, 1, (2,)), room=spaces.Discrete(3))
    with pytest.raises(
        ValueError, match=r"\['place', 'room'\]: use 'MultiInputPolicy'"
    ):
        make_agent(agent, Masked(space), policy="CnnPolicy")


@episodic_agents
def test_net_arch_by_network(agent):
    layers = {"pi": [8], "vf": [5, 4]}
    model = make_agent(agent, policy="MlpPolicy", policy_kwargs={"net_arch": layers})
    sizes = [
        [layer.out_features for layer in network.layers if hasattr(layer, "bias")]
        for network in (model.policy.actor, model.policy.value_net, model.policy.q_net)
    ]
    assert sizes == [[8, 16], [5, 4, 1], [5, 4, 16]]
    model.learn(20)


@pytest.mark.parametrize("agent", [*PAPER_AGENTS, MaskedQRDQN])
@pytest.mark.parametrize("layers", [{"pi": [8]}, "64", [0], [8.5]])
def test_wrong_net_arch_is_named(agent, layers):
    with pytest.raises(ValueError, match="net_arch must be a list of layer sizes"):
        make_agent(agent, policy="MlpPolicy", policy_kwargs={"net_arch": layers})


@replay_agents
def test_net_arch_by_network_needs_several_networks(agent):
    layers = {"pi": [8], "vf": [8]}
    with pytest.raises(ValueError, match=r"as there is one network; got {'pi'"):
        make_agent(agent, policy="MlpPolicy", policy_kwargs={"net_arch": layers})


@all_agents
@pytest.mark.parametrize("policy", [ActorCriticPolicy, DQNPolicy, 3])
def test_foreign_policy_class_is_refused(agent, policy):
    with pytest.raises(ValueError, match=r"or a subclass of sas_agents\.(SAS|Masked)"):
        make_agent(agent, policy=policy)


@every_agent
def test_actions_not_counted_from_0_are_refused(agent):
    env = Masked(spaces.Box(0, 1, (2,)), spaces.Discrete(3, start=3))
    for given in (env, DummyVecEnv([lambda: env])):
        with pytest.raises(ValueError, match=r"TransformAction\(env, .* action \+ 3"):
            make_agent(agent, given)


def test_vectors_of_actions_not_counted_from_0_are_refused():
    actions = spaces.MultiDiscrete([2, 3], start=[0, 1])
    with pytest.raises(ValueError, match=r"action \+ \[0, 1\].*Discrete\(\[2, 3\]\)"):
        make_agent(MaskedPPO, Masked(spaces.Box(0, 1, (2,)), actions))


@every_agent
def test_vectors_not_counted_from_0_are_refused(agent):
    space = spaces.MultiDiscrete([4, 5], start=[2, 0])
    with pytest.raises(ValueError, match=r"subtracts \[2, 0\], with .*\(\[4, 5\]\)"):
        make_agent(agent, Masked(space))


@every_agent
@pytest.mark.parametrize("in_dict", [False, True])
def test_observations_not_counted_from_0_are_refused(agent, in_dict):
    space: Any = spaces.Discrete(4, start=2)
    space = spaces.Dict(room=space, place=spaces.Box(0, 1, (2,))) if in_dict else space
    with pytest.raises(ValueError, match=r"not counted from 0: .* subtracts 2, with"):
        make_agent(agent, Masked(space))


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


class Predicts(BaseCallback):
    """Draws actions while the training runs."""

    def _on_step(self) -> bool:
        self.model.predict(maze_observations(4), deterministic=False)
        return True


@every_agent
def test_stochastic_evaluation_leaves_training_alone(agent):
    learned = []
    for callback in (
        None,
        Predicts(),
        EvalCallback(
            make_maze(seed=9), eval_freq=7, deterministic=False, verbose=0, warn=False
        ),
    ):
        model = make_agent(agent).learn(100, callback=callback)
        learned.append(everything_learned(model))
    assert_same(learned[0], learned[1])
    assert_same(learned[0], learned[2])


@every_agent
def test_parameters_are_tensors_of_numbers_only(agent):
    """Code that maps over them, an average of two agents say, must not break."""
    state = make_agent(agent).policy.state_dict()
    assert all(tensor.is_floating_point() for tensor in state.values())


@every_agent
def test_set_parameters_leaves_sampling_stream_alone(agent):
    model, twin, other = (make_agent(agent, seed=seed) for seed in (0, 0, 1))
    model.set_parameters(other.get_parameters())
    twin.policy.load_state_dict(other.policy.state_dict())
    obs = maze_observations()
    np.testing.assert_array_equal(model.predict(obs)[0], twin.predict(obs)[0])


@every_agent
def test_loaded_agent_draws_on(agent, tmp_path):
    model = make_agent(agent)
    obs = maze_observations()
    model.predict(obs)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(obs)[0], loaded.predict(obs)[0])


@every_agent
@pytest.mark.parametrize("name", ["model", "model.zip", "deep/model.v2"])
def test_interrupted_save_keeps_the_old_one(agent, name, tmp_path, monkeypatch):
    model = make_agent(agent)
    model.save(tmp_path / name)
    (saved,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    before = saved.read_bytes()

    def die(*_args: Any, **_kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(th, "save", die)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / name)
    assert saved.read_bytes() == before
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [saved]


@replay_agents
@pytest.mark.parametrize("name", ["buffer", "buffer.pickle"])
def test_interrupted_save_keeps_the_old_replay_buffer(
    agent, name, tmp_path, monkeypatch
):
    model = make_agent(agent).learn(40)
    model.save_replay_buffer(tmp_path / name)
    (saved,) = tmp_path.iterdir()
    before = saved.read_bytes()

    def die(_buffer: Any, file: Any, **_options: Any) -> None:
        file.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr("stable_baselines3.common.save_util.pickle.dump", die)
    with pytest.raises(KeyboardInterrupt):
        model.save_replay_buffer(tmp_path / name)
    assert saved.read_bytes() == before
    assert list(tmp_path.iterdir()) == [saved]


def test_replay_buffer_goes_into_an_open_file():
    model, file = make_agent(SASQ).learn(40), BytesIO()
    model.save_replay_buffer(file)
    file.seek(0)
    size = model.replay_buffer.size()
    model.load_replay_buffer(file)
    assert model.replay_buffer.size() == size > 0
