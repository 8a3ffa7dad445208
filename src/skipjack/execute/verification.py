"""Is the result right? Random inputs, poisoned outputs, guard pages, a float64 reference.

Above about a GFLOP a full reference would cost more than the search: then random projections of
the result and some full rows are checked instead.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from skipjack.core import Arrays, Problem, Projectable, Tensor, numpy_dtype
from skipjack.native import GuardedArray, poison
from skipjack.operations import (
    ErrorTerms,
    error_terms,
    get,
    magnitudes,
    outputs,
    references,
    tensor_dtype,
    tensors,
    without_overflow,
)

FULL_REFERENCE_FLOPS = 1e9
_PROJECTIONS = 4
_PIECE = 1 << 24
"""Elements of a large result that are converted at a time."""
_ERROR_SAMPLE = 1 << 14
"""Elements of a right result whose errors are computed, for the record."""
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Right, or wrong for a reason. `error` is the worst deviation in units of its tolerance."""

    right: bool
    reason: str = ""
    error: float = 0.0
    stray: bool = False
    """Whether it wrote outside of its arrays, so that this process cannot be trusted anymore."""


def storage_of(problem: Problem, tensor: Tensor) -> np.dtype[Any]:
    """The NumPy type in which a problem's array is stored."""
    return numpy_dtype(tensor_dtype(problem, tensor))


