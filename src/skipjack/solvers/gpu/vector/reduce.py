"""Reductions over any axes on GPUs, as chains of stages that each reduce one axis.

The innermost reduced axis comes first, and the last stage finishes the result. If there are too few
rows or columns to keep a GPU busy, an axis is split into parts, which another stage combines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from skipjack import operations
from skipjack.core import (
    Call,
    Config,
    Constant,
    Device,
    Load,
    Nest,
    Parameter,
    ParameterSpace,
    Problem,
    Scalar,
    Space,
)
from skipjack.operations import Reduce
from skipjack.solvers.gpu.triton import (
    KernelStage,
    LaunchArgument,
    LaunchArguments,
    StagedGpuSolver,
    integer,
)
from skipjack.solvers.gpu.vector.arguments import (
    Constants,
    as_int,
    cdiv,
    offset_options,
    power_of_two,
    powers_of_two,
    real_argument,
    scratch_argument,
    tensor_argument,
    warp_size,
)
from skipjack.solvers.gpu.vector.estimate import column_sum_cost, row_sum_cost

_LONG = 2**31
_MOST_EACH = 64
"""Most elements of a block for each thread: more would not fit in registers."""
_CHOICES = 7
"""Number of powers of two, counted down from the largest useful one."""
_HINTS = ("", "evict_first")


@dataclass(frozen=True, slots=True)
class ReducedAxis:
    """``x[outer, length, inner]``, whose middle axis is reduced."""

    outer: int
    length: int
    inner: int

    @property
    def is_rows(self) -> bool:
        """Whether the reduced axis is contiguous."""
        return self.inner == 1


@dataclass(frozen=True, slots=True)
class _Tile:
    """The tile of a stage."""

    rows: int
    columns: int
    warps: int
    stages: int = 1
    parts: int = 1
    hint: str = ""


class TritonReduce(StagedGpuSolver):
    """``waves`` is the number of programs for each unit that parts may yield; 0: no parts."""

    name = "triton_reduce"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations."""
        if not isinstance(operations.get(problem.operation), Reduce):
            return "it is not a reduction"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """The tile of the first stage, which reads the array."""
        axis = reduced_axes(_nest(problem))[0]
        cost = row_sum_cost if axis.is_rows else column_sum_cost
        threads = warp_size(device)

        def fits(rows: int, columns: int, warps: int) -> bool:
            tile = max(rows * columns, threads)
            return threads * warps <= tile <= _MOST_EACH * threads * warps

        def is_needed(waves: int, rows: int, columns: int) -> bool:
            return not waves or _parts(axis, rows, columns, waves, device) > 1

        high, wide = (axis.outer, axis.length) if axis.is_rows else (axis.length, axis.inner)
        parameters = [
            Parameter("rows", _powers(high, 32 if axis.is_rows else 128)),
            Parameter("columns", _powers(wide, 16384 if axis.is_rows else 1024)),
            Parameter("warps", (1, 2, 4, 8, 16)),
            Parameter("stages", (1, 3) if axis.is_rows else (1, 3, 4)),
            Parameter("waves", (0, 1, 2, 4, 8)),
            Parameter("hint", _HINTS),
        ]
        return ParameterSpace(
            parameters, [fits, is_needed], lambda config: cost(problem, device, config, axis), True
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The first stage follows the config, the others a fixed rule, because they read little."""
        return list(_Chain(problem, device).stages(config))


@dataclass(frozen=True, slots=True)
class _Chain:
    problem: Problem
    device: Device

    def stages(self, config: Config) -> Iterator[KernelStage]:
        axes = reduced_axes(_nest(self.problem))
        first = axes[0]
        rows, columns, waves = (as_int(config[name]) for name in ("rows", "columns", "waves"))
        parts = _parts(first, rows, columns, waves, self.device) if waves else 1
        tile = _Tile(
            rows,
            columns,
            as_int(config["warps"]),
            as_int(config["stages"]),
            parts,
            str(config["hint"]),
        )
        if parts > 1:
            axes.insert(1, ReducedAxis(first.outer, parts, first.inner))
        source = tensor_argument("x", self.problem)
        for at, axis in enumerate(axes):
            last = at == len(axes) - 1
            tile = tile if at == 0 else self._small(axis)
            left = axis.outer * tile.parts * axis.inner
            to = (
                tensor_argument("out", self.problem)
                if last
                else scratch_argument(f"part{at}", left, self.problem)
            )
            yield self._stage(at, last, axis, tile, source, to)
            source = to

    def _small(self, axis: ReducedAxis) -> _Tile:
        """A tile of about a thousand elements for a later stage."""
        if axis.is_rows:
            columns = min(1024, power_of_two(axis.length))
            rows = min(1024 // columns, power_of_two(axis.outer))
        else:
            columns = min(64, power_of_two(axis.inner))
            rows = min(1024 // columns, power_of_two(axis.length))
        return _Tile(rows, columns, max(1, min(4, rows * columns // 256)))

    def _stage(
        self,
        at: int,
        last: bool,
        axis: ReducedAxis,
        tile: _Tile,
        source: LaunchArgument,
        to: LaunchArgument,
    ) -> KernelStage:
        nest = _nest(self.problem)
        finish, scale = _finish(nest.epilogue) if last else ("", 1.0)
        constants: Constants = {
            "NAME": nest.reduction,
            "ELEMENT": _element(nest.body) if at == 0 else "",
            "FINISH": finish,
            "STAGES": tile.stages,
            "HINT": tile.hint,
            "ROWS": tile.rows,
        }
        step = tile.columns if axis.is_rows else tile.rows
        chunk = cdiv(cdiv(axis.length, tile.parts), step) * step
        long = axis.length + chunk >= _LONG
        numbers: LaunchArguments = {
            "chunk": integer(chunk, long),
            "parts": integer(tile.parts),
            "scale": real_argument(scale, self.problem),
        }
        length: LaunchArguments = {"length": integer(axis.length, long)}
        if axis.is_rows:
            constants |= {
                "BLOCK": tile.columns,
                "LOOP": chunk > tile.columns,
            }
            sizes: LaunchArguments = {"outer": integer(axis.outer), **length}
            grid = cdiv(axis.outer, tile.rows) * tile.parts
        else:
            constants |= {"COLUMNS": tile.columns}
            sizes = {**length, "inner": integer(axis.inner)}
            grid = cdiv(axis.inner, tile.columns) * tile.parts * axis.outer
        name = "rows" if axis.is_rows else "columns"
        options = offset_options(self.problem, self.device)
        given: LaunchArguments = {"x": source, "out": to, **sizes, **numbers}
        return KernelStage(
            f"{name}{at}",
            "skipjack.solvers.gpu.kernels.vector.reduce",
            name,
            (grid,),
            given,
            constants,
            tile.warps,
            options=options,
        )


def reduced_axes(nest: Nest) -> list[ReducedAxis]:
    """The reduced axes in order, the innermost first."""
    reduced = set(nest.reduction_loops)
    loops = list(nest.loops)
    found = []
    for at in range(len(loops) - 1, -1, -1):
        name, size = loops[at]
        if name in reduced:
            outer = prod(size for _, size in loops[:at])
            found.append(ReducedAxis(outer, size, prod(size for _, size in loops[at + 1 :])))
            del loops[at]
    return found


def _parts(axis: ReducedAxis, rows: int, columns: int, waves: int, device: Device) -> int:
    """The number of parts for up to `waves` programs on each unit, of at least one block each."""
    if axis.is_rows:
        programs, blocks = cdiv(axis.outer, rows), cdiv(axis.length, columns)
    else:
        programs, blocks = cdiv(axis.inner, columns) * axis.outer, cdiv(axis.length, rows)
    wanted = max(1, min(blocks, device.units * waves // programs))
    # No part may be empty.
    return cdiv(blocks, cdiv(blocks, wanted))


def _nest(problem: Problem) -> Nest:
    operation = operations.get(problem.operation)
    assert isinstance(operation, Reduce)
    return operation.nest(problem)


def _element(body: Scalar) -> str:
    """The name of the function that is applied to each element."""
    match body:
        case Load():
            return ""
        case Call("mul", (Load(), Load())):
            return "square"
        case Call(function, (Load(),)):
            return function
    raise AssertionError(f"no kernel reduces {body}")


def _finish(epilogue: Scalar) -> tuple[str, float]:
    """The function that is applied to the result, and its factor."""
    match epilogue:
        case Call("mul", (_, Constant(factor))):
            return "scale", factor
        case Call("sqrt"):
            return "sqrt", 1.0
    return "", 1.0


def _powers(size: int, most: int) -> tuple[int, ...]:
    """Powers of two up to the smallest that is at least `integer`, the largest first."""
    return powers_of_two(min(most, size))[::-1][:_CHOICES]
