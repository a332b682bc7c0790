"""Stable-Baselines3's callbacks work with our agents as with its own."""

import warnings
from typing import Any

import numpy as np
from helpers.agents import (
    EPISODE_STEPS,
    all_agents,
    assert_same,
    every_agent,
    everything_learned,
    make_agent,
    make_maze,
    maze_observations,
)
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from tqdm import TqdmExperimentalWarning


class Count(BaseCallback):
    """Remembers how far training was at each step."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def _on_step(self):
        self.steps.append(self.num_timesteps)
        return True


class StopAt(BaseCallback):
    def __init__(self, num_timesteps):
        super().__init__()
        self.stop = num_timesteps

    def _on_step(self):
        return self.num_timesteps < self.stop


@all_agents
def test_eval_callback_saves_best_model_and_curve(agent, tmp_path):
    callback = EvalCallback(
        make_maze(seed=1),
        eval_freq=50,
        n_eval_episodes=3,
        log_path=tmp_path,
        best_model_save_path=tmp_path,
        verbose=0,
    )
    make_agent(agent).learn(300, callback)
    curve = np.load(tmp_path / "evaluations.npz")
    assert curve["timesteps"][:3].tolist() == [100, 200, 300]
    assert curve["results"].shape[1] == 3
    assert callback.best_mean_reward == curve["results"].mean(axis=1).max()
    best = agent.load(tmp_path / "best_model")
    assert best.num_timesteps in curve["timesteps"]


@every_agent
def test_stop_on_reward_threshold(agent):
    stop = StopTrainingOnRewardThreshold(reward_threshold=-1e9, verbose=0)
    evaluation = EvalCallback(
        make_maze(seed=1), stop, eval_freq=30, n_eval_episodes=1, verbose=0
    )
    assert make_agent(agent).learn(10_000, evaluation).num_timesteps == 60


@all_agents
def test_checkpoints_can_be_loaded(agent, tmp_path):
    callback = CheckpointCallback(save_freq=40, save_path=tmp_path)
    make_agent(agent).learn(200, callback)
    loaded = agent.load(tmp_path / "rl_model_160_steps")
    assert loaded.num_timesteps == 160
    assert (tmp_path / "rl_model_80_steps.zip").exists()


@all_agents
def test_callback_stops_training(agent):
    assert make_agent(agent).learn(10_000, StopAt(46)).num_timesteps == 46


@every_agent
def test_stop_on_max_episodes(agent):
    callback = StopTrainingOnMaxEpisodes(max_episodes=3)
    model = make_agent(agent).learn(10_000, callback)
    # Three in each of two environments, all cut by the limit.
    assert model.num_timesteps == 3 * 2 * EPISODE_STEPS


@every_agent
def test_callback_sees_every_step(agent):
    callback = Count()
    model = make_agent(agent)
    model.learn(100, CallbackList([callback]))
    assert callback.steps == list(range(2, model.num_timesteps + 2, 2))
    assert 100 <= model.num_timesteps < 100 + 2 * EPISODE_STEPS


@every_agent
def test_reset_num_timesteps(agent):
    """Steps are counted on with `reset_num_timesteps=False`, and from 0 without."""
    model = make_agent(agent).learn(100)
    first = model.num_timesteps
    model.learn(100, reset_num_timesteps=False)
    assert model.num_timesteps >= first + 100
    model.learn(40)
    assert model.num_timesteps < first


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
