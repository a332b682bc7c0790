"""TaskBatch as a `VecEnv`, and masks that come from anywhere."""

import copy
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from sb3_contrib import MaskablePPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.monitor import Monitor, get_monitor_files
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

import sas_gym
from sas_agents import VecMaskInObservation, VectorEnvAdapter, make_vec_env
from sas_agents._features import has_mask
from sas_gym import SPECS
from sas_gym.masks import sample_actions

every_id = pytest.mark.parametrize("env_id", [task.id for task in SPECS])
BARE = {"mask_in_observation": False}


def masked_cart_pole():
    return sas_gym.StochasticActionSets(gym.make("CartPole-v1"), 0.7)


class MaskInInfo(gym.Wrapper):
    """CartPole with the one action that its step number names, told in the info."""

    def __init__(self, offers_nothing_at_the_end=False):
        super().__init__(gym.make("CartPole-v1"))
        self.offers_nothing_at_the_end = offers_nothing_at_the_end
        self.num_steps = 0

    def reset(self, **kwargs):
        self.num_steps = 0
        obs, info = self.env.reset(**kwargs)
        return obs, {**info, "action_mask": self.mask()}

    def step(self, action):
        self.num_steps += 1
        obs, reward, terminated, truncated, info = self.env.step(action)
        mask = self.mask()
        if terminated and self.offers_nothing_at_the_end:
            mask[:] = 0
        return obs, reward, terminated, truncated, {**info, "action_mask": mask}

    def mask(self):
        return np.eye(2, dtype=np.int8)[self.num_steps % 2]


