"""Runs launch plans by Triton itself: on a CPU by its interpreter, without artifacts or drivers.

Set ``TRITON_INTERPRET=1`` before Triton is loaded, for example in a separate process; then
`run_interpreted` computes a problem exactly as a solver's plan says. On a GPU `bound_steps` does
the same with Triton's compiler, for experiments.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack import operations
from skipjack.core import Config, Device, Problem, numpy_dtype
from skipjack.gpu import Descriptor, Fill, Number, Pointer, Scratch, Step, Value, scratch_sizes
from skipjack.solvers.gpu.triton import KernelSpec, TritonSolver

_TORCH_TYPES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "i1": "bool",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
_BLOCK = re.compile(r"tensordesc<(\w+)\[([\d, ]+)\]")


def run_interpreted(
    solver: TritonSolver,
    problem: Problem,
    device: Device,
    config: Config,
    arrays: Mapping[str, npt.NDArray[Any]],
) -> dict[str, npt.NDArray[Any]]:
    """The outputs by name; inputs are not changed, and memory is initialized with NaN."""
    tensors = {name: to_torch(array) for name, array in arrays.items()}
    outs = operations.outputs(problem)
    for out in outs:
        stored = numpy_dtype(out.dtype or problem.dtype)
        tensors[out.name] = to_torch(np.full(out.shape, np.nan, np.float32).astype(stored))
    _let_one_number_be_an_index()
    _let_kernels_not_wait()
    specs = solver.kernels(problem, device, config)
    steps = solver.plan(problem, device, config)
    for call in bound_steps(specs, steps, tensors, scratch_for(steps)):
        call()
    return {
        out.name: to_numpy(tensors[out.name], numpy_dtype(out.dtype or problem.dtype))
        for out in outs
    }


def to_torch(array: npt.NDArray[Any]) -> Any:
    """A copy as a tensor, including the types of ml_dtypes."""
    import torch

    name = str(array.dtype)
    plain = np.array(array, order="C")
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = plain.view(np.int16 if name == "bfloat16" else np.uint8)
        return torch.from_numpy(bits).view(getattr(torch, name))
    return torch.from_numpy(plain)


def to_numpy(tensor: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The inverse of `to_torch`."""
    import torch

    if dtype.kind == "V" or str(dtype) in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = torch.int16 if dtype.itemsize == 2 else torch.uint8
        found: npt.NDArray[Any] = tensor.view(bits).numpy().view(dtype)
        return found
    plain: npt.NDArray[Any] = tensor.numpy()
    return plain


def scratch_for(steps: Sequence[Step], where: str = "cpu") -> dict[str, Any]:
    """Scratch memory by name, full of NaN."""
    import torch

    return {
        name: torch.full((size,), 0xFF, dtype=torch.uint8, device=where)
        for name, size in scratch_sizes(steps).items()
    }


def bound_steps(
    specs: Sequence[KernelSpec],
    steps: Sequence[Step],
    tensors: Mapping[str, Any],
    scratch: Mapping[str, Any],
) -> list[Callable[[], object]]:
    """Calls that run the steps on these tensors, with scratch memory from `scratch_for`."""
    by_name = {spec.name: spec for spec in specs}
    calls: list[Callable[[], object]] = []
    for step in steps:
        if isinstance(step, Fill):
            place = _bytes(step.where, tensors, scratch)[: step.size]
            calls.append(functools.partial(place.fill_, step.byte))
            continue
        spec = by_name[step.kernel]
        keywords = launch_keywords(spec, step.values, tensors, scratch)
        function = getattr(importlib.import_module(spec.module), spec.function)
        calls.append(functools.partial(function[step.grid], **keywords))
    return calls


def launch_keywords(
    spec: KernelSpec,
    values: Sequence[Value],
    tensors: Mapping[str, Any],
    scratch: Mapping[str, Any],
) -> dict[str, Any]:
    """All keyword arguments of Triton's launch."""
    found: dict[str, Any] = {}
    for (name, argument), value in zip(spec.arguments.items(), values, strict=True):
        found[name] = _given(argument.type, value, tensors, scratch)
    constants = {name: _constant(value) for name, value in spec.constants.items()}
    return {
        **found,
        **constants,
        "num_warps": spec.warps,
        "num_stages": spec.stages,
        **spec.options,
    }


def _given(
    type_: str, value: Value, tensors: Mapping[str, Any], scratch: Mapping[str, Any]
) -> object:
    if isinstance(value, Number):
        return value.value
    if isinstance(value, Descriptor):
        from triton.tools.tensor_descriptor import TensorDescriptor

        match = _BLOCK.match(type_)
        assert match, type_
        base = _typed(_bytes(value.of, tensors, scratch), match[1])
        block = [int(size) for size in match[2].split(",")]
        return TensorDescriptor(base, list(value.shape), list(value.strides), block)
    return _typed(_bytes(value, tensors, scratch), type_.lstrip("*"))


def _bytes(place: Pointer | Scratch, tensors: Mapping[str, Any], scratch: Mapping[str, Any]) -> Any:
    import torch

    if isinstance(place, Scratch):
        return scratch[place.name]
    return tensors[place.tensor].view(-1).view(torch.uint8)[place.offset :]


def _typed(memory: Any, type_: str) -> Any:
    import torch

    return memory.view(getattr(torch, _TORCH_TYPES[type_]))


def _constant(value: object) -> object:
    """A string such as ``tl.float16`` is one of Triton's types."""
    if isinstance(value, str) and value.startswith("tl."):
        import triton.language as tl

        return getattr(tl, value.removeprefix("tl."))
    return value


@functools.cache
def _let_one_number_be_an_index() -> None:
    """Triton 3.6's interpreter converts one-element arrays to indices, which NumPy 2.4 rejects."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


@functools.cache
def _let_kernels_not_wait() -> None:
    """Interpreted kernels run one after another, and the interpreter has no GPU instructions."""
    chaining = importlib.import_module("skipjack.solvers.gpu.kernels.tiles")
    for name in ("gdc_launch_dependents", "gdc_wait"):
        setattr(chaining, name, lambda: None)
