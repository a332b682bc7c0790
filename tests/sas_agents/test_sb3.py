"""Our agents live in Stable-Baselines3 as its own do."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sas_agents import (
    SASNPG,
    SASPG,
    SASQ,
    FourierBasis,
    VecMaskInObservation,
    make_vec_env,
)
from sas_gym.masks import MASK_KEY

EPISODE_STEPS = 10
N_STEPS = 4
SHORT = {
    SASPG: {"n_steps": N_STEPS, "critic_steps": 2},
    SASNPG: {"n_steps": N_STEPS, "w_steps": 2},
    SASQ: {
        "learning_starts": 20,
        "buffer_size": 500,
        "batch_size": 8,
        "train_freq": 4,
        "gradient_steps": 1,
        "target_update_interval": 40,
    },
}
LOGGED = {
    SASPG: {
        "train/learning_rate",
        "train/value_learning_rate",
        "train/q_learning_rate",
        "train/weight_v_hat",
        "train/weight_q_bar",
        "train/loss_v_hat",
        "train/loss_q_bar",
        "train/explained_variance_v_hat",
        "train/explained_variance_q_bar",
        "train/entropy",
        "train/action_set_size",
        "train/gradient_norm",
        "train/gradient_variance",
        "train/gradient_variance_without_baselines",
    },
    SASNPG: {
        "train/learning_rate",
        "train/w_learning_rate",
        "train/w_norm",
        "train/explained_variance_w",
        "train/entropy",
        "train/action_set_size",
    },
    SASQ: {"train/learning_rate", "train/loss", "rollout/exploration_rate"},
}

every_agent = pytest.mark.parametrize("agent", SHORT)
episodic_agents = pytest.mark.parametrize("agent", [SASPG, SASNPG])


def make_maze(n_envs=2, seed=0, **options):
    options = {"max_episode_steps": EPISODE_STEPS, **options}
    return make_vec_env("SAS/Maze-v0", n_envs, seed=seed, env_kwargs=options)


def make_agent(agent, env=None, policy="LinearPolicy", **options):
    env = make_maze() if env is None else env
    return agent(policy, env, **({"seed": 0} | SHORT[agent] | options))


def twin_of(env):
    """Return lanes in the same state; SB3's own wrappers cannot be copied."""
    return VecMonitor(copy.deepcopy(env.unwrapped))


def everything_learned(model):
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


def assert_same(one, other):
    assert one.keys() == other.keys()
    differing = [name for name in one if not th.equal(one[name], other[name])]
    assert differing == []


def assert_differ(one, other):
    assert any(not th.equal(one[name], other[name]) for name in one)


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


@every_agent
def test_evaluation_plays_whole_episodes_inside_the_sets(agent):
    """An unavailable action would raise an error in the environment."""
    model = make_agent(agent).learn(100)
    for deterministic in (True, False):
        returns, lengths = evaluate_policy(
            model,
            make_maze(seed=1),
            n_eval_episodes=4,
            deterministic=deterministic,
            return_episode_rewards=True,
        )
        assert len(returns) == 4
        assert set(lengths) == {EPISODE_STEPS}


@every_agent
def test_an_eval_callback_saves_the_best_model_and_its_curve(agent, tmp_path):
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
def test_training_stops_on_a_reward_threshold(agent):
    stop = StopTrainingOnRewardThreshold(reward_threshold=-1e9, verbose=0)
    evaluation = EvalCallback(
        make_maze(seed=1), stop, eval_freq=30, n_eval_episodes=1, verbose=0
    )
    assert make_agent(agent).learn(10_000, evaluation).num_timesteps == 60


@every_agent
def test_checkpoints_are_written_and_can_be_loaded(agent, tmp_path):
    callback = CheckpointCallback(save_freq=40, save_path=tmp_path)
    make_agent(agent).learn(200, callback)
    loaded = agent.load(tmp_path / "rl_model_160_steps")
    assert loaded.num_timesteps == 160
    assert (tmp_path / "rl_model_80_steps.zip").exists()


@every_agent
def test_a_callback_stops_training_at_its_step(agent):
    assert make_agent(agent).learn(10_000, StopAt(46)).num_timesteps == 46


@every_agent
def test_training_stops_after_so_many_episodes(agent):
    callback = StopTrainingOnMaxEpisodes(max_episodes=3)
    model = make_agent(agent).learn(10_000, callback)
    # Three in each of two lanes, all cut by the limit.
    assert model.num_timesteps == 3 * 2 * EPISODE_STEPS


