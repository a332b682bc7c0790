"""A vector environment as a `VecEnv`: all that Stable-Baselines3 expects of one."""

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from helpers.agents import TAXI
from helpers.vec_envs import MaskInInfo, masks_of, play
from sb3_contrib import MaskablePPO
from stable_baselines3.common.monitor import Monitor, get_monitor_files
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

import sas_gym
from sas_agents import VecMaskInObservation, VectorEnvAdapter, make_vec_env
from sas_gym import SPECS
from sas_gym.masks import has_mask

every_id = pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])
BARE = {"mask_in_observation": False}


def masked_cart_pole():
    return sas_gym.StochasticActionSets(gym.make("CartPole-v1"), 0.7)


def plain(obs):
    """Return an observation without what differs by the class of `VecEnv`."""
    return dict(obs) if isinstance(obs, dict) else obs


@every_id
def test_ids_are_made_in_vector_form(env_id):
    venv = make_vec_env(env_id, n_envs=3)
    assert isinstance(venv, VecMonitor)
    assert isinstance(venv.unwrapped, VectorEnvAdapter)
    assert venv.num_envs == 3
    assert venv.observation_space == gym.make(env_id).observation_space
    assert venv.action_space == gym.make(env_id).action_space


def test_id_with_module_is_made_in_vector_form():
    venv = make_vec_env("sas_gym:SAS/Maze-v0", n_envs=2, env_kwargs=BARE)
    assert isinstance(venv.unwrapped, VectorEnvAdapter)
    assert not has_mask(venv.observation_space)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (masked_cart_pole, {}),
        (TAXI, {}),
        # It has a vector form, which resets one step too late for SB3.
        ("CartPole-v1", {}),
        ("SAS/Maze-v0", {"wrapper_class": sas_gym.RepairAction}),
    ],
)
def test_other_environments_go_to_sb3(env_id, options):
    venv = make_vec_env(env_id, n_envs=2, seed=0, **options)
    assert isinstance(venv, DummyVecEnv)
    assert venv.env_is_wrapped(Monitor) == [True, True]
    wrapper = options.get("wrapper_class")
    assert wrapper is None or venv.env_is_wrapped(wrapper) == [True, True]


def test_task_is_made_in_vector_form():
    options = {"max_episode_steps": 7}
    venv = make_vec_env(sas_gym.Maze(), 3, env_kwargs=options)
    assert isinstance(venv.unwrapped, VectorEnvAdapter)
    assert venv.get_attr("max_episode_steps") == [7, 7, 7]


def test_task_with_wrapper_is_made_as_single_environments(tmp_path):
    """All of SB3's arguments are passed on; the wrapper needs single environments."""
    venv = make_vec_env(
        sas_gym.Maze(),
        2,
        0,
        3,
        str(tmp_path),
        sas_gym.RepairAction,
        {"max_episode_steps": 7},
        DummyVecEnv,
        {},
        {"allow_early_resets": False},
        {},
    )
    assert isinstance(venv, DummyVecEnv)
    assert venv.env_is_wrapped(sas_gym.RepairAction) == [True, True]
    assert venv.get_attr("allow_early_resets") == [False, False]
    ends = [step[2].all() for step in play(venv, 14)]
    assert np.flatnonzero(ends).tolist() == [6, 13]
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["3.monitor.csv", "4.monitor.csv"]
    venv.close()


@every_id
@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_one_environment_equals_dummy_vec_env(env_id, mask_in_observation):
    options = {"mask_in_observation": mask_in_observation}
    adapter = VectorEnvAdapter(gym.make_vec(env_id, num_envs=1, **options))
    dummy = DummyVecEnv([lambda: gym.make(env_id, **options)])
    assert adapter.observation_space == dummy.observation_space
    for venv in (adapter, dummy):
        venv.seed(5)
    ends = 0
    for one, other in zip(play(adapter, 300), play(dummy, 300), strict=True):
        assert data_equivalence(plain(one[0]), plain(other[0]), exact=True)
        assert data_equivalence(one[1:], other[1:], exact=True)
        assert data_equivalence(adapter.reset_infos, dummy.reset_infos, exact=True)
        np.testing.assert_array_equal(masks_of(adapter), masks_of(dummy))
        ends += one[2][0]
    assert ends > 0


