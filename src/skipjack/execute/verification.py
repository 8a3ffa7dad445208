"""Is the result right? Random inputs, poisoned outputs, guard pages, a float64 reference.

Above about a GFLOP the whole reference would cost more than the search: then random projections of
the result and some whole rows are checked instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from skipjack.core.operation import Arrays, Operation, Projectable
from skipjack.core.problem import DTYPES, Problem
from skipjack.native.memory import GuardedArray, poison
from skipjack.operations import get

FULL_REFERENCE_FLOPS = 1e9
_PROJECTIONS = 4
_ROWS = 16
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Right, or wrong for a reason. `error` is the worst deviation in units of its tolerance."""

    right: bool
    reason: str = ""
    error: float = 0.0
    stray: bool = False
    """It wrote outside of its arrays: nothing in this process can be trusted any more."""


def draw_inputs(problem: Problem, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Random inputs in the operation's domain, the same for the same seed."""
    operation = get(problem.operation)
    low, high = operation.domain
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.uniform(low, high, tensor.shape).astype(DTYPES[problem.dtype])
        for tensor in operation.inputs(problem)
    }


class Checker:
    """Checks kernels of one problem on arrays of its own. The reference is computed once."""

    def __init__(
        self,
        problem: Problem,
        alignment: int = 64,
        seed: int = 0,
        full_reference_flops: float = FULL_REFERENCE_FLOPS,
    ) -> None:
        self.problem = problem
        self._full_reference_flops = full_reference_flops
        self._operation: Operation = get(problem.operation)
        dtype = DTYPES[problem.dtype]
        output = self._operation.output(problem)
        inputs = draw_inputs(problem, seed)
        self._guarded = {
            name: GuardedArray(array.shape, dtype, alignment) for name, array in inputs.items()
        }
        self._guarded[output.name] = GuardedArray(output.shape, dtype, alignment)
        self.arrays: dict[str, npt.NDArray[Any]] = {
            name: guarded.array for name, guarded in self._guarded.items()
        }
        for name, array in inputs.items():
            self.arrays[name][...] = array
        self._inputs = inputs
        self._output = output.name
        exact = {name: array.astype(np.float64) for name, array in inputs.items()}
        self._reference = self._make_reference(exact)
        eps = float(np.finfo(dtype).eps)
        self._unit = self._operation.tolerance(problem).factor * eps

    def _make_reference(self, exact: Arrays) -> _Full | _Projected:
        operation, problem = self._operation, self.problem
        large = operation.flops(problem) > self._full_reference_flops
        if large and hasattr(operation, "project"):
            return _Projected(cast(Projectable, operation), problem, exact)
        return _Full(operation.reference(problem, exact), operation.magnitude(problem, exact))

    def prepare(self) -> None:
        """Poison the output before a run, and mend what an earlier one broke."""
        for guarded in self._guarded.values():
            guarded.restore()
        for name, array in self._inputs.items():
            self.arrays[name][...] = array
        poison(self.arrays[self._output])

    def verdict(self) -> Verdict:
        """Judge what a run left behind."""
        for name, guarded in self._guarded.items():
            if not guarded.intact():
                return Verdict(False, f"wrote outside of {name}", stray=True)
        for name, array in self._inputs.items():
            if not np.array_equal(self.arrays[name], array):
                return Verdict(False, f"changed its input {name}")
        return self._reference.compare(self.arrays[self._output], self._unit)


class _Full:
    """The whole reference, element by element."""

    def __init__(self, reference: npt.NDArray[Any], scale: npt.NDArray[Any]) -> None:
        self._reference, self._scale = reference, np.maximum(scale, np.finfo(np.float32).tiny)

    def compare(self, result: npt.NDArray[Any], unit: float) -> Verdict:
        return judge(result.astype(np.float64), self._reference, self._scale * unit)


class _Projected:
    """Random sign vectors catch a wrong element anywhere; whole rows show where and how."""

    def __init__(self, operation: Projectable, problem: Problem, exact: Arrays) -> None:
        rng = np.random.default_rng(1)
        rows, columns = get(problem.operation).output(problem).shape
        self._vectors = [rng.choice([-1.0, 1.0], columns) for _ in range(_PROJECTIONS)]
        self._projections = [operation.project(problem, exact, v) for v in self._vectors]
        self._rows = np.unique(np.r_[0, rows - 1, rng.integers(0, rows, _ROWS)]).astype(np.int64)
        self._exact, self._scale = operation.sampled_rows(problem, exact, self._rows)

    def compare(self, result: npt.NDArray[Any], unit: float) -> Verdict:
        verdict = judge(result[self._rows].astype(np.float64), self._exact, self._scale * unit)
        for vector, (exact, scale) in zip(self._vectors, self._projections, strict=True):
            if not verdict.right:
                return verdict
            projected = result.astype(np.float64) @ vector
            # Independent roundings of a row add up like a random walk, not like their bound (which
            # single elements stay far below). The second term is the rounding of the projection.
            bound = scale * unit / len(vector) ** 0.5 + scale * 1e-13
            verdict = judge(projected, exact, bound)
        return verdict


def judge(result: Float64, reference: Float64, bound: Float64) -> Verdict:
    """Compare element by element; where both are NaN or the same infinity they agree."""
    with np.errstate(invalid="ignore"):
        error = np.abs(result - reference)
    same = (result == reference) | (np.isnan(result) & np.isnan(reference))
    bad = ~((error <= bound) | same)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(same, 0.0, error / bound)
    worst = float(np.nanmax(relative, initial=0.0))
    if not bad.any():
        return Verdict(True, error=worst)
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    where = ",".join(map(str, at))
    reason = (
        f"{int(bad.sum())} of {bad.size} elements are wrong, the first at [{where}]: "
        f"{result[at]:.9g} instead of {reference[at]:.9g}"
    )
    return Verdict(False, reason, worst)
