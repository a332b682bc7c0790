"""Observations in any unit: running statistics, fixed while a policy plays."""

import io
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_agents.models._normalizer import Normalizer

agents = pytest.mark.parametrize("agent", [SASPG, SASNPG, SASQ])
PAIR = spaces.Dict(
    {
        "amounts": spaces.Box(-np.inf, np.inf, (3,), np.float32),
        "rows": spaces.Box(-np.inf, np.inf, (4, 2), np.float32),
        "place": spaces.Discrete(3),
    }
)


class Units(gym.ObservationWrapper):
    """Observe the maze's position in other units."""

    def __init__(self, env, factor=1.0, offset=0.0):
        super().__init__(env)
        self._factor, self._offset = factor, offset
        self.observation_space = spaces.Dict(
            {
                "observation": spaces.Box(-np.inf, np.inf, (2,), np.float32),
                "action_mask": spaces.MultiBinary(16),
            }
        )

    def observation(self, observation):
        position = observation["observation"] * self._factor + self._offset
        return observation | {"observation": position.astype(np.float32)}


def maze(**units):
    return make_vec_env(
        "SAS/Maze-v0", 8, seed=0, wrapper_class=Units, wrapper_kwargs=units
    )


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), seed=st.integers(0))
def test_running_statistics_equal_those_of_all_samples(sizes, seed):
    rng = np.random.default_rng(seed)
    batches = [
        {
            "amounts": rng.normal(1e4, 3, (size, 3)),
            "rows": rng.normal(-2, 1e3, (size, 4, 2)),
            "place": rng.integers(3, size=size),
        }
        for size in sizes
    ]
    normalizer = Normalizer(PAIR, ["rows"])
    for batch in batches:
        normalizer.observe(batch)
    assert normalizer.num_observed == sum(sizes)
    amounts = np.concatenate([batch["amounts"] for batch in batches])
    rows = np.concatenate([batch["rows"] for batch in batches]).reshape(-1, 2)
    means = np.concatenate([amounts.mean(axis=0), rows.mean(axis=0)])
    deviations = np.concatenate([amounts.std(axis=0), rows.std(axis=0)])
    np.testing.assert_allclose(normalizer.shift, means, rtol=1e-5)
    is_constant = deviations <= 1e-6 * (1 + abs(means))
    scale = 1 / np.where(is_constant, 1, deviations)
    np.testing.assert_allclose(normalizer.scale, scale, rtol=1e-4)


def test_arrays_equal_tensors_and_other_spaces_stay():
    rng = np.random.default_rng(0)
    obs = {
        "amounts": rng.normal(50, 9, (20, 3)).astype(np.float32),
        "rows": rng.normal(-7, 2, (20, 4, 2)).astype(np.float32),
        "place": rng.integers(3, size=20),
    }
    normalizer = Normalizer(PAIR, ["rows"])
    normalizer.observe(obs)
    arrays = normalizer.arrays(obs)
    tensors = normalizer({key: th.as_tensor(value) for key, value in obs.items()})
    for key in obs:
        np.testing.assert_allclose(arrays[key], tensors[key], rtol=1e-6)
    np.testing.assert_array_equal(arrays["place"], obs["place"])
    np.testing.assert_allclose(arrays["amounts"].std(axis=0), 1, rtol=1e-3)


def test_numbers_far_from_the_mean_are_clipped():
    normalizer = Normalizer(spaces.Box(-np.inf, np.inf, (1,)))
    normalizer.observe(np.array([[-1.0], [1.0]]))
    np.testing.assert_array_equal(
        normalizer.arrays(np.array([[1e6], [-1e6]])), [[10], [-10]]
    )


def test_images_and_numbers_of_states_are_left_alone():
    image = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    for space in (image, spaces.Discrete(4), spaces.MultiBinary(3)):
        assert Normalizer(space).keys == []


@agents
def test_statistics_do_not_change_within_a_rollout(agent):
    model = agent("MlpPolicy", maze(factor=1e3), seed=0)
    seen = []

    def watch(*_):
        seen.append((model._n_updates, model.policy.encoder.normalizer.num_observed))
        return True

    model.learn(4 * 2048, watch)
    learned = {pair for pair in seen if pair[0] > 0}
    assert len(learned) == len({updates for updates, _ in learned}) > 2


@agents
@pytest.mark.parametrize("units", [{"factor": 1e6}, {"offset": 1e4}])
def test_units_of_a_column_hardly_change_the_probabilities(agent, units):
    """The same seed in other units learns nearly the same policy at first."""
    positions = np.random.default_rng(0).random((50, 2))
    outputs = []
    changes: list[dict[str, float]] = [{}, units]
    for change in changes:
        model = agent("MlpPolicy", maze(**change), seed=0).learn(4_096)
        scaled = positions * change.get("factor", 1) + change.get("offset", 0)
        obs = {"observation": th.as_tensor(scaled, dtype=th.float32)}
        encoded = model.policy.encoder(obs | {"action_mask": th.ones((50, 16))})
        outputs.append(encoded.numpy())
    np.testing.assert_allclose(outputs[0], outputs[1], atol=0.25)


@agents
def test_saved_models_predict_the_same(agent):
    model = agent("MlpPolicy", maze(factor=1e3, offset=1e4), seed=0).learn(4_096)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = agent.load(file)
    encoders = model.policy.encoder, loaded.policy.encoder
    states = [encoder.normalizer.get_extra_state() for encoder in encoders]
    assert th.equal(*states)
    obs = model.get_env().reset()
    np.testing.assert_array_equal(
        *[one.predict(obs, deterministic=True)[0] for one in (model, loaded)]
    )


@agents
def test_large_numbers_that_are_not_normalised_are_named(agent):
    options = {"normalize_observations": False}
    model = agent("MlpPolicy", maze(factor=1e3), seed=0, policy_kwargs=options)
    with pytest.warns(UserWarning, match=r"'observation'.*normalize_observations"):
        model.learn(4_096)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent("MlpPolicy", maze(), seed=0, policy_kwargs=options).learn(4_096)


@agents
def test_nan_is_refused_before_it_enters_the_statistics(agent):
    model = agent("MlpPolicy", maze(offset=np.nan), seed=0)
    with pytest.raises(ValueError, match="not finite"):
        model.learn(4_096)
    assert model.policy.encoder.normalizer.num_observed == 0


@agents
def test_fourier_basis_is_not_normalised(agent):
    model = agent("LinearPolicy", "SAS/Maze-v0")
    assert not model.policy.encoder.normalizes
    from sas_agents import FourierBasis

    options = {"features_extractor_class": FourierBasis, "normalize_observations": True}
    with pytest.raises(ValueError, match="FourierBasis"):
        agent("MlpPolicy", "SAS/Maze-v0", policy_kwargs=options)