def test_truncation_differs_from_termination():
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


def test_terminal_observation_is_last_of_old_episode():
    options = {"max_episode_steps": 4}
    venv = make_vec_env("SAS/Maze-v0", 3, seed=0, env_kwargs=options)
    for obs, _, dones, infos in play(venv, 20):
        for index in np.flatnonzero(dones):
            terminal = infos[index]["terminal_observation"]
            assert terminal in venv.observation_space
            now = {key: values[index] for key, values in obs.items()}
            assert not data_equivalence(terminal, now, exact=True)
            np.testing.assert_array_equal(
                infos[index]["action_mask"], terminal["action_mask"]
            )
            np.testing.assert_array_equal(
                venv.unwrapped.reset_infos[index]["action_mask"], now["action_mask"]
            )
        for index in np.flatnonzero(~dones):
            assert "terminal_observation" not in infos[index]
            np.testing.assert_array_equal(
                infos[index]["action_mask"], obs["action_mask"][index]
            )


@pytest.mark.parametrize("env_id", ["SAS/SanFrancisco-v0", masked_cart_pole])
def test_monitor_dir_is_made_and_written(env_id, tmp_path):
    path = tmp_path / "new" / "logs"
    venv = make_vec_env(env_id, 2, seed=0, monitor_dir=str(path))
    infos = [info for step in play(venv, 100) for info in step[3]]
    returns = [info["episode"]["r"] for info in infos if "episode" in info]
    venv.close()
    # Two lines of header; as SB3's `load_results` finds them.
    files = get_monitor_files(str(path))
    rows = [row for file in files for row in Path(file).read_text().splitlines()[2:]]
    written = [float(row.split(",")[0]) for row in rows]
    assert len(returns) > 2
    np.testing.assert_allclose(sorted(written), sorted(returns), atol=1e-4)


@pytest.mark.parametrize("env_id", ["SAS/Maze-v0", masked_cart_pole])
def test_seed_replays_all_environments(env_id):
    def history(seed):
        return [
            (obs, rewards, dones)
            for obs, rewards, dones, _ in play(make_vec_env(env_id, 3, seed), 100)
        ]

    assert data_equivalence(history(1), history(1), exact=True)
    assert not data_equivalence(history(1), history(2), exact=True)


def test_seed_is_used_for_one_reset():
    venv = make_vec_env("SAS/Maze-v0", 2, seed=3)
    first, second = venv.reset(), venv.reset()
    assert not data_equivalence(first, second, exact=True)
    assert venv.seed(3) == [3, 4]
    assert data_equivalence(first, venv.reset(), exact=True)


def test_environments_differ():
    obs: Any = make_vec_env("SAS/Maze-v0", 8, seed=0).reset()
    assert len(np.unique(obs["action_mask"], axis=0)) > 1


def test_copy_continues_identically():
    venv = make_vec_env("SAS/Maze-v0", 2, seed=0).unwrapped
    list(play(venv, 30))
    twin = copy.deepcopy(venv)
    steps, twin_steps = list(play(venv, 30, seed=1)), list(play(twin, 30, seed=1))
    assert data_equivalence(steps, twin_steps, exact=True)


def test_attributes_and_methods_by_index():
    venv = make_vec_env("SAS/Maze-v0", 3, seed=0, env_kwargs={"availability": 0.4})
    obs: Any = venv.reset()
    for index, mask in enumerate(obs["action_mask"]):
        (found,) = venv.env_method("action_masks", indices=index)
        np.testing.assert_array_equal(found, mask)
    assert len(venv.env_method("action_masks", indices=[0, 2])) == 2
    assert venv.get_attr("max_episode_steps") == [80, 80, 80]
    assert venv.get_attr("max_episode_steps", indices=1) == [80]
    assert venv.has_attr("action_masks")
    assert not venv.has_attr("wings")
    assert venv.env_is_wrapped(Monitor) == [False, False, False]
    assert venv.env_is_wrapped(Monitor, indices=[1]) == [False]


