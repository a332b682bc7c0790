"""Features of a dict with keys of any name."""

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import CombinedExtractor


class DictExtractor(CombinedExtractor):
    """Stable-Baselines3's `CombinedExtractor`, for keys of any name.

    A module keeps the parts of the extractor under the keys, and so cannot take keys
    such as `values`, `type` and `a.b`: here the parts have numbers in their names.

    Args:
        observation_space: A Dict of arrays.
        cnn_output_dim: Number of features of each image.
        normalized_image: Whether images are divided by 255 already.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        cnn_output_dim: int = 256,
        normalized_image: bool = False,
    ) -> None:
        names = {
            key: f"{number:03}_{key.replace('.', '_')}"
            for number, key in enumerate(observation_space)
        }
        renamed = spaces.Dict({names[key]: observation_space[key] for key in names})
        super().__init__(renamed, cnn_output_dim, normalized_image)
        self._observation_space = observation_space
        self._names = names
        self.keys = list(names)

    def forward(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        """Return the features of all entries, joined."""
        renamed = {name: observations[key] for key, name in self._names.items()}
        return super().forward(renamed)
