"""The vector operations that are measured, each at footprints from the first cache to memory."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core import Problem, Tensor
from skipjack.operations import get, parse, tensors

KIB, MIB = 1 << 10, 1 << 20
FOOTPRINTS = (16 * KIB, 256 * KIB, MIB, 8 * MIB, 256 * MIB)
"""All arrays of a case together: first cache, second cache, its edge, third cache, memory."""
QUICK_FOOTPRINTS = (16 * KIB, MIB, 8 * MIB)
COLUMNS = 1024
"""A row is as long as a hidden layer of a transformer; for batchnorm an image of 32 x 32."""
_PROBE_BYTES = 8 * KIB

_TWO_INPUTS = ("add", "mul")
_ONE_INPUT = ("relu", "sqrt", "reciprocal", "exp", "tanh", "sigmoid", "gelu", "bias")
_NORMS = ("softmax", "layernorm")


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation whose problems grow with the number of rows."""

    name: str
    """In tables and on the command line."""
    key: str
    """With ``{rows}``, or ``{n}`` and ``{c}`` whose product is the number of rows."""
    arrays: int
    """Whole arrays that it reads or writes."""

    def problem(self, footprint: int) -> Problem:
        """The problem whose arrays take about so many bytes."""
        rows = max(1, round(footprint / (4 * COLUMNS * self.arrays)))
        first = 1 << ((rows.bit_length() - 1) // 2)
        return parse(self.key.format(rows=rows, n=first, c=max(1, rows // first)), "f32")

    @property
    def probe(self) -> Problem:
        """A problem of the same kind in half of the smallest first cache: arithmetic alone."""
        return self.problem(_PROBE_BYTES)


def _batchnorm(mode: str, arrays: int) -> Operation:
    key = f"batchnorm:n{{n}}c{{c}}h32w32/mode={mode}"
    return Operation(f"batchnorm-{mode}", key, arrays)


ALL = (
    *(Operation(name, f"{name}:{{rows}}x{COLUMNS}", 3) for name in _TWO_INPUTS),
    *(Operation(name, f"{name}:{{rows}}x{COLUMNS}", 2) for name in (*_ONE_INPUT, *_NORMS)),
    _batchnorm("train", 2),
    _batchnorm("infer", 2),
    _batchnorm("backward", 3),
    Operation("sum-last", f"sum:{{rows}}x{COLUMNS}/axis=1", 1),
    Operation("sum-first", f"sum:{{rows}}x{COLUMNS}/axis=0", 1),
    Operation("sum-all", f"sum:{{rows}}x{COLUMNS}", 1),
    Operation("sum-outer-inner", f"sum:{{n}}x{{c}}x{COLUMNS}/axis=0,2", 1),
    Operation("max-last", f"max:{{rows}}x{COLUMNS}/axis=1", 1),
)

QUICK = tuple(
    operation
    for operation in ALL
    if operation.name in ("add", "exp", "gelu", "softmax", "layernorm", "batchnorm-train")
    or operation.name.startswith("sum-")
)


def elements(problem: Problem) -> int:
    """Of the largest array: what the time of the arithmetic is in proportion to."""
    return max(tensor.size for tensor in tensors(problem))


def whole(problem: Problem) -> tuple[list[Tensor], Tensor | None]:
    """The arrays that make up the traffic: those read, and the one written if it is large."""
    most = elements(problem)
    operation = get(problem.operation)
    reads = [tensor for tensor in operation.inputs(problem) if 2 * tensor.size >= most]
    out = operation.output(problem)
    return reads, out if 2 * out.size >= most else None
