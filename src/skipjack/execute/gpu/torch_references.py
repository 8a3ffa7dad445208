"""References and magnitudes in float64 on the GPU, where PyTorch is: hundreds of times faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skipjack.core.operation import TorchMagnitude
from skipjack.core.problem import Problem
from skipjack.operations import get
from skipjack.operations.convolution import Convolution
from skipjack.operations.elementwise import Elementwise
from skipjack.operations.matmul import Settings
from skipjack.operations.reduce import Reduce
from skipjack.solvers.vendor.torch_functions import (
    has_function,
    is_product,
    product_function,
    reduction_function,
    vector_function,
)
from skipjack.solvers.vendor.torch_solver import convolution_call

Tensors = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exact:
    """An output in float64, and the scale of its rounding errors."""

    reference: Any
    magnitude: Any


def exact_output(torch: Any, problem: Problem, inputs: Tensors) -> Exact | None:
    """From inputs in float64; None for what only the host can compute.

    For operations with one output, called ``out``.
    """
    operation = get(problem.operation)
    if is_product(problem):
        return _product(torch, problem, inputs)
    if isinstance(operation, Convolution):
        sizes = {name: tensor.abs() for name, tensor in inputs.items()}
        return Exact(*(_convolved(torch, problem, these) for these in (inputs, sizes)))
    if isinstance(operation, TorchMagnitude):
        reference = operation.torch_function(torch, problem)(inputs)["out"]
        return Exact(reference, operation.torch_magnitude(torch, problem, inputs, reference))
    if not has_function(problem):
        return None
    if isinstance(operation, Elementwise):
        return _elementwise(torch, operation, problem, inputs)
    if isinstance(operation, Reduce):
        return _reduced(torch, operation, problem, inputs)
    return None


def exact_sums(torch: Any, problem: Problem, inputs: Tensors) -> Any | None:
    """The output of a plain product or convolution, which is sums of products and nothing else."""
    if isinstance(get(problem.operation), Convolution):
        return _convolved(torch, problem, inputs)
    if not is_product(problem):
        return None
    settings = Settings.of(problem)
    plain = settings.alpha == 1.0 and settings.beta in (0.0, 1.0) and settings.act == "none"
    return product_function(torch, problem)(inputs) if plain else None


def _product(torch: Any, problem: Problem, inputs: Tensors) -> Exact:
    settings = Settings.of(problem)
    reference = product_function(torch, problem)(inputs)
    sizes = {name: tensor.abs() for name, tensor in inputs.items()}
    a = sizes["a"].mT if settings.ta else sizes["a"]
    b = sizes["b"].mT if settings.tb else sizes["b"]
    scale = torch.matmul(a, b).mul_(abs(settings.alpha))
    if settings.beta:
        scale += abs(settings.beta) * sizes["c"]
    if settings.bias:
        scale += sizes["bias"]
    return Exact(reference, scale)


def _convolved(torch: Any, problem: Problem, inputs: Tensors) -> Any:
    shape = get(problem.operation).output(problem).shape
    some = next(iter(inputs.values()))
    torch.backends.cudnn.benchmark = False  # one call is not worth a search
    out = torch.empty(shape, dtype=some.dtype, device=some.device)
    convolution_call(torch, problem, {**inputs, "out": out})()
    return out


def _elementwise(torch: Any, operation: Elementwise, problem: Problem, inputs: Tensors) -> Exact:
    function = vector_function(torch, problem)
    assert function is not None, "asked before"
    reference = function(inputs)["out"]
    operands = [inputs[tensor.name] for tensor in operation.inputs(problem)]
    return Exact(reference, operation.scale(reference, operands))


def _reduced(torch: Any, operation: Reduce, problem: Problem, inputs: Tensors) -> Exact:
    axes, shape = list(operation.axes(problem)), operation.output(problem).shape
    x = inputs["x"]
    reference = reduction_function(torch, operation.name)(x, axes)
    name = "max" if operation.exact else operation.name
    scale = reduction_function(torch, name)(x.abs(), axes)
    return Exact(reference.reshape(shape), scale.reshape(shape))
