"""1x1 convolutions with channels behind the pixels: plain products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack import operations
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Pointer, Step
from skipjack.operations.conv_geometry import OUT, Role
from skipjack.solvers.gpu.conv_layer import Layer, not_two_dimensional
from skipjack.solvers.gpu.product_places import multiplying, placed
from skipjack.solvers.gpu.spec import KernelSpec
from skipjack.solvers.gpu.triton_solver import TritonSolver

_OPERANDS: dict[str, tuple[Role, Role]] = {
    "fwd": ("image", "filter"),
    "bwd": ("result", "filter"),
    "wrw": ("result", "image"),
}


class PointwiseConvolution(TritonSolver):
    """Pixels are rows, channels are columns; the solver for products does the rest."""

    name = "triton_conv_matmul"
    algorithm = "GEMM"
    dtypes = ("f16", "bf16", "tf32", "f32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """All but 1x1 filters over channels that lie behind the pixels."""
        if device.arch not in KNOWN:
            return f"nothing is known of {device.arch}"
        if reason := not_two_dimensional(problem):
            return reason
        layer = Layer.of(problem)
        if not layer.last or not layer.flat or layer.geometry.groups > 1:
            return "it needs 1x1 filters without strides, pads and groups, and NHWC"
        return multiplying(problem.dtype, device).refuses(_product(layer), device)

    def promise(self, problem: Problem, device: Device) -> float:
        """It is what these convolutions are; boxes are as good or better in most of them."""
        return 1.0

    def space(self, problem: Problem, device: Device) -> Space:
        """That of the product."""
        return multiplying(problem.dtype, device).space(_product(Layer.of(problem)), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """Those of the product."""
        product = _product(Layer.of(problem))
        return multiplying(problem.dtype, device).kernels(product, device, config)

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """That of the product, on the convolution's arrays."""
        layer = Layer.of(problem)
        a, b = (Pointer(layer.geometry.name(role)) for role in _OPERANDS[layer.direction])
        steps = multiplying(problem.dtype, device).plan(_product(layer), device, config)
        return placed(steps, {"a": a, "b": b, "out": Pointer(OUT)})


def _product(layer: Layer) -> Problem:
    pixels = prod(layer.sizes("result"))
    shape, turn = {
        "fwd": (f"{pixels}x{layer.k}x{layer.c}", "/tb=1"),
        "bwd": (f"{pixels}x{layer.c}x{layer.k}", ""),
        "wrw": (f"{layer.k}x{layer.c}x{pixels}", "/ta=1"),
    }[layer.direction]
    return operations.parse(f"matmul:{shape}{turn}:{layer.dtype}")
