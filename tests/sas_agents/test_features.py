"""Features of the state: the paper's, and never the mask."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from sas_agents import FourierBasis
from sas_agents._features import (
    Identity,
    OneHot,
    bare_observation,
    bare_space,
    has_mask,
    paper_features,
)
from sas_gym.masks import MASK_KEY, masked_space

INF = float("inf")


def test_fourier_basis_is_product_of_frequencies():
    basis = FourierBasis(spaces.Box(-1.0, 3.0, (2,), np.float32), order=3)
    features = basis(th.tensor([[0.0, 3.0]]))[0]
    expected = [
        np.cos(np.pi * (i * 0.25 + j * 1.0)) for i in range(4) for j in range(4)
    ]
    np.testing.assert_allclose(features, expected, atol=1e-6)


def test_uncoupled_fourier_basis_varies_along_one_axis():
    basis = FourierBasis(spaces.Box(0.0, 1.0, (2,), np.float32), order=2, coupled=False)
    features = basis(th.tensor([[0.5, 0.25]]))[0]
    angles = [0, 0.5, 1.0, 0.25, 0.5]
    np.testing.assert_allclose(features, np.cos(np.pi * np.array(angles)), atol=1e-6)


@pytest.mark.parametrize(
    ("space", "features"),
    [
        (spaces.Box(0.0, 1.0, (2,)), FourierBasis),
        (spaces.Box(1.0, 2.0, (1,)), Identity),
        (spaces.Box(0.0, 1.0, (11,)), Identity),
        (spaces.Box(-INF, INF, (2,)), Identity),
        (spaces.Discrete(28), OneHot),
        (spaces.MultiBinary(3), Identity),
    ],
)
def test_paper_features_by_space(space, features):
    assert paper_features(space) is features


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (spaces.Box(-INF, 1.0, (2,)), {}, "finite bounds, got Box"),
        (spaces.Box(0.0, 1.0, (2, 2)), {}, "a Box of one axis"),
        (spaces.Box(0.0, 1.0, (2,)), {"order": -1}, "order must be at least 0"),
    ],
)
def test_fourier_basis_errors(space, options, message):
    with pytest.raises(ValueError, match=message):
        FourierBasis(space, **options)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3),
        spaces.Box(0.0, 1.0, (2,)),
        spaces.Dict(x=spaces.Discrete(3), y=spaces.MultiBinary(2)),
    ],
)
def test_mask_is_stripped_from_space_and_observation(space):
    masked = masked_space(space, 4)
    assert has_mask(masked)
    assert not has_mask(space)
    assert bare_space(masked) == space
    bare = {"observation": th.zeros(1)}
    assert bare_observation({**bare, MASK_KEY: th.ones(1, 4)}) is bare["observation"]
    both = {"x": th.zeros(1), "y": th.ones(1)}
    assert bare_observation({**both, MASK_KEY: th.ones(1, 4)}) == both