@every_agent
def test_steps_are_counted_as_they_are_taken(agent):
    callback = Count()
    model = make_agent(agent)
    model.learn(100, CallbackList([callback]))
    assert callback.steps == list(range(2, model.num_timesteps + 2, 2))
    assert 100 <= model.num_timesteps < 100 + 2 * EPISODE_STEPS


@every_agent
def test_training_goes_on_counting_if_asked_to(agent):
    model = make_agent(agent).learn(100)
    first = model.num_timesteps
    model.learn(100, reset_num_timesteps=False)
    assert model.num_timesteps >= first + 100
    model.learn(40)
    assert model.num_timesteps < first


@every_agent
def test_observations_are_normalised_beside_the_mask(agent):
    env = VecNormalize(make_maze(), norm_obs_keys=["observation"])
    model = make_agent(agent, env).learn(100)
    obs = env.reset()
    np.testing.assert_array_equal(obs[MASK_KEY], env.env_method("action_masks"))
    original = env.get_original_obs()
    np.testing.assert_array_equal(obs[MASK_KEY], original[MASK_KEY])
    assert not np.allclose(obs["observation"], original["observation"])
    assert model.get_vec_normalize_env() is env


def test_a_replay_buffer_keeps_the_masks_as_they_were():
    env = VecNormalize(make_maze(), norm_obs_keys=["observation"])
    model = make_agent(SASQ, env).learn(200)
    batch = model.replay_buffer.sample(50, env=env)
    for obs in (batch.observations, batch.next_observations):
        assert set(obs[MASK_KEY].unique().tolist()) == {0, 1}
        assert obs[MASK_KEY].any(dim=1).all()
    assert batch.observations[MASK_KEY].gather(1, batch.actions).all()


def test_a_mask_is_not_normalised_silently():
    with pytest.raises(ValueError, match="norm_obs_keys"):
        VecNormalize(make_maze())


@pytest.fixture(scope="module")
def processes():
    # With the package before it, as other processes have not imported it.
    env_id = "sas_gym:SAS/Maze-v0"
    options = {"max_episode_steps": EPISODE_STEPS}
    env = make_vec_env(env_id, 2, seed=0, env_kwargs=options, vec_env_cls=SubprocVecEnv)
    yield env
    env.close()


@every_agent
def test_lanes_may_be_processes(agent, processes):
    """And learn what lanes in one process do."""
    assert isinstance(processes, SubprocVecEnv)

    def make():
        return gym.make("SAS/Maze-v0", max_episode_steps=EPISODE_STEPS)

    one, other = (
        everything_learned(make_agent(agent, env).learn(100))
        for env in (processes, DummyVecEnv([make, make]))
    )
    # SB3 rounds the rewards of the one, and not those of the other, to float32.
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-5)


@every_agent
def test_frames_may_be_stacked_below_the_masks(agent):
    env = VecFrameStack(make_maze(mask_in_observation=False), n_stack=2)
    model = make_agent(agent, VecMaskInObservation(env)).learn(100)
    assert model.observation_space["observation"].shape == (4,)
    # Without being told to, the agent puts the masks there itself.
    again = make_agent(agent, VecFrameStack(make_maze(mask_in_observation=False), 2))
    assert_same(everything_learned(model), everything_learned(again.learn(100)))


@every_agent
def test_where_a_mask_is_told_makes_no_difference(agent):
    """In the observation or not, of lanes or of single environments."""
    options = {"max_episode_steps": EPISODE_STEPS}
    bare = options | {"mask_in_observation": False}
    learned = [
        everything_learned(make_agent(agent, env).learn(60))
        for env in (
            make_maze(1),
            make_maze(1, mask_in_observation=False),
            gym.make("SAS/Maze-v0", **options),
            gym.make("SAS/Maze-v0", **bare),
            DummyVecEnv([lambda: gym.make("SAS/Maze-v0", **bare)]),
        )
    ]
    for other in learned[1:]:
        assert_same(learned[0], other)


@every_agent
def test_an_id_is_enough(agent):
    model = make_agent(agent, "SAS/ThetaTwoTheta-v0").learn(40)
    assert model.num_timesteps >= 40


def logged_scalars(path):
    (run,) = path.iterdir()
    events = EventAccumulator(str(run)).Reload()
    scalars = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
    return run.name, {tag: [e.value for e in found] for tag, found in scalars.items()}


