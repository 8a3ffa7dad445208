"""Element types: how they are stored, and the precision of arithmetic in them.

A dtype belongs to a problem, not only to an array. So ``tf32`` is a dtype: its arrays are float32,
its products are not. Types below 32 bits are summed in float32 and rounded once, when stored.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_F32_EPS, _F64_EPS = 2.0**-23, 2.0**-52


@dataclass(frozen=True, slots=True)
class Dtype:
    """One element type, with the properties that error bounds depend on."""

    name: str
    storage: str
    """The name in NumPy or in the package ml_dtypes."""
    bytes: int
    eps: float
    """Relative spacing of stored numbers: the error of rounding a result."""
    arithmetic_eps: float
    """Relative spacing of accumulators; for tf32 and fp8, of products."""
    smallest: float
    """The smallest positive number that can be stored."""

    @property
    def is_narrow(self) -> bool:
        """Whether results are stored with less precision than they are computed."""
        return self.eps > self.arithmetic_eps


_ALL = (
    Dtype("f32", "float32", 4, _F32_EPS, _F32_EPS, 2.0**-149),
    Dtype("f64", "float64", 8, _F64_EPS, _F64_EPS, 2.0**-1074),
    Dtype("f16", "float16", 2, 2.0**-10, _F32_EPS, 2.0**-24),
    Dtype("bf16", "bfloat16", 2, 2.0**-7, _F32_EPS, 2.0**-133),
    Dtype("tf32", "float32", 4, _F32_EPS, 2.0**-11, 2.0**-149),
    Dtype("f8e4m3", "float8_e4m3fn", 1, 2.0**-3, 2.0**-13, 2.0**-9),
    Dtype("f8e5m2", "float8_e5m2", 1, 2.0**-2, 2.0**-13, 2.0**-16),
)
DTYPES: dict[str, Dtype] = {dtype.name: dtype for dtype in _ALL}
"""All element types by the names in keys of problems."""

CPU_DTYPES = ("f32", "f64")
"""Element types for which kernels for CPUs are generated."""


def listed(names: Sequence[str], joined: str = "and") -> str:
    """Names as an enumeration for messages: ``f32, f16 and bf16``."""
    *first, last = names
    return f"{', '.join(first)} {joined} {last}" if first else last


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype that stores arrays of an element type."""
    import numpy as np

    storage = DTYPES[name].storage
    if storage in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, storage))
        return found
    return np.dtype(storage)
