"""Solvers whose configs are chains of kernels, each written together with its launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skipjack import operations
from skipjack.core.config import Config, Value
from skipjack.core.device import Device
from skipjack.core.dtypes import DTYPES
from skipjack.core.problem import Problem
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Launch, Number, Pointer, Scratch, Step, launch
from skipjack.solvers.gpu.compiling import POINTER_RANGE
from skipjack.solvers.gpu.product import TRITON_TYPES, number
from skipjack.solvers.gpu.spec import Constant, KernelSpec
from skipjack.solvers.gpu.triton_solver import TritonSolver

_KERNELS = "skipjack.solvers.gpu.kernels"
_LONG = 2**31


@dataclass(frozen=True, slots=True)
class Memory:
    """A tensor or scratch, and the type of its elements by the short name."""

    place: Pointer | Scratch
    dtype: str
    aligned: bool = True
    """Whether it begins at a whole 16 bytes."""

    @property
    def argument(self) -> Argument:
        """As a kernel's."""
        return Argument(f"*{TRITON_TYPES[self.dtype]}", 16 if self.aligned else 1)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number that is passed in 64 bits where `long`."""

    value: int
    long: bool = False


Constants = dict[str, Constant]
Given = Memory | Whole | int | float | None


@dataclass(frozen=True, slots=True)
class Stage:
    """A kernel and its launch."""

    spec: KernelSpec
    launch: Launch


@dataclass(frozen=True, slots=True)
class Function:
    """A Triton function of this package and how it is compiled."""

    module: str
    name: str
    constants: Mapping[str, Constant]
    warps: int
    options: Mapping[str, Constant] = field(default_factory=dict)


def stage(name: str, function: Function, grid: int, given: Mapping[str, Given]) -> Stage:
    """A stage from what each parameter is given, in order; None is for what is not there.

    Numbers that are no whole ones are in float64 where the memory given is, else in float32.
    """
    memory = [one for one in given.values() if isinstance(one, Memory)]
    real = "f64" if any(one.dtype == "f64" for one in memory) else "f32"
    arguments: dict[str, Argument] = {}
    values: list[Pointer | Scratch | Number] = []
    absent: dict[str, Constant] = {}
    for parameter, one in given.items():
        if one is None:
            absent[parameter] = None
            continue
        argument, value = _argument(one, real)
        arguments[parameter] = argument
        values.append(value)
    spec = KernelSpec(
        name,
        f"{_KERNELS}.{function.module}",
        function.name,
        arguments,
        {**absent, **function.constants},
        function.warps,
        options=function.options,
    )
    return Stage(spec, launch(name, (grid,), values))


def _argument(
    one: Memory | Whole | int | float, real: str
) -> tuple[Argument, Pointer | Scratch | Number]:
    if isinstance(one, Memory):
        return one.argument, one.place
    if isinstance(one, float):
        return Argument(TRITON_TYPES[real]), Number(real, one)
    value, long = (one.value, one.long) if isinstance(one, Whole) else (one, False)
    argument = number(value)
    if long or value >= _LONG:
        argument = Argument("i64", argument.divisible)
    return argument, Number(argument.type, value)


class StagedSolver(TritonSolver):
    """Derive from it and say which stages a config has."""

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """In the order of their launches."""
        raise NotImplementedError

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """Each kernel once."""
        stages = self.stages(problem, device, config)
        return list({one.spec.name: one.spec for one in stages}.values())

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """The launches."""
        return [one.launch for one in self.stages(problem, device, config)]


def reach(problem: Problem, device: Device) -> dict[str, Constant]:
    """Says to AMD's compiler that offsets of 32 bits are enough, where they are."""
    operation = operations.get(problem.operation)
    arrays = (*operation.inputs(problem), *operations.outputs(problem))
    largest = max(array.size for array in arrays) * item_bytes(problem)
    return {POINTER_RANGE: 32} if device.kind == "hip" and largest < _LONG else {}


def tensor(name: str, problem: Problem, dtype: str = "") -> Memory:
    """An array of the problem."""
    return Memory(Pointer(name), dtype or problem.dtype)


def scratch(name: str, elements: int, problem: Problem) -> Memory:
    """Memory for partial results, in the type that is computed in."""
    dtype = "f64" if problem.dtype == "f64" else "f32"
    return Memory(Scratch(name, elements * DTYPES[dtype].bytes), dtype)


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
