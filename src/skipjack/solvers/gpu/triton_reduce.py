"""Reductions over any axes on GPUs, as chains of stages that each reduce one axis.

The innermost reduced axis goes first, in its last stage the result is finished. Where there are
too few rows or columns to keep a GPU busy, an axis is cut into parts which another stage joins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from skipjack import operations
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.nest import Call, Constant, Load, Nest, Scalar
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.operations.reduce import Reduce
from skipjack.solvers.gpu.stage import Arguments, Given, Stage, StagedGpuSolver, size
from skipjack.solvers.gpu.vector_orders import column_sum_cost, row_sum_cost
from skipjack.solvers.gpu.vectors import (
    Constants,
    cdiv,
    lanes,
    power_of_two,
    powers_of_two,
    reach,
    real,
    scratch,
    tensor,
    whole,
)

_LONG = 2**31
_MOST_EACH = 64
"""Elements of a block for each thread: more would not fit into registers."""
_CHOICES = 7
"""Powers of two from the largest that makes sense."""
_HINTS = ("", "evict_first")


@dataclass(frozen=True, slots=True)
class Axis:
    """``x[outer, length, inner]``, of which the middle goes."""

    outer: int
    length: int
    inner: int

    @property
    def is_rows(self) -> bool:
        """Whether what is reduced is contiguous."""
        return self.inner == 1


@dataclass(frozen=True, slots=True)
class _Tile:
    """How a stage goes over its axis."""

    rows: int
    columns: int
    warps: int
    stages: int = 1
    parts: int = 1
    hint: str = ""


class TritonReduce(StagedGpuSolver):
    """``waves`` is how many programs parts may make for each unit, or 0 for no parts."""

    name = "triton_reduce"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Any reduction."""
        if not isinstance(operations.get(problem.operation), Reduce):
            return "it is not a reduction"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """The tile of the first stage, which reads the array."""
        axis = axes_of(_nest(problem))[0]
        cost = row_sum_cost if axis.is_rows else column_sum_cost
        threads = lanes(device)

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

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """The first as the config says, the others by rule: they read little."""
        return list(_Chain(problem, device).stages(config))


@dataclass(frozen=True, slots=True)
class _Chain:
    problem: Problem
    device: Device

    def stages(self, config: Config) -> Iterator[Stage]:
        axes = axes_of(_nest(self.problem))
        first = axes[0]
        rows, columns, waves = (whole(config[name]) for name in ("rows", "columns", "waves"))
        parts = _parts(first, rows, columns, waves, self.device) if waves else 1
        tile = _Tile(
            rows,
            columns,
            whole(config["warps"]),
            whole(config["stages"]),
            parts,
            str(config["hint"]),
        )
        if parts > 1:
            axes.insert(1, Axis(first.outer, parts, first.inner))
        source = tensor("x", self.problem)
        for at, axis in enumerate(axes):
            last = at == len(axes) - 1
            tile = tile if at == 0 else self._small(axis)
            left = axis.outer * tile.parts * axis.inner
            to = tensor("out", self.problem) if last else scratch(f"part{at}", left, self.problem)
            yield self._stage(at, last, axis, tile, source, to)
            source = to

    def _small(self, axis: Axis) -> _Tile:
        """A tile of about a thousand elements."""
        if axis.is_rows:
            columns = min(1024, power_of_two(axis.length))
            rows = min(1024 // columns, power_of_two(axis.outer))
        else:
            columns = min(64, power_of_two(axis.inner))
            rows = min(1024 // columns, power_of_two(axis.length))
        return _Tile(rows, columns, max(1, min(4, rows * columns // 256)))

    def _stage(
        self, at: int, last: bool, axis: Axis, tile: _Tile, source: Given, to: Given
    ) -> Stage:
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
        numbers: Arguments = {
            "chunk": size(chunk, long),
            "parts": size(tile.parts),
            "scale": real(scale, self.problem),
        }
        length: Arguments = {"length": size(axis.length, long)}
        if axis.is_rows:
            constants |= {
                "BLOCK": tile.columns,
                "LOOP": chunk > tile.columns,
            }
            sizes: Arguments = {"outer": size(axis.outer), **length}
            grid = cdiv(axis.outer, tile.rows) * tile.parts
        else:
            constants |= {"COLUMNS": tile.columns}
            sizes = {**length, "inner": size(axis.inner)}
            grid = cdiv(axis.inner, tile.columns) * tile.parts * axis.outer
        name = "rows" if axis.is_rows else "columns"
        options = reach(self.problem, self.device)
        given: Arguments = {"x": source, "out": to, **sizes, **numbers}
        return Stage(
            f"{name}{at}",
            "reduce",
            name,
            (grid,),
            given,
            constants,
            tile.warps,
            options=options,
        )


def axes_of(nest: Nest) -> list[Axis]:
    """What is reduced one after the other, the innermost first."""
    reduced = set(nest.reduction_loops)
    loops = list(nest.loops)
    found = []
    for at in range(len(loops) - 1, -1, -1):
        name, size = loops[at]
        if name in reduced:
            outer = prod(size for _, size in loops[:at])
            found.append(Axis(outer, size, prod(size for _, size in loops[at + 1 :])))
            del loops[at]
    return found


def _parts(axis: Axis, rows: int, columns: int, waves: int, device: Device) -> int:
    """For up to `waves` programs on every unit, of one block at least."""
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
    """The function of each element by name."""
    match body:
        case Load():
            return ""
        case Call("mul", (Load(), Load())):
            return "square"
        case Call(function, (Load(),)):
            return function
    raise AssertionError(f"no kernel reduces {body}")


def _finish(epilogue: Scalar) -> tuple[str, float]:
    """What becomes of the result, and by which factor."""
    match epilogue:
        case Call("mul", (_, Constant(factor))):
            return "scale", factor
        case Call("sqrt"):
            return "sqrt", 1.0
    return "", 1.0


def _powers(size: int, most: int) -> tuple[int, ...]:
    """Powers of two up to the one that holds `size`, the largest first."""
    return powers_of_two(min(most, size))[::-1][:_CHOICES]