@every_agent
def test_tensorboard_gets_finite_numbers_under_sb3s_names(agent, tmp_path):
    model = make_agent(agent, tensorboard_log=tmp_path)
    model.learn(400, log_interval=1)
    name, scalars = logged_scalars(tmp_path)
    assert name == f"{agent.__name__}_1"
    names = {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps"}
    assert names | LOGGED[agent] <= scalars.keys()
    assert set(scalars["rollout/ep_len_mean"]) == {EPISODE_STEPS}
    values = {tag: scalars[tag] for tag in LOGGED[agent]}
    # Nothing can be said of a baseline that is constant, as at the start.
    assert all(np.isfinite(found[-1]) for found in values.values()), values


@every_agent
def test_a_run_can_be_named(agent, tmp_path):
    model = make_agent(agent, tensorboard_log=tmp_path)
    model.learn(60, tb_log_name="mine")
    assert logged_scalars(tmp_path)[0] == "mine_1"


class Recorder(KVWriter):
    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def rows_of(model, num_steps, **options):
    recorder = Recorder()
    model.set_logger(Logger(None, [recorder]))
    model.learn(num_steps, log_interval=1, **options)
    return recorder.rows


def test_what_is_logged_is_what_it_says():
    model = make_agent(SASPG, make_maze(availability=1.0))
    row = rows_of(model, 100)[-1]
    assert row["train/action_set_size"] == 16
    assert 0 < row["train/entropy"] < np.log(16)
    npg = make_agent(SASNPG)
    row = rows_of(npg, 100)[-1]
    assert row["train/w_norm"] > 0
    assert row["train/action_set_size"] < 16


def test_verbosity_says_which_features_are_used(capsys):
    make_agent(SASPG, verbose=1)
    assert "Features of the state: FourierBasis" in capsys.readouterr().out


def some_observations(n_envs=50):
    return make_maze(n_envs, seed=7).reset()


@every_agent
def test_parameters_can_be_taken_from_one_agent_and_given_to_another(agent):
    model = make_agent(agent).learn(100)
    other = make_agent(agent, seed=5)
    assert_differ(everything_learned(model), everything_learned(other))
    other.set_parameters(model.get_parameters())
    assert_same(model.get_parameters()["policy"], other.get_parameters()["policy"])
    obs = some_observations()
    np.testing.assert_array_equal(
        model.predict(obs, deterministic=True)[0],
        other.predict(obs, deterministic=True)[0],
    )


@every_agent
def test_parameters_that_do_not_belong_are_refused(agent):
    model = make_agent(agent)
    with pytest.raises(ValueError, match="wings"):
        model.set_parameters({"wings": {}})
    parameters = model.get_parameters()
    del parameters["policy.optimizer"]
    with pytest.raises(ValueError, match="do not match"):
        model.set_parameters(parameters, exact_match=True)


@every_agent
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_a_loaded_agent_predicts_the_same(agent, policy, tmp_path):
    model = make_agent(agent, policy=policy).learn(100)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model")
    assert_same(everything_learned(model), everything_learned(loaded))
    obs = some_observations()
    np.testing.assert_array_equal(
        model.predict(obs, deterministic=True)[0],
        loaded.predict(obs, deterministic=True)[0],
    )
    if agent is not SASQ:
        # The state of the generator that draws the actions is saved, too.
        np.testing.assert_array_equal(model.predict(obs)[0], loaded.predict(obs)[0])


@episodic_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_training_interrupted_is_training_uninterrupted(agent, policy, tmp_path):
    """In one call, in two, and in two with saving and loading between them."""
    # A rollout takes 20 steps: all lanes play one episode, cut by the limit.
    rollout = 2 * EPISODE_STEPS
    models = [make_agent(agent, policy=policy) for _ in range(2)]
    whole = models[0].learn(6 * rollout)
    half = models[1].learn(3 * rollout)
    half.save(tmp_path / "half")
    env = twin_of(half.env)
    half.learn(3 * rollout, reset_num_timesteps=False)
    # With a seed, SB3 would seed the environment anew; it would also reset it.
    loaded = agent.load(tmp_path / "half", env=env, seed=None, force_reset=False)
    assert_differ(everything_learned(loaded), everything_learned(half))
    loaded.learn(3 * rollout, reset_num_timesteps=False)
    assert whole.num_timesteps == loaded.num_timesteps == 6 * rollout
    assert_same(everything_learned(whole), everything_learned(half))
    assert_same(everything_learned(whole), everything_learned(loaded))


def test_q_learning_interrupted_is_q_learning_uninterrupted(tmp_path):
    """With its buffer saved and loaded; SB3 leaves NumPy's random state to us."""
    model = make_agent(SASQ).learn(100)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    env, state = twin_of(model.env), np.random.get_state()
    model.learn(100, reset_num_timesteps=False)
    loaded = SASQ.load(tmp_path / "model", env=env, seed=None, force_reset=False)
    loaded.load_replay_buffer(tmp_path / "buffer")
    np.random.set_state(state)
    assert_differ(everything_learned(loaded), everything_learned(model))
    loaded.learn(100, reset_num_timesteps=False)
    assert_same(everything_learned(model), everything_learned(loaded))


@every_agent
def test_training_goes_on_after_loading_as_in_the_readme(agent, tmp_path):
    env = make_maze()
    make_agent(agent, env).learn(60).save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=env)
    before = everything_learned(loaded)
    loaded.learn(60)
    assert_differ(before, everything_learned(loaded))