def draw_inputs(problem: Problem, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Random inputs in the operation's domain, the same for the same seed.

    They are drawn in float32, or in float64 for that type, and rounded to the stored type.
    """
    rng = np.random.default_rng(seed)
    return {
        tensor.name: draw(problem, tensor, tensor.shape, rng)
        for tensor in get(problem.operation).inputs(problem)
    }


def draw(
    problem: Problem, tensor: Tensor, shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[Any]:
    """Random elements of an input in this shape."""
    low, high = get(problem.operation).domain
    storage = storage_of(problem, tensor)
    wide = np.float64 if storage == np.float64 else np.float32
    drawn = rng.random(shape, wide)
    drawn *= high - low
    drawn += low
    return drawn.astype(storage, copy=False)


class Reference(Protocol):
    """The expected values of one output."""

    def compare(self, result: npt.NDArray[Any], tolerance_factor: float = 1.0) -> Verdict:
        """Check a result; `tolerance_factor` multiplies the tolerance."""
        ...


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
        self._inputs = inputs = draw_inputs(problem, seed)
        self._outputs = [tensor.name for tensor in outputs(problem)]
        self._place(
            {
                tensor.name: GuardedArray(tensor.shape, storage_of(problem, tensor), alignment)
                for tensor in tensors(problem)
            }
        )
        exact = {name: array.astype(np.float64) for name, array in inputs.items()}
        self._references = make_references(problem, exact, full_reference_flops)

    def _place(self, guarded: dict[str, GuardedArray]) -> None:
        self._guarded = guarded
        self.arrays: dict[str, npt.NDArray[Any]] = {
            name: place.array for name, place in guarded.items()
        }
        for name, array in self._inputs.items():
            self.arrays[name][...] = array
        self._broken = False

    def unaligned(self) -> Checker:
        """A checker on arrays that end at their guards or are unaligned, as users' arrays may be.

        Arrays that would be aligned even so begin 16 bytes earlier, as NumPy's often do.
        """
        other = copy.copy(self)
        other._place({tensor.name: self._at_the_edge(tensor) for tensor in tensors(self.problem)})
        return other

    def _at_the_edge(self, tensor: Tensor) -> GuardedArray:
        storage = storage_of(self.problem, tensor)
        item = storage.itemsize
        return GuardedArray(tensor.shape, storage, item, 0 if tensor.size * item % 64 else 16)

    def prepare(self) -> None:
        """Poison the outputs before a run, and restore what an earlier run destroyed."""
        if self._broken:
            for guarded in self._guarded.values():
                guarded.restore()
            for name, array in self._inputs.items():
                self.arrays[name][...] = array
            self._broken = False
        for name in self._outputs:
            poison(self.arrays[name])

    def verdict(self, tolerance_factor: float = 1.0) -> Verdict:
        """Check the arrays after a run; `tolerance_factor` multiplies the tolerance."""
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
            verdict = reference.compare(self.arrays[name], tolerance_factor)
            if not verdict.right:
                where = f"{name}: " if len(self._outputs) > 1 else ""
                return replace(verdict, reason=where + verdict.reason)
            worst = max(worst, verdict.error)
        return Verdict(True, error=worst)

    def output_digest(self) -> str:
        """The digest of the outputs after a run."""
        return digest_of_outputs({name: self.arrays[name] for name in self._outputs})


def digest_of_outputs(outputs: Arrays) -> str:
    """SHA-256 of arrays with their names and shapes; equal for equal bits."""
    digest = hashlib.sha256()
    for name, array in sorted(outputs.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def make_references(
    problem: Problem, exact: Arrays, full_reference_flops: float = FULL_REFERENCE_FLOPS
) -> dict[str, Reference]:
    """The references of all outputs, computed from inputs in float64."""
    operation, written = get(problem.operation), outputs(problem)
    large = operation.flops(problem) > full_reference_flops and len(written) == 1
    if large and isinstance(operation, Projectable) and operation.can_project(problem):
        return {written[0].name: _Projected(operation, problem, exact)}
    scales, exacts = magnitudes(problem, exact), references(problem, exact)
    found: dict[str, Reference] = {}
    for tensor in written:
        name, terms = tensor.name, error_terms(problem, tensor)
        kind = _Rounded if terms.rounds else _Full
        found[name] = kind(exacts[name], scales[name], terms, storage_of(problem, tensor))
    return found


class _Full:
    """The full reference, compared element by element.

    A right result is recognized by two comparisons in its own precision; errors are computed only
    if one fails, since that takes ten times as long.
    """

    def __init__(
        self,
        reference: npt.NDArray[Any],
        scale: npt.NDArray[Any],
        terms: ErrorTerms,
        storage: np.dtype[Any],
    ) -> None:
        self._reference, self._bound = reference, terms.bound(reference, scale)
        self._least = (reference - self._bound).astype(storage)
        self._most = (reference + self._bound).astype(storage)
        self._some = slice(None, None, max(1, reference.size // _ERROR_SAMPLE))

    def compare(self, result: npt.NDArray[Any], tolerance_factor: float = 1.0) -> Verdict:
        bound = self._bound if tolerance_factor == 1.0 else self._bound * tolerance_factor
        if not self._within(result, bound, exactly=tolerance_factor == 1.0):
            return judge(result.astype(np.float64), self._reference, bound)
        arrays = (result, self._reference, bound)
        some = [array.ravel()[self._some].astype(np.float64) for array in arrays]
        return Verdict(True, error=worst_error(*some))

    def _within(self, result: npt.NDArray[Any], bound: Float64, *, exactly: bool) -> bool:
        least, most = self._least, self._most
        if not exactly:
            least, most = self._reference - bound, self._reference + bound
        return bool((result >= least).all() and (result <= most).all())


class _Rounded:
    """The full reference of a result that is rounded when stored, and may become infinite."""

    def __init__(
        self,
        reference: npt.NDArray[Any],
        scale: npt.NDArray[Any],
        terms: ErrorTerms,
        storage: np.dtype[Any],
    ) -> None:
        self._reference, self._scale = reference, scale
        self._terms, self._storage = terms, storage

    def compare(self, result: npt.NDArray[Any], tolerance_factor: float = 1.0) -> Verdict:
        bound = self._terms.bound(self._reference, self._scale, tolerance_factor)
        wide = without_overflow(result.astype(np.float64), self._reference, bound, self._storage)
        return judge(wide, self._reference, bound)


class _Projected:
    """Projections on random sign vectors, which find any wrong element, and samples of rows."""

    def __init__(self, operation: Projectable, problem: Problem, exact: Arrays) -> None:
        self._operation, self._problem = operation, problem
        self._terms = error_terms(problem, get(problem.operation).output(problem))
        rng = np.random.default_rng(1)
        nothing = np.broadcast_to(np.float32(0.0), get(problem.operation).output(problem).shape)
        columns = operation.as_matrix(problem, nothing).shape[1]
        self._vectors = rng.choice([-1.0, 1.0], (columns, _PROJECTIONS))
        self._projected, self._size = operation.project(problem, exact, self._vectors)
        self._samples = operation.sampled(problem, exact, rng)

    def compare(self, result: npt.NDArray[Any], tolerance_factor: float = 1.0) -> Verdict:
        worst = 0.0
        for sample in self._samples:
            part = result[sample.place].astype(np.float64)
            bound = self._terms.bound(sample.exact, sample.scale, tolerance_factor)
            verdict = judge(part, sample.exact, bound)
            if not verdict.right:
                return verdict
            worst = max(worst, verdict.error)
        projected, lengths = self._project(result)
        # Independent rounding errors of a row add up like a random walk, not like their bounds,
        # which single elements stay far below. The second term is the rounding of the projection.
        unit = self._terms.computing * tolerance_factor
        bound = self._size * unit / len(self._vectors) ** 0.5 + self._size * 1e-13
        if self._terms.rounds:
            # Storing an element has an error of 0.2 eps on average: this is ten sigma.
            bound = bound + 2.0 * self._terms.storing * lengths
        verdict = judge(projected, self._projected, bound)
        return replace(verdict, error=max(worst, verdict.error))

    def _project(self, result: npt.NDArray[Any]) -> tuple[Float64, Float64]:
        """The projections of each row and its length, which is 0 if it is not finite.

        It is computed in parts: a full result in float64 may not fit into memory.
        """
        matrix = self._operation.as_matrix(self._problem, result)
        rows = max(1, _PIECE // max(1, matrix.shape[1]))
        projected, lengths = [], []
        for at in range(0, len(matrix), rows):
            piece = matrix[at : at + rows].astype(np.float64)
            projected.append(piece @ self._vectors)
            if self._terms.rounds:
                lengths.append(np.sqrt(np.einsum("ij,ij->i", piece, piece))[:, None])
        long = np.concatenate(lengths) if lengths else np.zeros((1, 1))
        return np.concatenate(projected), np.where(np.isfinite(long), long, 0.0)


def _same(result: Float64, reference: Float64) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = (result == reference) | (np.isnan(result) & np.isnan(reference))
    return same


def worst_error(result: Float64, reference: Float64, bound: Float64) -> float:
    """The largest deviation in units of its bound."""
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.abs(result - reference) / bound
    return float(np.nanmax(np.where(_same(result, reference), 0.0, relative), initial=0.0))


def judge(result: Float64, reference: Float64, bound: Float64) -> Verdict:
    """Compare element by element; two NaNs and equal infinities agree."""
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
