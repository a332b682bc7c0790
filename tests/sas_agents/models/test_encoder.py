"""Observations are encoded once, by NumPy as by torch."""

import copy
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents import FourierBasis
from sas_agents.models._dict_extractor import DictExtractor
from sas_agents.models._encoder import Encoder
from sas_agents.models._features import Identity, OneHot, bare_space
from sas_agents.models._mlp import Dense, Indices
from sas_agents.models._model import Tensors
from sas_gym.masks import MASK_KEY, masked_space

IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
PAIR = spaces.MultiDiscrete([2, 3])
SMALL = spaces.Dict(
    place=spaces.Box(-1, 1, (2, 3), np.float64),
    room=spaces.Discrete(3),
    doors=spaces.MultiBinary(2),
)
WITH_PAIR = spaces.Dict({"pair": PAIR, **SMALL.spaces})
WITH_IMAGE = spaces.Dict({"image": IMAGE, **SMALL.spaces})
CASES = [
    (spaces.Discrete(5), OneHot, Indices),
    (spaces.Discrete(5), FlattenExtractor, Indices),
    (spaces.Box(-1, 3, (2,)), FourierBasis, Dense),
    (spaces.Box(0, 1, (2,)), FourierBasis, Dense),
    (spaces.Box(-9, 9, (3,), np.int16), Identity, Dense),
    (spaces.Box(-9, 9, (3, 2), np.float64), FlattenExtractor, Dense),
    (spaces.MultiBinary(4), Identity, Dense),
    (PAIR, FlattenExtractor, Dense),
    (IMAGE, FlattenExtractor, Dense),
    (SMALL, DictExtractor, Dense),
    (WITH_PAIR, DictExtractor, Dense),
]


def observations(space, size=6):
    """A batch of observations with their masks."""
    space.seed(0)
    samples = [space.sample() for _ in range(size)]
    if isinstance(samples[0], dict):
        obs = {key: np.stack([sample[key] for sample in samples]) for key in space}
    else:
        obs = {"observation": np.stack(samples)}
    return obs | {MASK_KEY: np.ones((size, 4), np.int8)}


@pytest.mark.parametrize(("space", "extractor", "kind"), CASES)
def test_inputs_equal_stable_baselines3s_features(space, extractor, kind):
    masked, obs = masked_space(space, 4), observations(space)
    features = extractor(space)
    encoder = Encoder(masked, features)
    tensors: Any = obs_as_tensor(obs, th.device("cpu"))
    bare = {key: value for key, value in tensors.items() if key != MASK_KEY}
    given = bare.get("observation", bare)
    expected = features(preprocess_obs(given, bare_space(masked))).numpy()
    encodings: list[Any] = [encoder.encode(obs), copy.deepcopy(encoder).encode(obs)]
    for encoded in encodings:
        assert type(encoded) is kind
        found = encoded.values
        if kind is Indices:
            assert encoded.size == space.n
            found = np.eye(space.n, dtype=np.float32)[found]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-5)
    by_torch = encoder(tensors).numpy()
    np.testing.assert_allclose(encodings[0].values, by_torch, atol=1e-5)


@pytest.mark.parametrize("space", [IMAGE, SMALL, WITH_IMAGE])
def test_observations_of_learned_features_are_preprocessed(space):
    masked, obs = masked_space(space, 4), observations(space)
    encoder = Encoder(masked, None)
    tensors: Any = obs_as_tensor(obs, th.device("cpu"))
    encoded = encoder.encode(obs)
    assert isinstance(encoded, Tensors)
    bare = {key: value for key, value in tensors.items() if key != MASK_KEY}
    expected = preprocess_obs(bare.get("observation", bare), bare_space(masked))
    found = encoded.tensors(th.device("cpu"))
    if not isinstance(expected, dict):
        expected, found = {"": expected}, {"": found}
    assert expected.keys() == found.keys()
    for key in expected:
        assert th.equal(found[key], expected[key])


def test_another_extractor_of_a_discrete_space_is_not_an_index():
    class Doubled(OneHot):
        def forward(self, observations):
            return 2 * observations

    space = spaces.Discrete(3)
    encoder = Encoder(masked_space(space, 4), Doubled(space))
    found: Any = encoder.encode({"observation": np.array([2, 0])})
    assert found.values.tolist() == [[0.0, 0.0, 2.0], [2.0, 0.0, 0.0]]