def test_attribute_is_set_in_all_environments_or_none():
    venv = make_vec_env("SAS/Maze-v0", 2)
    venv.set_attr("note", "hello")
    assert venv.get_attr("note") == ["hello", "hello"]
    with pytest.raises(
        ValueError, match="all environments share the attribute 'note': set it"
    ):
        venv.set_attr("note", "bye", indices=[0])
    assert venv.get_attr("note") == ["hello", "hello"]


def test_one_image_per_environment():
    venv = make_vec_env("SAS/Maze-v0", 2, seed=0)
    venv.reset()
    assert venv.render_mode == "rgb_array"
    images: Any = venv.get_images()
    assert len(images) == 2
    np.testing.assert_array_equal(venv.render(), np.vstack(images))
    # The action sets differ, and images show them.
    assert not np.array_equal(*images)


def test_close():
    venv = make_vec_env("SAS/Maze-v0", 2)
    venv.close()
    adapter: Any = venv.unwrapped
    assert adapter.vector_env.closed


def test_next_step_autoreset_is_rejected():
    vector_env = gym.make_vec("CartPole-v1", num_envs=2)
    assert vector_env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    with pytest.raises(ValueError, match=r"SAME_STEP, got AutoresetMode\.NEXT_STEP"):
        VectorEnvAdapter(vector_env)


def test_any_same_step_vector_environment():
    """Infos that only some environments have stay with them."""
    vector_env = gym.vector.SyncVectorEnv(
        [MaskInInfo, MaskInInfo], autoreset_mode=AutoresetMode.SAME_STEP
    )
    dummy = DummyVecEnv([MaskInInfo, MaskInInfo])
    venvs: list[Any] = [
        VecMaskInObservation(venv) for venv in (VectorEnvAdapter(vector_env), dummy)
    ]
    histories: list[Any] = []
    for venv in venvs:
        venv.seed(0)
        obs, steps = venv.reset(), []
        for _ in range(100):
            obs, *rest, infos = venv.step(obs["action_mask"].argmax(axis=1))
            steps.append((obs, *rest, list(infos)))
        histories.append(steps)
    assert any(step[2].any() for step in histories[0])
    assert data_equivalence(histories[0], histories[1], exact=True)


def test_vec_normalize_and_frame_stack_change_terminal_observations():
    """Both replace them, in the infos that they pass on."""
    options = {"max_episode_steps": 3, "mask_in_observation": False}
    venv = make_vec_env("SAS/Maze-v0", 3, seed=0, env_kwargs=options)
    wrapped = VecFrameStack(VecNormalize(venv), 2)
    terminal = [
        info["terminal_observation"]
        for *_, dones, infos in play(wrapped, 12)
        for info in np.array(infos)[dones]
    ]
    assert len(terminal) == 12
    assert all(obs.shape == (4,) for obs in terminal)
    assert any((obs < 0).any() for obs in terminal)


@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_maskable_ppo_trains(mask_in_observation):
    """An unavailable action would raise an error in the environment."""
    options = {"mask_in_observation": mask_in_observation, "max_episode_steps": 20}
    venv = make_vec_env("SAS/Maze-v0", 4, seed=0, env_kwargs=options)
    policy = "MultiInputPolicy" if mask_in_observation else "MlpPolicy"
    model = MaskablePPO(policy, venv, n_steps=32, batch_size=64, n_epochs=1, seed=0)
    model.learn(256)
    assert model.num_timesteps == 256
    assert model.ep_info_buffer is not None
    assert {episode["l"] for episode in model.ep_info_buffer} == {20}
