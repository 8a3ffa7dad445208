"""How far a result may be from the reference: errors of computing it and of storing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core import DTYPES, Problem, Tensor
from skipjack.operations.registry import get, tensor_dtype

# The rounding error of a sum of products, by the dtype of the computation.


def product_factor(dtype: str, length: int, own: float = 0.0) -> float:
    """The error bound in units of `arithmetic_eps` and of the same sum of magnitudes.

    `own` is the error of a function of the sum, in units of the accumulator type.
    """
    root: float = length**0.5
    if dtype == "tf32":
        # Operands are rounded or truncated to 11 bits. Errors of products are independent, so that
        # the error of their sum is 14 / root at six sigma. Sums are accumulated in float32.
        return 16.0 / root + 2.0
    if dtype in ("f8e4m3", "f8e5m2"):
        # Products are exact. Tensor cores keep 14 bits of a sum and truncate the rest at every
        # step, always towards 0, so that the error grows with the length.
        return 16.0 / root + 2.0 + root / 16.0
    return 4.0 + 2.0 * root + own


# The bound of all errors of a result.

Float64 = npt.NDArray[np.float64]

_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class ErrorTerms:
    """``magnitude * computing + |reference| * storing + least``.

    `magnitude` is that of the operation, and at least the smallest normal float32. If a result is
    stored with the precision of its computation, the last two terms are 0.
    """

    computing: float
    storing: float = 0.0
    least: float = 0.0
    """The spacing of the smallest numbers of the stored type."""

    @property
    def rounds(self) -> bool:
        """Whether a result is rounded when it is stored."""
        return self.storing > 0.0

    def bound(
        self, reference: Float64, magnitude: Float64, tolerance_factor: float = 1.0
    ) -> Float64:
        """The largest difference of a correct result.

        `tolerance_factor` scales the error of computing.
        """
        bound = np.maximum(magnitude, _TINY) * self.computing
        if tolerance_factor != 1.0:
            bound = bound * tolerance_factor
        if not self.rounds:
            return bound
        whole: Float64 = bound + np.abs(reference) * self.storing + self.least
        return whole


def error_terms(problem: Problem, tensor: Tensor) -> ErrorTerms:
    """The error terms of one output of a problem."""
    computed, stored = DTYPES[problem.dtype], DTYPES[tensor_dtype(problem, tensor)]
    computing = get(problem.operation).tolerance(problem).factor * computed.arithmetic_eps
    if stored.eps <= computed.arithmetic_eps:
        return ErrorTerms(computing)
    return ErrorTerms(computing, stored.eps, stored.smallest)


def error_bound(
    problem: Problem,
    tensor: Tensor,
    reference: Float64,
    magnitude: Float64,
    tolerance_factor: float = 1.0,
) -> Float64:
    """The error bound of each element, from the reference and its magnitude in float64."""
    return error_terms(problem, tensor).bound(reference, magnitude, tolerance_factor)


def without_overflow(
    result: Float64, reference: Float64, bound: Float64, storage: np.dtype[Any]
) -> Float64:
    """The result, with the reference in place of infinities that are within the error bound.

    A sum beyond 65504 is infinite in f16. That is correct, also just below this limit, where an
    error within the bound exceeds it.
    """
    infinite = np.isinf(result)
    if not infinite.any():
        return result
    with np.errstate(over="ignore", invalid="ignore"):
        furthest = (reference + np.copysign(bound, result)).astype(storage).astype(np.float64)
    return np.where(infinite & (furthest == result), reference, result)
