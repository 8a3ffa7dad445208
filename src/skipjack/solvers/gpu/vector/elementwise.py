"""Elementwise operations on GPUs, with any broadcast: ``gelu:8192x8192``, ``add:64x1x9/y=7x1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from skipjack import operations
from skipjack.core import (
    Access,
    Call,
    Config,
    Device,
    Nest,
    Parameter,
    ParameterSpace,
    Problem,
    Space,
)
from skipjack.gpu import Pointer
from skipjack.operations import Elementwise
from skipjack.solvers.gpu.triton import (
    TRITON_TYPES,
    KernelStage,
    LaunchArgument,
    LaunchArguments,
    StagedGpuSolver,
    array,
    integer,
)
from skipjack.solvers.gpu.vector.arguments import (
    Constants,
    as_int,
    cdiv,
    is_narrow,
    item_bytes,
    offset_options,
    power_of_two,
    powers_of_two,
    tensor_argument,
    warp_size,
)
from skipjack.solvers.gpu.vector.estimate import broadcast_cost, flat_cost

_MODULE = "skipjack.solvers.gpu.kernels.vector.elementwise"
_VECTOR_BYTES = 16
_AXES = 5
"""Axes of the rows of one launch; a nest with more axes needs several launches."""
_MOST_LAUNCHES = 4096
_HINTS = ("", "evict_first")


class TritonElementwise(StagedGpuSolver):
    """Blocks of one long array, or tiles of rows and columns if operands are broadcast.

    ``vectors`` is the number of 16-byte accesses of a thread to each array.
    """

    name = "triton_elementwise"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, and broadcasts that would need too many launches."""
        if not isinstance(operations.get(problem.operation), Elementwise):
            return "it is not an elementwise operation"
        loops = _nest(problem).loops
        if prod(size for _, size in loops[: -_AXES - 1]) > _MOST_LAUNCHES:
            return f"its operands are broadcast along more than {_AXES + 1} alternating axes"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """Blocks, warps, and the columns of tiles."""
        nest = _nest(problem)
        parameters = [
            Parameter("vectors", (1, 2, 4, 8)),
            Parameter("warps", (2, 4, 8, 16)),
            Parameter("hint", _HINTS),
        ]
        if _is_flat(nest):
            return ParameterSpace(
                parameters, [], lambda config: flat_cost(problem, device, config), True
            )
        columns = nest.loops[-1][1]
        widest = min(8192, power_of_two(columns))
        wide = tuple(size for size in powers_of_two(widest) if widest // 32 <= size)
        each, threads = _VECTOR_BYTES // item_bytes(problem), warp_size(device)

        def is_filled(vectors: int, warps: int, columns: int) -> bool:
            return columns <= vectors * each * threads * warps

        return ParameterSpace(
            [*parameters, Parameter("columns", wide[::-1])],
            [is_filled],
            lambda config: broadcast_cost(problem, device, config, columns),
            True,
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The launches, usually one."""
        nest = _nest(problem)
        assert isinstance(nest.body, Call)
        each = _VECTOR_BYTES // item_bytes(problem)
        warps = as_int(config["warps"])
        elements = as_int(config["vectors"]) * each * warp_size(device) * warps
        constants: Constants = {"NAME": nest.body.function, "HINT": str(config["hint"])}
        options = offset_options(problem, device)
        if _is_flat(nest):
            constants |= {"NARROW": is_narrow(problem), "BLOCK": elements}
            grid = (cdiv(nest.output.tensor.size, elements),)
            given = _flat(problem, nest)
            return [
                KernelStage("flat", _MODULE, "flat", grid, given, constants, warps, options=options)
            ]
        wide = as_int(config["columns"])
        high = max(1, elements // wide)
        return [
            KernelStage(
                "broadcast",
                _MODULE,
                "broadcast",
                (tile.programs(high, wide),),
                tile.given(),
                {**constants, **tile.constants(high, wide)},
                warps,
                options=options,
            )
            for tile in _tiles(problem, nest)
        ]


def _nest(problem: Problem) -> Nest:
    operation = operations.get(problem.operation)
    assert isinstance(operation, Elementwise)
    return operation.nest(problem)


def _is_flat(nest: Nest) -> bool:
    """Whether all arrays have the same shape and are contiguous."""
    loops = [loop for loop, _ in nest.loops]
    return len(loops) == 1 and all(access.stride(loops[0]) == 1 for access in nest.inputs)


def _flat(problem: Problem, nest: Nest) -> LaunchArguments:
    names = [access.tensor.name for access in nest.inputs]
    return {
        "x": tensor_argument(names[0], problem),
        "y": tensor_argument(names[1], problem) if len(names) > 1 else None,
        "out": tensor_argument("out", problem),
        "n": integer(nest.output.tensor.size),
    }


@dataclass(frozen=True, slots=True)
class _Tile:
    """A launch of rows and columns; further leading axes of a nest are separate launches."""

    problem: Problem
    nest: Nest
    starts: tuple[int, ...]
    """Offsets of this launch in x, y and the output, in elements."""

    @property
    def loops(self) -> tuple[tuple[str, int], ...]:
        return self.nest.loops[-_AXES - 1 :]

    @property
    def rows(self) -> int:
        return prod(length for _, length in self.loops[:-1])

    def programs(self, high: int, wide: int) -> int:
        return cdiv(self.rows, high) * cdiv(self.loops[-1][1], wide)

    def given(self) -> LaunchArguments:
        *outer, (_, columns) = self.loops
        lengths = [1] * (_AXES - len(outer)) + [length for _, length in outer]
        x, y = self.nest.inputs
        return {
            "x": self._memory(0),
            "y": self._memory(1),
            "out": self._memory(2),
            "rows": integer(self.rows),
            "columns": integer(columns),
            **{axis: integer(length) for axis, length in zip("abcd", lengths[1:], strict=True)},
            **self._strides(x, "x"),
            **self._strides(y, "y"),
        }

    def constants(self, high: int, wide: int) -> Constants:
        *outer, (inner, _) = self.loops
        x, y = self.nest.inputs
        return {
            "AXES": 1 if len(outer) <= 1 else _AXES,
            "X_ROW": self._has_rows(x),
            "X_COLUMN": x.stride(inner) == 1,
            "Y_ROW": self._has_rows(y),
            "Y_COLUMN": y.stride(inner) == 1,
            "ROWS": high,
            "COLUMNS": wide,
        }

    def _has_rows(self, access: Access) -> bool:
        return any(access.stride(loop) for loop, _ in self.loops[:-1])

    def _strides(self, access: Access, letter: str) -> LaunchArguments:
        strides = [access.stride(loop) for loop, _ in self.loops[:-1]]
        padded = [0] * (_AXES - len(strides)) + strides
        return {
            f"{letter}{axis}": integer(stride) for axis, stride in zip("abcde", padded, strict=True)
        }

    def _memory(self, at: int) -> LaunchArgument:
        access = (*self.nest.inputs, self.nest.output)[at]
        offset = self.starts[at] * item_bytes(self.problem)
        many = len(self.nest.loops) > _AXES + 1
        type_ = TRITON_TYPES[self.problem.dtype]
        return array(type_, Pointer(access.tensor.name, offset), aligned=not many)


def _tiles(problem: Problem, nest: Nest) -> list[_Tile]:
    leading = nest.loops[: -_AXES - 1]
    accesses = (*nest.inputs, nest.output)
    return [
        _Tile(
            problem,
            nest,
            tuple(
                sum(step * access.stride(loop) for step, (loop, _) in zip(at, leading, strict=True))
                for access in accesses
            ),
        )
        for at in product(*(range(size) for _, size in leading))
    ]
