"""Element types: how they are stored, and how exactly they are computed in.

A type is what a problem is in, so that ``tf32`` is one: its arrays are float32, its products are
not. Those below 32 bits are summed in float32 and rounded once, when they are stored.
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
    """One element type."""

    name: str
    storage: str
    """NumPy's name of it, or that of the package ml_dtypes."""
    bytes: int
    eps: float
    """Relative spacing of stored numbers: what rounding a result costs."""
    arithmetic_eps: float
    """The same for the numbers that sums are kept in; for tf32 and fp8, of their products."""
    smallest: float
    """The least stored number above 0."""

    @property
    def is_narrow(self) -> bool:
        """Whether results are rounded more coarsely than they are computed."""
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
"""By their short names, as in a problem's key."""

CPU_DTYPES = ("f32", "f64")
"""What kernels for CPUs are generated in."""


def listed(names: Sequence[str], joined: str = "and") -> str:
    """As messages say them: ``f32, f16 and bf16``."""
    *first, last = names
    return f"{', '.join(first)} {joined} {last}" if first else last


@functools.cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """How arrays of a type are stored."""
    import numpy as np

    storage = DTYPES[name].storage
    if storage in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, storage))
        return found
    return np.dtype(storage)
