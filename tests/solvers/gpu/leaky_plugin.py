"""A plug-in that adds an operation for GPUs in one file: declaration, kernel and solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import triton
import triton.language as tl

from skipjack import operations, solvers
from skipjack.core import (
    Array,
    Arrays,
    Config,
    Device,
    OperationClass,
    Parameter,
    ParameterSpace,
    Problem,
    Tensor,
    Tolerance,
    TorchFunction,
)
from skipjack.operations import refuse_unknown
from skipjack.solvers.gpu.triton import KernelStage, LaunchArguments, StagedGpuSolver, integer
from skipjack.solvers.gpu.vector.arguments import as_int, cdiv, tensor_argument


class Leaky:
    """``x`` where it is positive, an eighth of it elsewhere."""

    name = "leaky"
    operation_class: OperationClass = "vector"
    example = "leaky:4096"
    dtypes = ("f32", "f16")
    domain = (-1.0, 1.0)

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        refuse_unknown(attributes, (), where)
        return ()

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return (Tensor("x", problem.shape),)

    def output(self, problem: Problem) -> Tensor:
        return Tensor("out", problem.shape)

    def flops(self, problem: Problem) -> int:
        return prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        x = arrays["x"]
        return np.where(x > 0, x, x / 8)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        return np.abs(self.reference(problem, arrays))

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(1.0)

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        leaky = torch.nn.functional.leaky_relu
        return lambda t: {"out": leaky(t["x"], 0.125)}

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        return reference.abs()


@triton.jit
def leak(x, out, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < count)
    tl.store(out + at, tl.where(value > 0, value, value * 0.125), at < count)


class TritonLeaky(StagedGpuSolver):
    name = "triton_leaky"
    dtypes = ("f32", "f16")

    def refuses(self, problem: Problem, device: Device) -> str:
        return "" if problem.operation == Leaky.name else "it computes leaky alone"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        return ParameterSpace([Parameter("block", (256, 1024)), Parameter("warps", (2, 4))])

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        count, block = prod(problem.shape), as_int(config["block"])
        given: LaunchArguments = {
            "x": tensor_argument("x", problem),
            "out": tensor_argument("out", problem),
            "count": integer(count),
        }
        constants, warps = {"BLOCK": block}, as_int(config["warps"])
        return [
            KernelStage("leak", __file__, "leak", (cdiv(count, block),), given, constants, warps)
        ]


operations.register(Leaky())
solvers.register(TritonLeaky())
