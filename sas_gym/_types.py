"""Array types that are shared by all modules; shapes are added where arrays cross."""

from typing import Any, TypeVar

import numpy as np

Scalar = TypeVar("Scalar", bound=np.generic)

# NumPy's own is from 2.5 on an alias that jaxtyping cannot look into.
NDArray = np.ndarray[tuple[Any, ...], np.dtype[Scalar]]
"""An array of any shape."""

# Its name costs nothing where a function inside a function is defined at every call.
Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]

EnvIndex = NDArray[np.intp] | slice
"""Which of a batch's environments are meant."""

ALL_ENVS = slice(None)
