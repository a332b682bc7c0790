"""Features of the state, and never of the mask."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from sas_agents import FourierBasis
from sas_agents.models._features import (
    Identity,
    OneHot,
    array_features,
    bare_observation,
    bare_space,
    linear_features,
)
from sas_gym.masks import MASK_KEY, has_mask, masked_space

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
    ("num_axes", "coupled", "num_features"),
    [(1, True, 6), (2, True, 36), (3, True, 216), (4, True, 256), (4, False, 21)],
)
def test_fourier_basis_default_order_bounds_features(num_axes, coupled, num_features):
    """Order 5, but no more than 256 features: order 3 for four coupled axes."""
    space = spaces.Box(0.0, 1.0, (num_axes,), np.float32)
    assert FourierBasis(space, coupled=coupled).features_dim == num_features


@pytest.mark.parametrize("extractor", [FourierBasis, Identity])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_array_features_equal_the_extractors(extractor, low):
    space = spaces.Box(low, 3.0, (3,), np.float32)
    features = extractor(space)
    rows = np.random.default_rng(0).uniform(low, 3, (5, 3)).astype(np.float32)
    compute = array_features(features, space)
    assert compute is not None
    np.testing.assert_allclose(compute(rows), features(th.tensor(rows)), atol=1e-5)


def test_array_features_of_other_extractors_are_left_to_torch():
    """A subclass may compute something else, and images are encoded by SB3."""

    class Doubled(Identity):
        def forward(self, observations):
            return 2 * observations

    space, image = spaces.Box(0.0, 1.0, (3,)), spaces.Box(0, 255, (3, 9, 9), np.uint8)
    assert array_features(Doubled(space), space) is None
    assert array_features(Identity(image), image) is None


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
def test_linear_features_by_space(space, features):
    assert linear_features(space) is features


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (spaces.Box(-INF, 1.0, (2,)), {}, "finite bounds, got Box"),
        (spaces.Box(0.0, 1.0, (2, 2)), {}, "a Box of one axis"),
        (spaces.Dict(x=spaces.Box(0.0, 1.0, (2,))), {}, "needs a Box .*, got Dict"),
        (spaces.Discrete(3), {}, "needs a Box of one axis .*, got Discrete"),
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
