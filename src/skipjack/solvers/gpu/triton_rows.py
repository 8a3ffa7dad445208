"""Softmax, logsoftmax, layer norm and RMS norm on GPUs: rows in registers, or in blocks.

The gradients of the first two are computed in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack import operations
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.solvers.gpu.stage import Arguments, Stage, StagedGpuSolver, size
from skipjack.solvers.gpu.vector_orders import rows_cost
from skipjack.solvers.gpu.vectors import (
    Constants,
    cdiv,
    lanes,
    power_of_two,
    powers_of_two,
    reach,
    real,
    row_operation,
    tensor,
    whole,
)

_LONGEST = 2**31
_WHOLE = 32768
"""Longer rows do not fit into the registers of a block."""
_HINTS = ("", "evict_first")


class TritonRows(StagedGpuSolver):
    """Rows of a power of two are held as a whole, or gone over twice in shorter blocks.

    The length of a row is a constant of the kernel that holds it. ``resident`` programs on each
    unit go over all rows, or 0 for one program for every few rows; ``stages`` is how far ahead
    these load. ``registers`` limits those of a thread, so that more programs run at once.
    """

    name = "triton_rows"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Any normalisation of rows."""
        operation = row_operation(problem)
        if operation is None:
            return "it is not a normalisation of rows"
        if not operation.gpu_rows:
            return f"no kernel for rows computes {operation.name}"
        if problem.shape[-1] >= _LONGEST:
            return f"its rows have {_LONGEST} elements or more"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """Small: some dozens to some hundreds of configs."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        block, threads = power_of_two(columns), lanes(device)
        most = 128 if problem.dtype != "f64" else 32

        def fits(rows: int, columns: int, warps: int) -> bool:
            return threads * warps <= max(rows * columns, threads) <= most * threads * warps

        def is_whole(rows: int, columns: int, resident: int) -> bool:
            return columns == block or (rows == 1 and not resident)

        def loads_ahead(columns: int, resident: int, stages: int) -> bool:
            return stages == 1 or bool(resident) or columns < block

        def leaves_room(rows: int, columns: int, warps: int, registers: int) -> bool:
            return not registers or 2 * rows * columns <= registers * threads * warps

        def is_a_block(warps: int) -> bool:
            return warps * threads <= 1024

        blocks = [block] if block <= _WHOLE else []
        blocks += [size for size in (16384, 8192, 4096, 2048, 1024) if size <= block // 2]
        parameters = [
            Parameter("rows", powers_of_two(min(count, 32))),
            Parameter("columns", tuple(blocks)),
            Parameter("warps", (1, 2, 4, 8, 16, 32)),
            Parameter("resident", (0, 1, 2, 3, 4, 8)),
            Parameter("stages", (1, 2, 3)),
            Parameter("registers", (0, 64, 40) if device.kind == "cuda" else (0,)),
            Parameter("hint", _HINTS),
        ]
        return ParameterSpace(
            parameters,
            [fits, is_whole, loads_ahead, leaves_room, is_a_block],
            lambda config: rows_cost(problem, device, config),
            True,
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """One launch."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        rows, block, resident = (whole(config[name]) for name in ("rows", "columns", "resident"))
        module, given, sizes = _given(problem)
        operation = row_operation(problem)
        assert operation is not None, "others are refused"
        constants: Constants = {
            "NAME": operation.gpu_rows,
            "BLOCK": block,
            "STAGES": whole(config["stages"]),
            "HINT": str(config["hint"]),
        }
        warps, options = whole(config["warps"]), reach(problem, device)
        if config["registers"]:
            options["maxnreg"] = whole(config["registers"])
        if block < columns:
            given |= sizes
            return [
                Stage("long", module, "long", (count,), given, constants, warps, options=options)
            ]
        groups = cdiv(count, rows)
        constants |= {"ROWS": rows, "EVEN": block == columns, "PERSISTENT": bool(resident)}
        grid = min(groups, device.units * resident) if resident else groups
        given |= {"count": size(count), **sizes}
        return [Stage("whole", module, "whole", (grid,), given, constants, warps, options=options)]


def _given(problem: Problem) -> tuple[str, Arguments, Arguments]:
    """The module of the kernel, its arrays and its sizes."""
    columns = problem.shape[-1]
    names = [array.name for array in operations.get(problem.operation).inputs(problem)]
    if "dy" in names:
        arrays = {name: tensor(name, problem) for name in (*names, "out")}
        return "gradients.rows", {**arrays}, {"columns": size(columns)}
    given: Arguments = {
        name: tensor(name, problem) if name in names else None for name in ("x", "gamma", "beta")
    }
    eps = float(dict(problem.attributes).get("eps", "0"))
    written = {one.name: one.dtype for one in operations.outputs(problem)}
    for name in ("out", "mean", "invstd"):
        given[name] = tensor(name, problem, written[name]) if name in written else None
    sizes: Arguments = {
        "columns": size(columns),
        "share": real(1.0 / columns, problem),
        "eps": real(eps, problem),
    }
    return "rows", given, sizes