@every_agent
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_a_policy_can_be_saved_alone(agent, policy, tmp_path):
    model = make_agent(agent, policy=policy).learn(100)
    model.policy.save(tmp_path / "policy")
    loaded = type(model.policy).load(tmp_path / "policy")
    obs = some_observations()
    np.testing.assert_array_equal(
        model.policy.predict(obs, deterministic=True)[0],
        loaded.predict(obs, deterministic=True)[0],
    )


@every_agent
def test_an_environment_with_other_actions_is_refused_on_loading(agent, tmp_path):
    make_agent(agent).save(tmp_path / "model")
    env = make_vec_env("SAS/ThetaTwoTheta-v0", 2)
    with pytest.raises(ValueError, match="spaces do not match"):
        agent.load(tmp_path / "model", env=env)


@every_agent
def test_the_environment_can_be_changed_for_one_with_masks_elsewhere(agent):
    model = make_agent(agent).learn(60)
    model.set_env(make_maze(mask_in_observation=False))
    model.learn(60)
    assert isinstance(model.env, VecMaskInObservation)


@every_agent
def test_a_seed_replays_training(agent):
    learned = [
        everything_learned(make_agent(agent, seed=seed).learn(150))
        for seed in (3, 3, 4)
    ]
    assert_same(learned[0], learned[1])
    assert_differ(learned[0], learned[2])


@every_agent
def test_rates_follow_their_schedules(agent):
    model = make_agent(agent, learning_rate=lambda remaining: 0.5 * remaining)
    rows = rows_of(model, 300)
    steps = np.array([row["time/total_timesteps"] for row in rows])
    rates = np.array([row.get("train/learning_rate", np.nan) for row in rows])
    told = np.isfinite(rates) & (steps < 300)
    assert told.sum() > 5
    # It is logged with the rollout after the one from which it was learned.
    lag = 2 * EPISODE_STEPS if agent is not SASQ else 0
    expected = 0.5 * (1 - (steps[told] - lag) / 300)
    np.testing.assert_allclose(rates[told], expected, atol=0.5 * 8 / 300)


def test_each_rate_has_its_own_schedule():
    model = make_agent(
        SASPG,
        learning_rate=lambda remaining: remaining,
        value_learning_rate=lambda remaining: 2 * remaining,
        q_learning_rate=0.25,
    )
    row = rows_of(model, 100)[-1]
    assert row["train/value_learning_rate"] == 2 * row["train/learning_rate"] < 2
    assert row["train/q_learning_rate"] == 0.25
    policy = model.policy
    assert policy.q_optimizer.param_groups[0]["lr"] == 0.25
    model = make_agent(SASNPG, w_learning_rate=lambda remaining: 0.1 * remaining)
    rates = [row.get("train/w_learning_rate") for row in rows_of(model, 100)]
    assert rates[1] > rates[-1] > 0


@episodic_agents
def test_a_rate_of_zero_leaves_the_policy_alone(agent):
    model = make_agent(agent, learning_rate=0.0)
    before = copy.deepcopy(model.policy.actor.state_dict())
    model.learn(100)
    assert_same(before, model.policy.actor.state_dict())


