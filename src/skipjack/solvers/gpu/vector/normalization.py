"""Normalisations of rows on GPUs and their gradients: softmax, logsoftmax, layer norm, RMS norm."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack import operations
from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem, Space
from skipjack.operations import get, outputs
from skipjack.solvers.gpu.triton import KernelStage, LaunchArguments, StagedGpuSolver, integer
from skipjack.solvers.gpu.vector.arguments import (
    Constants,
    as_int,
    cdiv,
    offset_options,
    power_of_two,
    powers_of_two,
    real_argument,
    row_operation,
    scratch_argument,
    tensor_argument,
    warp_size,
)
from skipjack.solvers.gpu.vector.estimate import row_gradients_cost, rows_cost

# Softmax, logsoftmax, layer norm and RMS norm on GPUs: rows in registers, or in blocks.
#
# The gradients of the first two are computed in the same way.

_LONGEST = 2**31
_WHOLE = 32768
"""Longer rows do not fit in the registers of a block."""
_HINTS = ("", "evict_first")


class TritonRows(StagedGpuSolver):
    """A row is held in registers as a whole, or read twice in shorter blocks.

    The padded length of a row is a constant of the kernel that holds it. ``resident`` persistent
    programs on each unit process all rows; with 0 there is one program for every few rows.
    ``stages`` is the depth of their prefetching. ``registers`` limits the registers of a thread, so
    that more programs run at once.
    """

    name = "triton_rows"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, and rows that are too long to index."""
        operation = row_operation(problem)
        if operation is None:
            return "it is not a normalisation of rows"
        if not operation.gpu_rows:
            return f"the kernels for rows do not compute {operation.name}"
        if problem.shape[-1] >= _LONGEST:
            return f"its rows have {_LONGEST} elements or more"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """From dozens to hundreds of configs."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        block, threads = power_of_two(columns), warp_size(device)
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

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The only launch."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        rows, block, resident = (as_int(config[name]) for name in ("rows", "columns", "resident"))
        module, given, sizes = _given(problem)
        operation = row_operation(problem)
        assert operation is not None, "others are refused"
        constants: Constants = {
            "NAME": operation.gpu_rows,
            "BLOCK": block,
            "STAGES": as_int(config["stages"]),
            "HINT": str(config["hint"]),
        }
        warps, options = as_int(config["warps"]), offset_options(problem, device)
        if config["registers"]:
            options["maxnreg"] = as_int(config["registers"])
        if block < columns:
            given |= sizes
            return [
                KernelStage(
                    "long", module, "long", (count,), given, constants, warps, options=options
                )
            ]
        groups = cdiv(count, rows)
        constants |= {"ROWS": rows, "EVEN": block == columns, "PERSISTENT": bool(resident)}
        grid = min(groups, device.units * resident) if resident else groups
        given |= {"count": integer(count), **sizes}
        return [
            KernelStage("whole", module, "whole", (grid,), given, constants, warps, options=options)
        ]


def _given(problem: Problem) -> tuple[str, LaunchArguments, LaunchArguments]:
    """The module of the kernel, its array arguments and its sizes."""
    columns = problem.shape[-1]
    names = [array.name for array in operations.get(problem.operation).inputs(problem)]
    if "dy" in names:
        arrays = {name: tensor_argument(name, problem) for name in (*names, "out")}
        return (
            "skipjack.solvers.gpu.kernels.vector.normalization_gradients",
            {**arrays},
            {"columns": integer(columns)},
        )
    given: LaunchArguments = {
        name: tensor_argument(name, problem) if name in names else None
        for name in ("x", "gamma", "beta")
    }
    eps = float(dict(problem.attributes).get("eps", "0"))
    written = {one.name: one.dtype for one in operations.outputs(problem)}
    for name in ("out", "mean", "invstd"):
        given[name] = tensor_argument(name, problem, written[name]) if name in written else None
    sizes: LaunchArguments = {
        "columns": integer(columns),
        "share": real_argument(1.0 / columns, problem),
        "eps": real_argument(eps, problem),
    }
    return "skipjack.solvers.gpu.kernels.vector.normalization", given, sizes


# The gradients of layer norm on GPUs: rows in registers, sums over rows in parts.

_NAME = "layernorm"
_MODULE = "skipjack.solvers.gpu.kernels.vector.normalization_gradients"
_WIDEST = {"f64": 4096}
_MOST = 8192
"""Longer rows and the values held for them do not fit in the registers of a block."""
_JOIN_PARTS, _JOIN_COLUMNS = 64, 32


class TritonLayerNormBackward(StagedGpuSolver):
    """``resident`` programs on each unit process all rows and accumulate sums over the columns.

    A second kernel adds up these sums.
    """

    name = "triton_layernorm_backward"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, and rows that do not fit in registers."""
        operation = row_operation(problem)
        if operation is None or operation.gpu_gradients != _NAME:
            return "it is not the gradient of a layer norm"
        most = _WIDEST.get(problem.dtype, _MOST)
        if problem.shape[-1] > most:
            return f"its rows have more than {most} elements"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """A few hundred configs."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        block, threads = power_of_two(columns), warp_size(device)
        most = 16 if problem.dtype != "f64" else 8

        def fits(rows: int, warps: int) -> bool:
            return threads * warps <= max(rows * block, threads) <= most * threads * warps

        def is_a_block(warps: int) -> bool:
            return warps * threads <= 1024

        parameters = [
            Parameter("rows", powers_of_two(min(count, 32))),
            Parameter("warps", (1, 2, 4, 8, 16, 32)),
            Parameter("resident", (1, 2, 3, 4, 8)),
            Parameter("hint", _HINTS),
        ]
        return ParameterSpace(
            parameters,
            [fits, is_a_block],
            lambda config: row_gradients_cost(problem, device, config),
            True,
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The gradient of x with partial sums, and their sums."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        rows, block = as_int(config["rows"]), power_of_two(columns)
        parts = min(cdiv(count, rows), device.units * as_int(config["resident"]))
        sums = scratch_argument("sums", 2 * parts * columns, problem)
        arrays: LaunchArguments = {
            one.name: tensor_argument(one.name, problem, one.dtype)
            for one in (*get(problem.operation).inputs(problem), *outputs(problem))
        }
        written = {name: arrays.pop(name) for name in ("dgamma", "dbeta")}
        options = offset_options(problem, device)
        constants: Constants = {
            "ROWS": rows,
            "BLOCK": block,
            "EVEN": block == columns,
            "HINT": str(config["hint"]),
        }
        warps = as_int(config["warps"])
        tile: Constants = {"ROWS": _JOIN_PARTS, "BLOCK": _JOIN_COLUMNS}
        sizes: LaunchArguments = {
            "count": integer(count),
            "columns": integer(columns),
            "share": real_argument(1.0 / columns, problem),
        }
        tiles = 2 * cdiv(columns, _JOIN_COLUMNS)
        ends: LaunchArguments = {
            "sums": sums,
            **written,
            "columns": integer(columns),
            "parts": integer(parts),
        }
        return [
            KernelStage(
                "partial",
                _MODULE,
                "partial",
                (parts,),
                {**arrays, "sums": sums, **sizes},
                constants,
                warps,
                options=options,
            ),
            KernelStage("join", _MODULE, "join", (tiles,), ends, tile, options=options),
        ]
