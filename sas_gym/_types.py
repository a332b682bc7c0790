"""Array types that are shared by all modules; shapes are added where arrays cross."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]

EnvIndex = NDArray[np.intp] | slice
"""Which of a batch's environments are meant."""

ALL_ENVS = slice(None)
