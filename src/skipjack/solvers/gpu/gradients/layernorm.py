"""The gradients of layer norm on GPUs: rows in registers, sums over rows in parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.operations import get, outputs
from skipjack.solvers.gpu.stage import Arguments, Stage, StagedGpuSolver, size
from skipjack.solvers.gpu.vector_orders import row_gradients_cost
from skipjack.solvers.gpu.vectors import (
    Constants,
    cdiv,
    lanes,
    power_of_two,
    powers_of_two,
    reach,
    real,
    row_operation,
    scratch,
    tensor,
    whole,
)

_KERNELS = "layernorm"
_MODULE = f"gradients.{_KERNELS}"
_WIDEST = {"f64": 4096}
_MOST = 8192
"""Longer rows, with all that is held of them, do not fit into the registers of a block."""
_HINTS = ("", "evict_first")
_JOIN_PARTS, _JOIN_COLUMNS = 64, 32


class TritonLayerNormBackward(StagedGpuSolver):
    """``resident`` programs on each unit go over all rows and sum what belongs to the columns.

    A second kernel adds these sums up.
    """

    name = "triton_layernorm_backward"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Rows that fit into registers."""
        operation = row_operation(problem)
        if operation is None or operation.gpu_gradients != _KERNELS:
            return "it is not the gradient of a layer norm"
        most = _WIDEST.get(problem.dtype, _MOST)
        if problem.shape[-1] > most:
            return f"its rows have more than {most} elements"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """Some hundreds of configs."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        block, threads = power_of_two(columns), lanes(device)
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

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """The gradient of x with partial sums, and their sums."""
        count, columns = prod(problem.shape[:-1]), problem.shape[-1]
        rows, block = whole(config["rows"]), power_of_two(columns)
        parts = min(cdiv(count, rows), device.units * whole(config["resident"]))
        sums = scratch("sums", 2 * parts * columns, problem)
        arrays: Arguments = {
            one.name: tensor(one.name, problem, one.dtype)
            for one in (*get(problem.operation).inputs(problem), *outputs(problem))
        }
        written = {name: arrays.pop(name) for name in ("dgamma", "dbeta")}
        options = reach(problem, device)
        constants: Constants = {
            "ROWS": rows,
            "BLOCK": block,
            "EVEN": block == columns,
            "HINT": str(config["hint"]),
        }
        warps = whole(config["warps"])
        tile: Constants = {"ROWS": _JOIN_PARTS, "BLOCK": _JOIN_COLUMNS}
        sizes: Arguments = {
            "count": size(count),
            "columns": size(columns),
            "share": real(1.0 / columns, problem),
        }
        tiles = 2 * cdiv(columns, _JOIN_COLUMNS)
        ends: Arguments = {
            "sums": sums,
            **written,
            "columns": size(columns),
            "parts": size(parts),
        }
        return [
            Stage(
                "partial",
                _MODULE,
                "partial",
                (parts,),
                {**arrays, "sums": sums, **sizes},
                constants,
                warps,
                options=options,
            ),
            Stage("join", _MODULE, "join", (tiles,), ends, tile, options=options),
        ]