class MaskInMethod(gym.Wrapper):
    """CartPole with the one action that its step number names, told by a method."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.num_steps = 0

    def reset(self, **kwargs):
        self.num_steps = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.num_steps += 1
        return self.env.step(action)

    def action_masks(self):
        return np.arange(2) == self.num_steps % 2


def masks_of(venv):
    return np.stack(venv.env_method("action_masks"))


def plain(obs):
    """Return an observation without what differs by the class of `VecEnv`."""
    return dict(obs) if isinstance(obs, dict) else obs


def play(venv, num_steps, seed=0):
    """Yield all that a `VecEnv` tells: observations, rewards, dones, infos."""
    rng = np.random.default_rng(seed)
    venv.reset()
    for _ in range(num_steps):
        yield venv.step(sample_actions(masks_of(venv), rng))


@every_id
def test_our_ids_are_made_in_their_vector_form(env_id):
    venv = make_vec_env(env_id, n_envs=3)
    assert isinstance(venv, VecMonitor)
    assert isinstance(venv.unwrapped, VectorEnvAdapter)
    assert venv.num_envs == 3
    assert venv.observation_space == gym.make(env_id).observation_space
    assert venv.action_space == gym.make(env_id).action_space


def test_an_id_with_the_package_before_it_is_made_in_its_vector_form():
    venv = make_vec_env("sas_gym:SAS/Maze-v0", n_envs=2, env_kwargs=BARE)
    assert isinstance(venv.unwrapped, VectorEnvAdapter)
    assert not has_mask(venv.observation_space)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (masked_cart_pole, {}),
        ("Taxi-v4", {}),
        # It has a vector form, which begins anew one step too late for SB3.
        ("CartPole-v1", {}),
        ("SAS/Maze-v0", {"wrapper_class": sas_gym.RepairAction}),
    ],
)
def test_whatever_has_no_vector_form_goes_to_sb3(env_id, options):
    venv = make_vec_env(env_id, n_envs=2, seed=0, **options)
    assert isinstance(venv, DummyVecEnv)
    assert venv.env_is_wrapped(Monitor) == [True, True]
    wrapper = options.get("wrapper_class")
    assert wrapper is None or venv.env_is_wrapped(wrapper) == [True, True]


@every_id
@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_one_lane_tells_all_that_a_dummy_vec_env_tells(env_id, mask_in_observation):
    options = {"mask_in_observation": mask_in_observation}
    lanes = VectorEnvAdapter(gym.make_vec(env_id, num_envs=1, **options))
    dummy = DummyVecEnv([lambda: gym.make(env_id, **options)])
    assert lanes.observation_space == dummy.observation_space
    for venv in (lanes, dummy):
        venv.seed(5)
    ends = 0
    for one, other in zip(play(lanes, 300), play(dummy, 300), strict=True):
        assert data_equivalence(plain(one[0]), plain(other[0]), exact=True)
        assert data_equivalence(one[1:], other[1:], exact=True)
        assert data_equivalence(lanes.reset_infos, dummy.reset_infos, exact=True)
        np.testing.assert_array_equal(masks_of(lanes), masks_of(dummy))
        ends += one[2][0]
    assert ends > 0


def test_an_episode_cut_by_its_limit_is_told_from_one_that_ended():
    cut = make_vec_env("SAS/Maze-v0", 2, seed=0, env_kwargs={"max_episode_steps": 3})
    for step, (_, _, dones, infos) in enumerate(play(cut, 6)):
        assert dones.tolist() == [step % 3 == 2] * 2
        assert [info["TimeLimit.truncated"] for info in infos] == dones.tolist()
    options = {"start": 1, "availability": 1.0, "max_episode_steps": 1}
    ended = make_vec_env("SAS/SanFrancisco-v0", 1, env_kwargs=options)
    ended.reset()
    _, _, dones, infos = ended.step(np.array([0]))
    assert dones.all()
    assert not infos[0]["TimeLimit.truncated"]


def test_the_terminal_observation_is_the_last_of_the_old_episode():
    options = {"max_episode_steps": 4}
    venv = make_vec_env("SAS/Maze-v0", 3, seed=0, env_kwargs=options)
    for obs, _, dones, infos in play(venv, 20):
        for lane in np.flatnonzero(dones):
            terminal = infos[lane]["terminal_observation"]
            assert terminal in venv.observation_space
            now = {key: values[lane] for key, values in obs.items()}
            assert not data_equivalence(terminal, now, exact=True)
            np.testing.assert_array_equal(
                infos[lane]["action_mask"], terminal["action_mask"]
            )
            np.testing.assert_array_equal(
                venv.unwrapped.reset_infos[lane]["action_mask"], now["action_mask"]
            )
        for lane in np.flatnonzero(~dones):
            assert "terminal_observation" not in infos[lane]
            np.testing.assert_array_equal(
                infos[lane]["action_mask"], obs["action_mask"][lane]
            )


@every_id
def test_episode_statistics_are_the_sums_of_the_rewards(env_id):
    venv = make_vec_env(env_id, n_envs=3, seed=0)
    totals, lengths, count = np.zeros(3), np.zeros(3, dtype=int), 0
    for _, rewards, dones, infos in play(venv, 250):
        totals += rewards
        lengths += 1
        for lane in np.flatnonzero(dones):
            episode = infos[lane]["episode"]
            assert episode["r"] == pytest.approx(totals[lane], rel=1e-4, abs=1e-4)
            assert episode["l"] == lengths[lane]
            count += 1
        assert all("episode" not in infos[lane] for lane in np.flatnonzero(~dones))
        totals[dones], lengths[dones] = 0.0, 0
    assert count > 0


@pytest.mark.parametrize("env_id", ["SAS/SanFrancisco-v0", masked_cart_pole])
def test_episode_statistics_are_written_to_a_directory_that_is_made(env_id, tmp_path):
    path = tmp_path / "new" / "logs"
    venv = make_vec_env(env_id, 2, seed=0, monitor_dir=str(path))
    infos = [info for told in play(venv, 100) for info in told[3]]
    returns = [info["episode"]["r"] for info in infos if "episode" in info]
    venv.close()
    # Two lines of header; as SB3's `load_results` finds them.
    files = get_monitor_files(str(path))
    rows = [row for file in files for row in Path(file).read_text().splitlines()[2:]]
    written = [float(row.split(",")[0]) for row in rows]
    assert len(returns) > 2
    np.testing.assert_allclose(sorted(written), sorted(returns), atol=1e-4)


@pytest.mark.parametrize("env_id", ["SAS/Maze-v0", masked_cart_pole])
def test_a_seed_replays_all_lanes(env_id):
    def told(seed):
        return [
            (obs, rewards, dones)
            for obs, rewards, dones, _ in play(make_vec_env(env_id, 3, seed), 100)
        ]

    assert data_equivalence(told(1), told(1), exact=True)
    assert not data_equivalence(told(1), told(2), exact=True)


def test_a_seed_counts_for_one_reset():
    venv = make_vec_env("SAS/Maze-v0", 2, seed=3)
    first, second = venv.reset(), venv.reset()
    assert not data_equivalence(first, second, exact=True)
    assert venv.seed(3) == [3, 4]
    assert data_equivalence(first, venv.reset(), exact=True)


def test_lanes_differ():
    obs = make_vec_env("SAS/Maze-v0", 8, seed=0).reset()
    assert len(np.unique(obs["action_mask"], axis=0)) > 1


def test_a_copy_of_the_lanes_plays_on_alike():
    venv = make_vec_env("SAS/Maze-v0", 2, seed=0).unwrapped
    list(play(venv, 30))
    twin = copy.deepcopy(venv)
    told, twin_told = list(play(venv, 30, seed=1)), list(play(twin, 30, seed=1))
    assert data_equivalence(told, twin_told, exact=True)


def test_attributes_and_methods_are_reached_by_lane():
    venv = make_vec_env("SAS/Maze-v0", 3, seed=0, env_kwargs={"availability": 0.4})
    obs = venv.reset()
    for lane, mask in enumerate(obs["action_mask"]):
        (told,) = venv.env_method("action_masks", indices=lane)
        np.testing.assert_array_equal(told, mask)
    assert len(venv.env_method("action_masks", indices=[0, 2])) == 2
    assert venv.get_attr("max_episode_steps") == [80, 80, 80]
    assert venv.get_attr("max_episode_steps", indices=1) == [80]
    assert venv.has_attr("action_masks")
    assert not venv.has_attr("wings")
    assert venv.env_is_wrapped(Monitor) == [False, False, False]
    assert venv.env_is_wrapped(Monitor, indices=[1]) == [False]


def test_an_attribute_is_set_in_all_lanes_or_in_none():
    venv = make_vec_env("SAS/Maze-v0", 2)
    venv.set_attr("note", "hello")
    assert venv.get_attr("note") == ["hello", "hello"]
    with pytest.raises(ValueError, match="note is one for all lanes: set it without"):
        venv.set_attr("note", "bye", indices=[0])
    assert venv.get_attr("note") == ["hello", "hello"]


def test_every_lane_has_its_picture():
    venv = make_vec_env("SAS/Maze-v0", 2, seed=0)
    venv.reset()
    assert venv.render_mode == "rgb_array"
    images = venv.get_images()
    assert len(images) == 2
    np.testing.assert_array_equal(venv.render(), np.vstack(images))
    # The lanes' sets differ, and pictures show them.
    assert not np.array_equal(*images)


def test_closing_closes_the_lanes():
    venv = make_vec_env("SAS/Maze-v0", 2)
    venv.close()
    assert venv.unwrapped.lanes.closed


def test_lanes_that_begin_anew_a_step_late_are_refused():
    lanes = gym.make_vec("CartPole-v1", num_envs=2)
    assert lanes.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    with pytest.raises(ValueError, match=r"SAME_STEP, got AutoresetMode\.NEXT_STEP"):
        VectorEnvAdapter(lanes)


def test_any_vector_environment_that_begins_anew_in_time_is_taken():
    """What only some lanes tell stays with them."""
    options = {"autoreset_mode": AutoresetMode.SAME_STEP}
    lanes = gym.vector.SyncVectorEnv([MaskInInfo, MaskInInfo], **options)
    dummy = DummyVecEnv([MaskInInfo, MaskInInfo])
    venvs = [VecMaskInObservation(venv) for venv in (VectorEnvAdapter(lanes), dummy)]
    told = []
    for venv in venvs:
        venv.seed(0)
        obs, steps = venv.reset(), []
        for _ in range(100):
            obs, *rest = venv.step(obs["action_mask"].argmax(axis=1))
            steps.append((obs, *rest))
        told.append(steps)
    assert any(dones.any() for _, _, dones, _ in told[0])
    assert data_equivalence(*told, exact=True)


@pytest.mark.parametrize("make_env", [MaskInInfo, MaskInMethod])
@pytest.mark.parametrize("wrap", [lambda venv: venv, VecMonitor])
def test_masks_from_info_or_method_are_put_into_observations(make_env, wrap):
    venv = VecMaskInObservation(wrap(DummyVecEnv([make_env, make_env])))
    assert venv.observation_space["action_mask"] == gym.spaces.MultiBinary(2)
    venv.seed(0)
    obs, steps, ends = venv.reset(), np.zeros(2, dtype=int), 0
    for _ in range(150):
        assert obs in gym.vector.utils.batch_space(venv.observation_space, 2)
        np.testing.assert_array_equal(obs["action_mask"], np.eye(2)[steps % 2])
        obs, _, dones, infos = venv.step(obs["action_mask"].argmax(axis=1))
        steps += 1
        for lane in np.flatnonzero(dones):
            # Of an environment that is reset, the method tells nothing of the end.
            last = np.eye(2)[steps[lane] % 2] if make_env is MaskInInfo else [1, 1]
            terminal = infos[lane]["terminal_observation"]
            np.testing.assert_array_equal(terminal["action_mask"], last)
            assert terminal in venv.observation_space
            ends += 1
        steps[dones] = 0
    assert ends > 2


def test_masks_from_the_info_cross_processes():
    venv = VecMaskInObservation(SubprocVecEnv([MaskInInfo, MaskInInfo]))
    try:
        obs = venv.reset()
        np.testing.assert_array_equal(obs["action_mask"], [[1, 0], [1, 0]])
        obs, *_ = venv.step(np.array([0, 0]))
        np.testing.assert_array_equal(obs["action_mask"], [[0, 1], [0, 1]])
    finally:
        venv.close()


def test_a_final_state_that_offers_nothing_counts_as_offering_everything():
    venv = VecMaskInObservation(DummyVecEnv([lambda: MaskInInfo(True)]))
    obs, done = venv.reset(), False
    while not done:
        obs, _, (done,), (info,) = venv.step(obs["action_mask"].argmax(axis=1))
    assert info["terminal_observation"]["action_mask"].tolist() == [1, 1]
    assert obs["action_mask"].tolist() == [[1, 0]]


@pytest.mark.parametrize("n_envs", [1, 3])
def test_lanes_without_masks_in_observations_get_the_same_ones_back(n_envs):
    """Also in steps that end an episode in every lane at once."""
    options = {"max_episode_steps": 3}
    masked = make_vec_env("SAS/Maze-v0", n_envs, seed=0, env_kwargs=options)
    bare = make_vec_env("SAS/Maze-v0", n_envs, seed=0, env_kwargs=options | BARE)
    wrapped = VecMaskInObservation(bare)
    assert wrapped.observation_space == masked.observation_space
    for one, other in zip(play(wrapped, 30), play(masked, 30), strict=True):
        for infos in (one[3], other[3]):
            for info in infos:
                info.pop("episode", None)
        assert data_equivalence(one, other, exact=True)


def test_frames_are_stacked_below_the_masks():
    bare = make_vec_env("SAS/Maze-v0", 2, seed=0, env_kwargs=BARE)
    venv = VecMaskInObservation(VecFrameStack(bare, n_stack=3))
    assert venv.observation_space["observation"].shape == (6,)
    history = [venv.reset()["observation"][:, -2:]]
    for obs, *_ in play(venv, 5):
        history.append(obs["observation"][:, -2:])
        np.testing.assert_array_equal(obs["action_mask"], masks_of(venv))
    np.testing.assert_array_equal(obs["observation"], np.hstack(history[-3:]))


def test_an_environment_without_masks_is_told_what_to_do():
    venv = VecMaskInObservation(make_vec_env("CartPole-v1", 2))
    with pytest.raises(ValueError, match=r"tells no action mask: put it into the"):
        venv.reset()


def test_an_environment_that_offers_nothing_is_refused():
    class Nothing(MaskInMethod):
        def action_masks(self):
            return np.zeros(2, dtype=bool)

    with pytest.raises(ValueError, match="offers no action"):
        VecMaskInObservation(DummyVecEnv([Nothing])).reset()


def test_masks_of_the_wrong_size_are_refused():
    class TooLong(MaskInMethod):
        def action_masks(self):
            return np.ones(3, dtype=bool)

    with pytest.raises(ValueError, match=r"one entry per action, shape \(1, 2\); got shape \(1, 3"):
        VecMaskInObservation(DummyVecEnv([TooLong])).reset()


def test_normalisation_below_the_masks_is_refused():
    """Its original observations, which a replay buffer stores, would lack them."""
    bare = make_vec_env("SAS/Maze-v0", 2, env_kwargs=BARE)
    with pytest.raises(ValueError, match=r"VecNormalize\(VecMaskInObservation\(venv"):
        VecMaskInObservation(VecNormalize(bare))


def test_masks_are_for_discrete_actions_only():
    with pytest.raises(ValueError, match="need a Discrete action space"):
        VecMaskInObservation(make_vec_env("Pendulum-v1", 1))


def test_masks_of_lists_are_taken():
    """As sb3-contrib's own environments tell them."""
    venv = VecMaskInObservation(
        DummyVecEnv([lambda: InvalidActionEnvDiscrete(dim=5, n_invalid_actions=3)])
    )
    assert venv.reset()["action_mask"].sum() == 2


@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_maskable_ppo_trains_on_our_lanes(mask_in_observation):
    """An unavailable action would raise an error in the environment."""
    options = {"mask_in_observation": mask_in_observation, "max_episode_steps": 20}
    venv = make_vec_env("SAS/Maze-v0", 4, seed=0, env_kwargs=options)
    policy = "MultiInputPolicy" if mask_in_observation else "MlpPolicy"
    model = MaskablePPO(policy, venv, n_steps=32, batch_size=64, n_epochs=1, seed=0)
    model.learn(256)
    assert model.num_timesteps == 256
    assert {episode["l"] for episode in model.ep_info_buffer} == {20}
