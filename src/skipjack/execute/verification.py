"""Is the result right? Random inputs, poisoned outputs, guard pages, a float64 reference.

Above about a GFLOP the whole reference would cost more than the search: then random projections of
the result and some whole rows are checked instead.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.operation import Arrays, Operation, Projectable
from skipjack.core.problem import DTYPES, Problem
from skipjack.native.memory import GuardedArray, poison
from skipjack.operations import get, magnitudes, outputs, references, tensors

FULL_REFERENCE_FLOPS = 1e9
_PROJECTIONS = 4
_PIECE = 1 << 24
"""Elements of a large result that are converted at a time."""
_ERROR_SAMPLE = 1 << 14
"""Elements of a right result whose errors are worked out, for the record."""
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
    inputs = {}
    for tensor in operation.inputs(problem):
        drawn = rng.random(tensor.shape, DTYPES[problem.dtype])  # type: ignore[call-overload]
        drawn *= high - low
        drawn += low
        inputs[tensor.name] = drawn
    return inputs


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
        self._inputs = inputs = draw_inputs(problem, seed)
        self._outputs = [tensor.name for tensor in outputs(problem)]
        self._place(
            {
                tensor.name: GuardedArray(tensor.shape, dtype, alignment)
                for tensor in tensors(problem)
            }
        )
        self._unit = self._operation.tolerance(problem).factor * float(np.finfo(dtype).eps)
        exact = {name: array.astype(np.float64) for name, array in inputs.items()}
        self._references = self._make_references(exact)

    def _place(self, guarded: dict[str, GuardedArray]) -> None:
        self._guarded = guarded
        self.arrays: dict[str, npt.NDArray[Any]] = {
            name: place.array for name, place in guarded.items()
        }
        for name, array in self._inputs.items():
            self.arrays[name][...] = array
        self._broken = False

    def elsewhere(self) -> Checker:
        """The same on arrays that end at their guards or are not aligned: as users' arrays may lie.

        Those that would be aligned there all the same begin 16 bytes before, as NumPy's often do.
        """
        dtype = DTYPES[self.problem.dtype]
        item = np.dtype(dtype).itemsize
        other = copy.copy(self)
        other._place(
            {
                tensor.name: GuardedArray(
                    tensor.shape, dtype, item, 0 if tensor.size * item % 64 else 16
                )
                for tensor in tensors(self.problem)
            }
        )
        return other

    def _make_references(self, exact: Arrays) -> dict[str, _Full | _Projected]:
        """By output."""
        operation, problem = self._operation, self.problem
        large = operation.flops(problem) > self._full_reference_flops and len(self._outputs) == 1
        if large and isinstance(operation, Projectable) and operation.can_project(problem):
            return {self._outputs[0]: _Projected(operation, problem, exact, self._unit)}
        scales = magnitudes(problem, exact)
        return {
            name: _Full(reference, scales[name], self._unit, DTYPES[problem.dtype])
            for name, reference in references(problem, exact).items()
        }

    def prepare(self) -> None:
        """Poison the outputs before a run, and mend what an earlier one broke."""
        if self._broken:
            for guarded in self._guarded.values():
                guarded.restore()
            for name, array in self._inputs.items():
                self.arrays[name][...] = array
            self._broken = False
        for name in self._outputs:
            poison(self.arrays[name])

    def verdict(self, slack: float = 1.0) -> Verdict:
        """Judge what a run left behind; `slack` is how many times the tolerance is allowed."""
        for name, guarded in self._guarded.items():
            if not guarded.intact():
                self._broken = True
                return Verdict(False, f"wrote outside of {name}", stray=True)
        for name, array in self._inputs.items():
            if not np.array_equal(self.arrays[name], array):
                self._broken = True
                return Verdict(False, f"changed its input {name}")
        worst = 0.0
        for name, reference in self._references.items():
            verdict = reference.compare(self.arrays[name], slack)
            if not verdict.right:
                where = f"{name}: " if len(self._outputs) > 1 else ""
                return replace(verdict, reason=where + verdict.reason)
            worst = max(worst, verdict.error)
        return Verdict(True, error=worst)


class _Full:
    """The whole reference, element by element.

    A right result is recognised by two comparisons in its own precision; only where one fails are
    errors worked out, which takes ten times as long.
    """

    def __init__(
        self, reference: npt.NDArray[Any], scale: npt.NDArray[Any], unit: float, dtype: str
    ) -> None:
        self._reference = reference
        self._bound = np.maximum(scale, np.finfo(np.float32).tiny) * unit
        self._least = (reference - self._bound).astype(dtype)
        self._most = (reference + self._bound).astype(dtype)
        self._some = slice(None, None, max(1, reference.size // _ERROR_SAMPLE))

    def compare(self, result: npt.NDArray[Any], slack: float = 1.0) -> Verdict:
        bound = self._bound if slack == 1.0 else self._bound * slack
        if not self._within(result, bound, exactly=slack == 1.0):
            return judge(result.astype(np.float64), self._reference, bound)
        arrays = (result, self._reference, bound)
        some = [array.ravel()[self._some].astype(np.float64) for array in arrays]
        return Verdict(True, error=worst_error(*some))

    def _within(self, result: npt.NDArray[Any], bound: Float64, *, exactly: bool) -> bool:
        least, most = self._least, self._most
        if not exactly:
            least, most = self._reference - bound, self._reference + bound
        return bool((result >= least).all() and (result <= most).all())


class _Projected:
    """Random sign vectors catch a wrong element anywhere; samples show where and how."""

    def __init__(
        self, operation: Projectable, problem: Problem, exact: Arrays, unit: float
    ) -> None:
        self._operation, self._problem, self._unit = operation, problem, unit
        rng = np.random.default_rng(1)
        nothing = np.broadcast_to(np.float32(0.0), get(problem.operation).output(problem).shape)
        columns = operation.as_matrix(problem, nothing).shape[1]
        self._vectors = rng.choice([-1.0, 1.0], (columns, _PROJECTIONS))
        self._projected, self._size = operation.project(problem, exact, self._vectors)
        self._samples = operation.sampled(problem, exact, rng)

    def compare(self, result: npt.NDArray[Any], slack: float = 1.0) -> Verdict:
        unit = self._unit * slack
        worst = 0.0
        for sample in self._samples:
            part = result[sample.place].astype(np.float64)
            verdict = judge(part, sample.exact, sample.scale * unit)
            if not verdict.right:
                return verdict
            worst = max(worst, verdict.error)
        projected = self._project(result)
        # Independent roundings of a row add up like a random walk, not like their bound (which
        # single elements stay far below). The second term is the rounding of the projection.
        bound = self._size * unit / len(self._vectors) ** 0.5 + self._size * 1e-13
        verdict = judge(projected, self._projected, bound)
        return replace(verdict, error=max(worst, verdict.error))

    def _project(self, result: npt.NDArray[Any]) -> Float64:
        """In pieces: a whole result in float64 may be larger than the memory that is left."""
        matrix = self._operation.as_matrix(self._problem, result)
        rows = max(1, _PIECE // max(1, matrix.shape[1]))
        pieces = (matrix[at : at + rows] for at in range(0, len(matrix), rows))
        return np.concatenate([piece.astype(np.float64) @ self._vectors for piece in pieces])


def _same(result: Float64, reference: Float64) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = (result == reference) | (np.isnan(result) & np.isnan(reference))
    return same


def worst_error(result: Float64, reference: Float64, bound: Float64) -> float:
    """The largest deviation in units of its bound."""
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.abs(result - reference) / bound
    return float(np.nanmax(np.where(_same(result, reference), 0.0, relative), initial=0.0))


def judge(result: Float64, reference: Float64, bound: Float64) -> Verdict:
    """Compare element by element; where both are NaN or the same infinity they agree."""
    with np.errstate(invalid="ignore"):
        error = np.abs(result - reference)
    bad = ~((error <= bound) | _same(result, reference))
    worst = worst_error(result, reference, bound)
    if not bad.any():
        return Verdict(True, error=worst)
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    where = ",".join(map(str, at))
    reason = (
        f"{int(bad.sum())} of {bad.size} elements are wrong, the first at [{where}]: "
        f"{result[at]:.9g} instead of {reference[at]:.9g}"
    )
    return Verdict(False, reason, worst)
