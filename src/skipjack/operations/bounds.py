"""How far a result may be from the reference: what computing loses, and what storing it loses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.dtypes import DTYPES
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.operations.registry import get, tensor_dtype

Float64 = npt.NDArray[np.float64]

_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class ErrorTerms:
    """``magnitude * computing + |reference| * storing + least``.

    `magnitude` is the operation's, at least the smallest normal float32. Where a result is stored
    as it is computed, the last two terms are 0.
    """

    computing: float
    storing: float = 0.0
    least: float = 0.0
    """The distance of the smallest numbers of the stored type."""

    @property
    def rounds(self) -> bool:
        """Whether a result is rounded when it is stored."""
        return self.storing > 0.0

    def bound(self, reference: Float64, magnitude: Float64, slack: float = 1.0) -> Float64:
        """The largest difference of a right result; `slack` is for what computing loses."""
        bound = np.maximum(magnitude, _TINY) * self.computing
        if slack != 1.0:
            bound = bound * slack
        if not self.rounds:
            return bound
        whole: Float64 = bound + np.abs(reference) * self.storing + self.least
        return whole


def error_terms(problem: Problem, tensor: Tensor) -> ErrorTerms:
    """Of one output of a problem."""
    computed, stored = DTYPES[problem.dtype], DTYPES[tensor_dtype(problem, tensor)]
    computing = get(problem.operation).tolerance(problem).factor * computed.arithmetic_eps
    if stored.eps <= computed.arithmetic_eps:
        return ErrorTerms(computing)
    return ErrorTerms(computing, stored.eps, stored.smallest)


def error_bound(
    problem: Problem, tensor: Tensor, reference: Float64, magnitude: Float64, slack: float = 1.0
) -> Float64:
    """How far each element may be off, from the reference and its magnitude in float64."""
    return error_terms(problem, tensor).bound(reference, magnitude, slack)


def without_overflow(
    result: Float64, reference: Float64, bound: Float64, storage: np.dtype[Any]
) -> Float64:
    """The result with the reference in place of infinities that storing it may give.

    A sum beyond 65504 is infinite in f16: that is right, and so is it just below, where an error
    within the bound carries it over.
    """
    infinite = np.isinf(result)
    if not infinite.any():
        return result
    with np.errstate(over="ignore", invalid="ignore"):
        furthest = (reference + np.copysign(bound, result)).astype(storage).astype(np.float64)
    return np.where(infinite & (furthest == result), reference, result)
