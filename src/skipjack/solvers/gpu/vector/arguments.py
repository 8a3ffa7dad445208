"""Arguments and block sizes that the solvers of vectors, rows and channels share."""

from __future__ import annotations

from skipjack import operations
from skipjack.core import DTYPES, Device, Problem, Value
from skipjack.gpu import KNOWN, Argument, Number, Pointer, Scratch
from skipjack.operations import RowOperation
from skipjack.solvers.gpu.triton import POINTER_RANGE, TRITON_TYPES, Constant, LaunchArgument, array

_LONG = 2**31
Constants = dict[str, Constant]


def row_operation(problem: Problem) -> RowOperation | None:
    """The operation of a problem if it normalises rows."""
    operation = operations.get(problem.operation)
    return operation if isinstance(operation, RowOperation) else None


def offset_options(problem: Problem, device: Device) -> dict[str, Constant]:
    """Options that tell AMD's compiler that 32-bit offsets suffice, if they do."""
    operation = operations.get(problem.operation)
    arrays = (*operation.inputs(problem), *operations.outputs(problem))
    largest = max(one.size for one in arrays) * item_bytes(problem)
    return {POINTER_RANGE: 32} if device.kind == "hip" and largest < _LONG else {}


def tensor_argument(name: str, problem: Problem, dtype: str = "") -> LaunchArgument:
    """An array of the problem as an argument."""
    return array(TRITON_TYPES[dtype or problem.dtype], Pointer(name))


def scratch_argument(name: str, elements: int, problem: Problem) -> LaunchArgument:
    """Scratch memory for partial results, in the accumulation type."""
    dtype = _computed_in(problem)
    return array(TRITON_TYPES[dtype], Scratch(name, elements * DTYPES[dtype].bytes))


def real_argument(value: float, problem: Problem) -> LaunchArgument:
    """A number in the accumulation type."""
    dtype = _computed_in(problem)
    return LaunchArgument(Argument(TRITON_TYPES[dtype]), Number(dtype, value))


def _computed_in(problem: Problem) -> str:
    return "f64" if problem.dtype == "f64" else "f32"


def is_narrow(problem: Problem) -> bool:
    """Whether results are rounded to 16 bits or fewer."""
    return DTYPES[problem.dtype].is_narrow


def item_bytes(problem: Problem) -> int:
    """Bytes of an element."""
    return DTYPES[problem.dtype].bytes


def warp_size(device: Device) -> int:
    """Number of threads of a warp."""
    limits = KNOWN.get(device.arch)
    return limits.warp if limits else (32 if device.kind == "cuda" else 64)


def as_int(value: Value) -> int:
    """A config value that must be an integer."""
    assert isinstance(value, int)
    return value


def powers_of_two(most: int) -> tuple[int, ...]:
    """Powers of two from 1 to the smallest that is at least `most`."""
    return tuple(2**at for at in range(power_of_two(most).bit_length()))


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()


def cdiv(size: int, each: int) -> int:
    """The quotient, rounded up."""
    return -(-size // each)
