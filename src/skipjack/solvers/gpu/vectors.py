"""What the solvers of vectors, rows and channels share: their arguments, and sizes of blocks."""

from __future__ import annotations

from skipjack import operations
from skipjack.core.config import Value
from skipjack.core.device import Device
from skipjack.core.dtypes import DTYPES
from skipjack.core.problem import Problem
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Number, Pointer, Scratch
from skipjack.operations.normalization import RowOperation
from skipjack.solvers.gpu.compiling import POINTER_RANGE
from skipjack.solvers.gpu.product import TRITON_TYPES
from skipjack.solvers.gpu.spec import Constant
from skipjack.solvers.gpu.stage import Given, array

_LONG = 2**31
Constants = dict[str, Constant]


def row_operation(problem: Problem) -> RowOperation | None:
    """The operation of a problem if it normalises rows."""
    operation = operations.get(problem.operation)
    return operation if isinstance(operation, RowOperation) else None


def reach(problem: Problem, device: Device) -> dict[str, Constant]:
    """Says to AMD's compiler that offsets of 32 bits are enough, where they are."""
    operation = operations.get(problem.operation)
    arrays = (*operation.inputs(problem), *operations.outputs(problem))
    largest = max(one.size for one in arrays) * item_bytes(problem)
    return {POINTER_RANGE: 32} if device.kind == "hip" and largest < _LONG else {}


def tensor(name: str, problem: Problem, dtype: str = "") -> Given:
    """An array of the problem."""
    return array(TRITON_TYPES[dtype or problem.dtype], Pointer(name))


def scratch(name: str, elements: int, problem: Problem) -> Given:
    """Memory for partial results, in the type that is computed in."""
    dtype = _computed_in(problem)
    return array(TRITON_TYPES[dtype], Scratch(name, elements * DTYPES[dtype].bytes))


def real(value: float, problem: Problem) -> Given:
    """A number in the type that is computed in."""
    dtype = _computed_in(problem)
    return Given(Argument(TRITON_TYPES[dtype]), Number(dtype, value))


def _computed_in(problem: Problem) -> str:
    return "f64" if problem.dtype == "f64" else "f32"


def is_narrow(problem: Problem) -> bool:
    """Whether results are rounded to 16 bits or fewer."""
    return DTYPES[problem.dtype].is_narrow


def item_bytes(problem: Problem) -> int:
    """Of an element."""
    return DTYPES[problem.dtype].bytes


def lanes(device: Device) -> int:
    """Threads of a warp."""
    limits = KNOWN.get(device.arch)
    return limits.warp if limits else (32 if device.kind == "cuda" else 64)


def whole(value: Value) -> int:
    """A setting that is a whole number."""
    assert isinstance(value, int)
    return value


def powers_of_two(most: int) -> tuple[int, ...]:
    """From 1 to the smallest that holds so many."""
    return tuple(2**at for at in range(power_of_two(most).bit_length()))


def power_of_two(size: int) -> int:
    """The smallest that holds so many."""
    return 1 << max(0, size - 1).bit_length()


def cdiv(size: int, each: int) -> int:
    """How many of `each` hold so many."""
    return -(-size // each)
