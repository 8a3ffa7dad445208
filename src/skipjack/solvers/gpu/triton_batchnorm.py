"""Batch normalisation on GPUs: training, inference, gradient."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.operations import get
from skipjack.operations.batchnorm import BatchNorm
from skipjack.solvers.gpu.stage import Arguments, Stage, StagedGpuSolver, size
from skipjack.solvers.gpu.vector_orders import batchnorm_cost
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

_MODES = ("infer", "train", "backward")
"""Their places are their numbers in `skipjack.solvers.gpu.kernels.batchnorm`."""
_LARGEST = 2**31
_MOST_EACH = 32
_HINTS = ("", "evict_first")


class TritonBatchNorm(StagedGpuSolver):
    """Sums of parts of every channel, then tiles of the output; inference is the latter alone.

    A tile is `rows` images by `columns` positions. ``waves`` programs for each unit collect sums.
    """

    name = "triton_batchnorm"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Any batch norm whose tiles can be counted."""
        if not isinstance(get(problem.operation), BatchNorm):
            return "it is not a batch normalisation"
        if problem.attribute("mode") not in _MODES or "momentum" in dict(problem.attributes):
            return "it is for training without running statistics, its gradient, and inference"
        images, channels, height, width = problem.shape
        if images * channels * cdiv(height * width, 32) >= _LARGEST:
            return "it has more tiles than a grid can have"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """Some hundreds of configs."""
        images, _, height, width = problem.shape
        area, threads = height * width, lanes(device)
        widest = min(8192, power_of_two(area))

        def fits(rows: int, columns: int, warps: int) -> bool:
            return threads * warps <= max(rows * columns, threads) <= _MOST_EACH * threads * warps

        parameters = [
            Parameter("rows", powers_of_two(min(images, 64))),
            Parameter("columns", tuple(widest >> at for at in range(5) if widest >> at >= 1)),
            Parameter("warps", (1, 2, 4, 8)),
            Parameter("waves", (4, 8, 16) if problem.attribute("mode") != "infer" else (4,)),
            Parameter("hint", _HINTS),
        ]
        return ParameterSpace(
            parameters, [fits], lambda config: batchnorm_cost(problem, device, config), True
        )

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """The sums, where they are not given, and the output."""
        mode = problem.attribute("mode")
        images, channels, height, width = problem.shape
        area = height * width
        rows, columns, warps = (whole(config[name]) for name in ("rows", "columns", "warps"))
        units = cdiv(images, rows) * cdiv(area, columns)
        parts = max(1, min(units, device.units * whole(config["waves"]) // channels))
        sums = scratch("sums", 2 * channels * parts, problem) if mode != "infer" else None
        tile = {"ROWS": rows, "BLOCK": columns}
        options = reach(problem, device)
        names = _names(mode)
        arrays: Arguments = {
            parameter: tensor(name, problem) if name else None for parameter, name in names.items()
        }
        sizes: Arguments = {
            "images": size(images),
            "channels": size(channels),
            "area": size(area),
            "parts": size(parts),
        }
        found = []
        if sums:
            sums_constants: Constants = {"BACKWARD": mode == "backward", "STAGES": 1, **tile}
            read: Arguments = {name: arrays[name] for name in ("x", "dy")}
            read["mean"] = arrays["mean"] if mode == "backward" else None
            found.append(
                Stage(
                    "partial",
                    "batchnorm",
                    "partial",
                    (channels * parts,),
                    {**read, "sums": sums, **sizes},
                    sums_constants,
                    warps,
                    options=options,
                )
            )
        constants: Constants = {
            "MODE": _MODES.index(mode),
            "PARTS": power_of_two(parts),
            "HINT": str(config["hint"]),
            **tile,
        }
        given: Arguments = {
            **{name: arrays[name] for name in ("x", "dy", "gamma", "beta", "mean", "deviation")},
            "sums": sums,
            **{name: arrays[name] for name in ("out", "first_out", "second_out")},
            **sizes,
            "share": real(1.0 / (images * area), problem),
            "eps": real(float(dict(problem.attributes).get("eps", "0")), problem),
        }
        grid = (channels * units,)
        found.append(
            Stage("apply", "batchnorm", "apply", grid, given, constants, warps, options=options)
        )
        return found


def _names(mode: str) -> dict[str, str]:
    """The problem's arrays by the kernels' parameters; empty for those that are not there."""
    absent = dict.fromkeys(
        ("dy", "beta", "mean", "deviation", "first_out", "second_out"),
        "",
    )
    every = {"x": "x", "gamma": "gamma", "out": "out"}
    own = {
        "infer": {"beta": "beta", "mean": "mean", "deviation": "var"},
        "train": {"beta": "beta", "first_out": "mean", "second_out": "invstd"},
        "backward": {
            "dy": "dy",
            "mean": "mean",
            "deviation": "invstd",
            "first_out": "dgamma",
            "second_out": "dbeta",
        },
    }[mode]
    return {**absent, **every, **own}
