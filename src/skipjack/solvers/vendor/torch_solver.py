"""oneDNN's convolutions as PyTorch calls them on CPUs: the library to beat for convolutions."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from skipjack.core.device import Device
from skipjack.core.operation import Arrays
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.operations import get
from skipjack.operations.convolution import Convolution
from skipjack.solvers.solver import ResultCall, Solver


class TorchConvolutionSolver(Solver):
    """PyTorch's convolution of CPU tensors, in all directions and both layouts.

    What PyTorch computes with is its own choice. In float32 that is oneDNN nearly always; oneDNN
    has no float64, so there it is PyTorch's own kernels: image columns and a matrix product.

    Channels before the pixels are PyTorch's default layout, and oneDNN converts what it wants
    otherwise inside of the call. Channels behind the pixels are `torch.channels_last`. As many
    threads work as PyTorch has: in a run session as many as the device has units.
    """

    name = "onednn"
    version = 1
    compared = True
    imports = "torch"

    def refuses(self, problem: Problem, device: Device) -> str:
        """Convolutions on CPUs, where PyTorch is. Looks for it without loading it."""
        if not isinstance(get(problem.operation), Convolution):
            return "it is for convolutions"
        if device.kind != "cpu":
            return "it is for CPUs"
        return "" if importlib.util.find_spec("torch") else "torch is not installed"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Nothing to vary."""
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The call on tensors that share the arrays' memory, made once.

        PyTorch has no convolution that writes into a given output.
        """
        torch = importlib.import_module("torch")
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return convolution_call(torch, problem, tensors)


def convolution_call(torch: Any, problem: Problem, stored: Mapping[str, Any]) -> ResultCall:
    """PyTorch's convolution of tensors as they are stored, on whatever device they are."""
    operation = get(problem.operation)
    assert isinstance(operation, Convolution), "refused before"
    last = operation.geometry(problem).channels_last
    # Channels are PyTorch's second axis, wherever they lie in memory.
    tensors = {name: one.movedim(-1, 1) if last else one for name, one in stored.items()}
    place = {"fwd": None, "bwd": 0, "wrw": 1}[problem.direction or "fwd"]

    def store(found: Any) -> None:
        tensors["out"].copy_(found if place is None else found[place])

    return ResultCall(_compute(torch, operation, problem, tensors), store)


def _compute(
    torch: Any, operation: Convolution, problem: Problem, tensors: Mapping[str, Any]
) -> Callable[[], Any]:
    """What is timed. Gradients come as a tuple of which the other parts are not computed."""
    geometry = operation.geometry(problem)
    axes = geometry.axes[-geometry.spatial :]
    how = (
        [axis.stride for axis in axes],
        [axis.pad for axis in axes],
        [axis.dilation for axis in axes],
        operation.transposed,
        [axis.image + 2 * axis.pad - axis.padded if operation.transposed else 0 for axis in axes],
        geometry.groups,
    )
    if problem.direction in ("", "fwd"):
        return partial(torch.convolution, tensors["x"], tensors["w"], None, *how)
    # Of the array whose gradient is wanted only shape and layout matter: the output has both.
    x, w = tensors.get("x", tensors["out"]), tensors.get("w", tensors["out"])
    backward = torch.ops.aten.convolution_backward.default
    wanted = [problem.direction == "bwd", problem.direction == "wrw", False]
    return partial(backward, tensors["dy"], x, w, None, *how, wanted)
