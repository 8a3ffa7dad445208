"""1x1 convolutions with channels behind the pixels: plain matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from skipjack import operations
from skipjack.core import Config, Device, Problem, Space
from skipjack.gpu import KNOWN, Descriptor, Fill, Pointer, Scratch, Step, Value
from skipjack.operations import OUT, Role
from skipjack.solvers.gpu.conv.layer import ConvLayer, not_two_dimensional
from skipjack.solvers.gpu.gemm import AddressMatmul, DescriptorMatmul
from skipjack.solvers.gpu.triton import KernelSpec, TritonSolver

# Matrix products within other operations: the steps of a product, on other arrays.


def matmul_solver(dtype: str, device: Device) -> TritonSolver:
    """The preferred solver for products."""
    if KNOWN[device.arch].tma and dtype in DescriptorMatmul.dtypes:
        return DescriptorMatmul()
    return AddressMatmul()


def relocated(steps: Sequence[Step], places: Mapping[str, Pointer | Scratch]) -> list[Step]:
    """The steps of a product, with its tensors replaced by `places`."""

    def moved(value: Value) -> Value:
        if isinstance(value, Pointer):
            return places[value.tensor]
        if isinstance(value, Descriptor) and isinstance(value.of, Pointer):
            return replace(value, of=places[value.of.tensor])
        return value

    def moved_step(step: Step) -> Step:
        if isinstance(step, Fill):
            where = places[step.where.tensor] if isinstance(step.where, Pointer) else step.where
            return replace(step, where=where)
        return replace(step, values=tuple(map(moved, step.values)))

    return list(map(moved_step, steps))


# 1x1 convolutions in NHWC: plain matrix products.

_OPERANDS: dict[str, tuple[Role, Role]] = {
    "fwd": ("image", "filter"),
    "bwd": ("result", "filter"),
    "wrw": ("result", "image"),
}


class PointwiseConvolution(TritonSolver):
    """Pixels are rows and channels are columns of a matrix product."""

    name = "triton_conv_matmul"
    algorithm = "GEMM"
    dtypes = ("f16", "bf16", "tf32", "f32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse all but 1x1 filters in NHWC."""
        if device.arch not in KNOWN:
            return f"the limits of {device.arch} are not known"
        if reason := not_two_dimensional(problem):
            return reason
        layer = ConvLayer.of(problem)
        if not layer.channels_last or not layer.flat or layer.geometry.groups > 1:
            return "it needs 1x1 filters without strides, pads and groups, and NHWC"
        return matmul_solver(problem.dtype, device).refuses(_product(layer), device)

    def promise(self, problem: Problem, device: Device) -> float:
        """These convolutions are products, but TMA boxes are at least as fast in most of them."""
        return 1.0

    def space(self, problem: Problem, device: Device) -> Space:
        """As for the product."""
        return matmul_solver(problem.dtype, device).space(_product(ConvLayer.of(problem)), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The kernels of the product."""
        product = _product(ConvLayer.of(problem))
        return matmul_solver(problem.dtype, device).kernels(product, device, config)

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """The plan of the product, on the convolution's arrays."""
        layer = ConvLayer.of(problem)
        a, b = (Pointer(layer.geometry.name(role)) for role in _OPERANDS[layer.direction])
        steps = matmul_solver(problem.dtype, device).plan(_product(layer), device, config)
        return relocated(steps, {"a": a, "b": b, "out": Pointer(OUT)})


def _product(layer: ConvLayer) -> Problem:
    pixels = prod(layer.sizes("result"))
    shape, transpose = {
        "fwd": (f"{pixels}x{layer.k}x{layer.c}", "/tb=1"),
        "bwd": (f"{pixels}x{layer.c}x{layer.k}", ""),
        "wrw": (f"{layer.k}x{layer.c}x{pixels}", "/ta=1"),
    }[layer.direction]
    return operations.parse(f"matmul:{shape}{transpose}:{layer.dtype}")