class Masked(gym.Env):
    """Any observations; three actions, of which the step number's is unavailable."""

    def __init__(self, observation_space, action_space=None):
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(3)
        self.num_steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.num_steps = 0
        return self.observation_space.sample(), {"action_mask": self.action_masks()}

    def step(self, action):
        assert self.action_masks()[action], "unavailable"
        self.num_steps += 1
        ended = self.num_steps == EPISODE_STEPS
        info = {"action_mask": self.action_masks()}
        return self.observation_space.sample(), float(action), ended, False, info

    def action_masks(self):
        return (np.arange(3) != self.num_steps % 3).astype(np.int8)


SMALL = {"features_extractor_kwargs": {"features_dim": 8}}
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
SPACES = {
    "LinearPolicy": [
        spaces.Discrete(4),
        spaces.Box(-1, 1, (2,)),
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(3),
        spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "floor": spaces.Discrete(3)}),
    ],
    "MlpPolicy": [spaces.Discrete(4), spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)],
    "CnnPolicy": [IMAGE],
    "MultiInputPolicy": [
        spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "floor": spaces.Discrete(3)}),
        spaces.Dict({"observation": spaces.Discrete(3), "image": IMAGE}),
        spaces.Box(-1, 1, (2,)),
    ],
}


@every_agent
@pytest.mark.parametrize(
    ("policy", "space"),
    [(policy, space) for policy, found in SPACES.items() for space in found],
)
def test_every_policy_trains_saves_and_loads(agent, policy, space, tmp_path):
    env = VecMonitor(DummyVecEnv([lambda: Masked(space)] * 2))
    options = {"policy_kwargs": SMALL} if policy == "CnnPolicy" else {}
    model = make_agent(agent, env, policy, **options)
    before = everything_learned(model)
    model.learn(60)
    assert_differ(before, everything_learned(model))
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model")
    obs = model.env.reset()
    actions, _ = model.predict(obs, deterministic=True)
    np.testing.assert_array_equal(actions, loaded.predict(obs, deterministic=True)[0])
    assert np.take_along_axis(obs[MASK_KEY], actions[:, None], 1).all()


@every_agent
def test_features_can_be_chosen(agent):
    kwargs = {
        "features_extractor_class": FourierBasis,
        "features_extractor_kwargs": {"order": 5, "coupled": False},
    }
    model = make_agent(agent, policy_kwargs=kwargs).learn(60)
    network = model.q_net.q_net if agent is SASQ else model.policy.actor.layers
    # Five frequencies along each of two axes, and the constant.
    assert network[0].in_features == 11


@every_agent
def test_a_deterministic_prediction_is_deterministic(agent):
    model = make_agent(agent).learn(100)
    obs = some_observations()
    first, _ = model.predict(obs, deterministic=True)
    for _ in range(5):
        np.testing.assert_array_equal(first, model.predict(obs, deterministic=True)[0])


@every_agent
def test_shapes_of_predictions_are_sb3s(agent):
    model = make_agent(agent)
    batch = some_observations(5)
    single = {key: values[0] for key, values in batch.items()}
    for deterministic in (True, False):
        actions, state = model.predict(batch, deterministic=deterministic)
        assert actions.shape == (5,)
        assert actions in spaces.MultiDiscrete([16] * 5)
        assert state is None
        action, _ = model.predict(single, deterministic=deterministic)
        assert action.shape == ()
        assert action in model.action_space
    one = {key: values[:1] for key, values in batch.items()}
    assert model.predict(one)[0].shape == (1,)


@every_agent
def test_masks_may_be_given_beside_the_observation(agent):
    model = make_agent(agent).learn(100)
    obs = some_observations()
    bare, masks = obs["observation"], obs[MASK_KEY]
    expected, _ = model.predict(obs, deterministic=True)
    for given in (masks, masks.astype(bool), masks.tolist()):
        actions, _ = model.predict(bare, deterministic=True, action_masks=given)
        np.testing.assert_array_equal(actions, expected)
    action, _ = model.predict(bare[0], deterministic=True, action_masks=masks[0])
    assert action == expected[0]


@every_agent
def test_masks_that_are_given_replace_those_in_the_observation(agent):
    model = make_agent(agent)
    for only in range(16):
        mask = np.arange(16) == only
        single = {key: values[0] for key, values in some_observations(1).items()}
        assert model.predict(single, action_masks=mask)[0] == only


