"""Features of dicts are those of Stable-Baselines3, for keys of any name."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import CombinedExtractor

from sas_agents.models._dict_extractor import DictExtractor

IMAGE = spaces.Box(0, 255, (1, 36, 36), np.uint8)
SPACE = spaces.Dict(
    {f"key{i}": spaces.Box(-1, 1, (i + 1,)) for i in range(12)} | {"image": IMAGE}
)


def test_features_equal_combined_extractors():
    """Also in the order of more than ten keys."""
    th.manual_seed(0)
    ours = DictExtractor(SPACE, cnn_output_dim=7)
    th.manual_seed(0)
    theirs = CombinedExtractor(SPACE, cnn_output_dim=7)
    obs = {key: th.rand(3, *SPACE[key].shape) for key in SPACE}  # type: ignore[misc]
    assert th.equal(ours(obs), theirs(obs))
    assert ours.features_dim == theirs.features_dim == 78 + 7


@pytest.mark.parametrize("keys", [("a.b", "a_b"), ("values", "items"), ("", "0")])
def test_keys_never_collide(keys):
    space = spaces.Dict({key: spaces.Box(0, 1, (1,)) for key in keys})
    features = DictExtractor(space)(
        {key: th.full((1, 1), float(i)) for i, key in enumerate(keys)}
    )
    assert sorted(features.ravel().tolist()) == [0, 1]
