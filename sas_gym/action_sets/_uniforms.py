"""Uniform numbers as a pure function of a counter."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_SHIFTS = tuple(np.uint64(bits) for bits in (30, 27, 31, 11))
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniforms(counter: Words) -> NDArray[np.float64]:
    """Hash counters of any shape, in place, to numbers uniform on [0, 1).

    NumPy's own generators hand out a stream in order. What comes and goes by lane,
    episode and step has to be found by its place instead, which is what the finaliser
    of SplitMix64 does (Steele, Lea and Flood, 2014; Stafford's variant 13).
    """
    counter ^= counter >> _SHIFTS[0]
    counter *= _FACTORS[0]
    counter ^= counter >> _SHIFTS[1]
    counter *= _FACTORS[1]
    counter ^= counter >> _SHIFTS[2]
    numbers: NDArray[np.float64] = (counter >> _SHIFTS[3]) * np.float64(2.0**-53)
    return numbers