@every_agent
def test_a_prediction_without_a_mask_is_an_error_that_says_what_to_do(agent):
    model = make_agent(agent)
    obs = some_observations(3)
    for missing in (obs["observation"], {"observation": obs["observation"]}):
        with pytest.raises(ValueError, match=r"needs the action mask: .*action_masks="):
            model.predict(missing)


@every_agent
def test_a_mask_without_an_action_is_an_error(agent):
    model = make_agent(agent)
    obs = some_observations(3)
    obs[MASK_KEY][1] = 0
    with pytest.raises(ValueError, match="offers no action"):
        model.predict(obs)
    with pytest.raises(ValueError, match="offers no action"):
        model.predict(obs["observation"], action_masks=np.zeros((3, 16)))


@every_agent
def test_a_mask_of_the_wrong_size_is_an_error(agent):
    model = make_agent(agent)
    with pytest.raises(ValueError, match=r"one entry per action, shape \(\.\.\., 16\); got shape"):
        model.predict(some_observations(3)["observation"], action_masks=np.ones((3, 5)))


@every_agent
@pytest.mark.parametrize(
    "action_space", [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2])]
)
@pytest.mark.parametrize("masked", [True, False])
def test_other_actions_than_discrete_ones_meet_sb3s_own_assertion(
    agent, action_space, masked
):
    space = spaces.Discrete(2)
    if masked:
        space = spaces.Dict({"observation": space, MASK_KEY: spaces.MultiBinary(2)})
    for env in (
        Masked(space, action_space),
        DummyVecEnv([lambda: Masked(space, action_space)]),
    ):
        with pytest.raises(AssertionError, match="The algorithm only supports"):
            make_agent(agent, env)


@every_agent
def test_an_unknown_policy_is_named(agent):
    with pytest.raises(ValueError, match="Policy WingedPolicy unknown"):
        make_agent(agent, policy="WingedPolicy")


@every_agent
@pytest.mark.parametrize(
    "make_env", [lambda: gym.make("CartPole-v1"), lambda: make_vec_env("CartPole-v1")]
)
def test_an_environment_without_masks_is_told_what_to_do(agent, make_env):
    with pytest.raises(ValueError, match=r"tells no action mask: .*info\['action_mask"):
        make_agent(agent, make_env()).learn(20)


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        (SASPG, {"n_steps": 0}, "n_steps must be at least 1, got 0"),
        (SASQ, {"loss": "cubic"}, "loss must be one of .*, got 'cubic'"),
    ],
)
def test_wrong_options_are_named(agent, options, message):
    with pytest.raises(ValueError, match=message):
        make_agent(agent, **options)


@every_agent
@pytest.mark.parametrize(
    ("policy", "num_steps"), [("LinearPolicy", 1500), ("MlpPolicy", 2500)]
)
def test_sb3_contribs_identity_is_learned_from_its_masks(agent, policy, num_steps):
    """The reward is 1 for naming the state, which is never masked out.

    Of the 6 actions 3 are available: chance gives a third.
    """
    np.random.seed(0)  # the environment draws its masks by it

    def make():
        return InvalidActionEnvDiscrete(dim=6, n_invalid_actions=3, ep_length=10)

    env = VecMonitor(DummyVecEnv([make] * 4))
    options = {
        SASPG: {"n_steps": 10},
        SASNPG: {"n_steps": 10},
        SASQ: {"learning_starts": 100, "batch_size": 64, "gradient_steps": 1},
    }[agent]
    if policy == "MlpPolicy":
        options["learning_rate"] = {SASPG: 1e-2, SASNPG: 0.2, SASQ: 5e-3}[agent]
    model = agent(policy, env, seed=0, gamma=0.5, **options).learn(num_steps)
    test_env = VecMaskInObservation(VecMonitor(DummyVecEnv([make])))
    mean, _ = evaluate_policy(model, test_env, n_eval_episodes=20)
    assert mean >= 0.95 * 10


@every_agent
def test_taxi_is_played_from_its_info(agent):
    """Taxi loses nothing but the way by what its mask allows: no -10 is met."""
    env = DummyVecEnv([lambda: gym.make("Taxi-v4", max_episode_steps=20)] * 2)
    model = make_agent(agent, env).learn(200)
    obs = model.env.reset()
    for _ in range(50):
        actions, _ = model.predict(obs)
        assert np.take_along_axis(obs[MASK_KEY], actions[:, None], 1).all()
        obs, rewards, _, _ = model.env.step(actions)
        assert (rewards >= -1).all()
