"""Batch normalisation on GPUs: training, inference, gradient."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem, Space
from skipjack.operations import BatchNorm, get
from skipjack.solvers.gpu.triton import KernelStage, LaunchArguments, StagedGpuSolver, integer
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
from skipjack.solvers.gpu.vector.estimate import batchnorm_cost

_MODES = ("infer", "train", "backward")
"""Their indices are the numbers that `skipjack.solvers.gpu.kernels.vector.batchnorm` uses."""
_LARGEST = 2**31
_MOST_EACH = 32
_HINTS = ("", "evict_first")
_MODULE = "skipjack.solvers.gpu.kernels.vector.batchnorm"


class TritonBatchNorm(StagedGpuSolver):
    """Partial sums of each channel, then tiles of the output; inference has only the latter.

    A tile is ``rows`` images by ``columns`` positions. ``waves`` is the number of programs for each
    unit that compute sums.
    """

    name = "triton_batchnorm"
    dtypes = ("f16", "bf16", "f32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, running statistics, and more tiles than a grid can have."""
        if not isinstance(get(problem.operation), BatchNorm):
            return "it is not a batch normalisation"
        if problem.attribute("mode") not in _MODES or "momentum" in dict(problem.attributes):
            return "it supports training without running statistics, its gradient, and inference"
        images, channels, height, width = problem.shape
        if images * channels * cdiv(height * width, 32) >= _LARGEST:
            return "it has more tiles than a grid can have"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """A few hundred configs."""
        images, _, height, width = problem.shape
        area, threads = height * width, warp_size(device)
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

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The sums, unless they are given, and the output."""
        mode = problem.attribute("mode")
        images, channels, height, width = problem.shape
        area = height * width
        rows, columns, warps = (as_int(config[name]) for name in ("rows", "columns", "warps"))
        units = cdiv(images, rows) * cdiv(area, columns)
        parts = max(1, min(units, device.units * as_int(config["waves"]) // channels))
        sums = scratch_argument("sums", 2 * channels * parts, problem) if mode != "infer" else None
        tile = {"ROWS": rows, "BLOCK": columns}
        options = offset_options(problem, device)
        names = _names(mode)
        arrays: LaunchArguments = {
            parameter: tensor_argument(name, problem) if name else None
            for parameter, name in names.items()
        }
        sizes: LaunchArguments = {
            "images": integer(images),
            "channels": integer(channels),
            "area": integer(area),
            "parts": integer(parts),
        }
        found = []
        if sums:
            sums_constants: Constants = {"BACKWARD": mode == "backward", "STAGES": 1, **tile}
            read: LaunchArguments = {name: arrays[name] for name in ("x", "dy")}
            read["mean"] = arrays["mean"] if mode == "backward" else None
            found.append(
                KernelStage(
                    "partial",
                    _MODULE,
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
        given: LaunchArguments = {
            **{name: arrays[name] for name in ("x", "dy", "gamma", "beta", "mean", "deviation")},
            "sums": sums,
            **{name: arrays[name] for name in ("out", "first_out", "second_out")},
            **sizes,
            "share": real_argument(1.0 / (images * area), problem),
            "eps": real_argument(float(dict(problem.attributes).get("eps", "0")), problem),
        }
        grid = (channels * units,)
        found.append(
            KernelStage("apply", _MODULE, "apply", grid, given, constants, warps, options=options)
        )
        return found


def _names(mode: str) -> dict[str, str]:
    """The problem's arrays by the kernels' parameters; empty for absent arrays."""
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
