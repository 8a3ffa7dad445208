"""Calls like the program's, on tensors made up for them: to time kernels, and to see what PyTorch
refuses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from skipjack.integrations.torch.matching import DTYPES, TensorFacts, TorchCall
from skipjack.integrations.torch.stubs import TorchBackend, torch_module

# A call like the program's, on new tensors.

_FLUSHED_BYTES = 8 << 20
_AHEAD_CYCLES = 4_000_000
"""Some milliseconds, during which the host queues all timed calls."""
_POSITIVE = ("running_var",)
"""Arguments whose square root is taken."""
_TOLERANCE = {4: 1e-3, 8: 1e-9, 2: 3e-2}
"""Relative tolerance of the difference's norm, by element size: kernels were verified before, so
this only detects confused arguments."""

_DTYPES = {
    **{0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 11: "bool"},
    **{5: "float16", 6: "float32", 7: "float64", 15: "bfloat16"},
}


class SampleCall:
    """An operation with sample arguments."""

    def __init__(self, call: TorchCall) -> None:
        torch = torch_module()
        self._torch = torch
        self._operation = _overload(call)
        schema = self._operation._schema.arguments
        self.gpu = call.gpu
        self._arguments = [
            sample_argument(torch, one, str(at.type), at.name, device_of(call))
            for one, at in zip(call.arguments, schema, strict=True)
        ]
        flushed = _FLUSHED_BYTES // 4 if self.gpu is None else 0
        self._flushed = torch.zeros(flushed, dtype=torch.float32, device="cpu")

    def __call__(self) -> Any:
        """Call the operation."""
        return self._operation(*self._arguments)

    def wait(self) -> None:
        """Wait until the GPU has finished."""
        if self.gpu is not None:
            self._torch.cuda.synchronize(self.gpu)

    def queued_ns(self, calls: int) -> float:
        """Nanoseconds of a call on the GPU, which waits until all calls are queued."""
        cuda = self._torch.cuda
        with cuda.device(self.gpu):
            first, last = (cuda.Event(enable_timing=True) for _ in range(2))
            cuda.synchronize()
            cuda._sleep(_AHEAD_CYCLES)
            first.record()
            for _ in range(calls):
                self()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last)) * 1e6 / calls

    def flush(self) -> None:
        """Evict the tensors from the inner caches of a CPU."""
        self._flushed.add_(1.0)

    def results(self) -> list[Any]:
        """The resulting tensors, without those that were not requested."""
        found = self()
        found = found if isinstance(found, list | tuple) else [found]
        return [one for one in found if one is not None and one.numel()]

    def differs(self, ours: Sequence[Any], theirs: Sequence[Any]) -> str:
        """How two results differ beyond rounding; empty if they do not."""
        if len(ours) != len(theirs):
            return f"it has {len(ours)} results instead of {len(theirs)}"
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if one.shape != other.shape or one.stride() != other.stride():
                return f"result {place} has a different shape or strides"
            difference = (one.double() - other.double()).norm()
            if not difference <= _TOLERANCE[one.element_size()] * other.double().norm() + 1e-30:
                return f"result {place} is wrong"
        return ""


def _overload(call: TorchCall) -> Any:
    torch = torch_module()
    return getattr(getattr(torch.ops, call.signature.namespace), call.signature.name).default


def sample_argument(
    torch: Any, argument: object, kind: str, name: str = "", device: str = "cpu"
) -> Any:
    """An argument for PyTorch; tensors have random contents."""
    if isinstance(argument, TensorFacts):
        dtype = dtype_of(torch, argument.dtype)
        tensor = torch.empty_strided(argument.sizes, argument.strides, dtype=dtype, device=device)
        least = 0.25 if name in _POSITIVE else -1.0
        return tensor.uniform_(least, 1.0, generator=_generator(device))
    if "bool" in kind:
        return [bool(one) for one in argument] if isinstance(argument, tuple) else bool(argument)
    if isinstance(argument, tuple):
        return list(argument)
    return dtype_of(torch, argument) if "ScalarType" in kind else argument


def device_of(call: TorchCall) -> str:
    """PyTorch's name of a call's device."""
    return "cpu" if call.gpu is None else f"cuda:{max(call.gpu, 0)}"


@functools.cache
def _generator(device: str) -> Any:
    """A separate generator, so that the program's random numbers do not change."""
    return torch_module().Generator(device)


def dtype_of(torch: Any, number: object) -> Any:
    """PyTorch's dtype for a number of its C interface."""
    return getattr(torch, _DTYPES[number]) if isinstance(number, int) else None


# Whether PyTorch refuses a call, and its error message.

_BATCHES = {"convolution": (0,), "convolution_backward": (0, 1)}
"""Batched arguments of operations whose kernels check more than meta kernels do."""


def why_invalid(call: TorchCall) -> str:
    """PyTorch's error message for a call that it refuses; empty if it accepts the call.

    The call is tried on meta tensors. Calls that cannot be tried are left to PyTorch's kernel.
    """
    torch = torch_module()
    try:
        operation = getattr(torch.ops.aten, call.signature.name).default
        kinds = [str(one.type) for one in operation._schema.arguments]
        arguments = []
        for argument, kind in zip(call.arguments, kinds, strict=False):
            if isinstance(argument, TensorFacts):
                dtype = dtype_of(torch, argument.dtype)
                if dtype is None or argument.rank != len(argument.sizes):
                    return ""
                without_memory = torch.empty_strided(
                    argument.sizes, argument.strides, dtype=dtype, device="meta"
                )
                arguments.append(without_memory)
            else:
                arguments.append(sample_argument(torch, argument, kind))
    except (KeyError, RuntimeError, TypeError):
        return ""
    if call.signature.name in _BATCHES:
        refused = _words_of_its_kernel(torch, call, _without_batch(call, arguments))
        return refused and _words_of_its_kernel(torch, call, arguments)
    try:
        operation(*arguments)
    except Exception:
        return _words_of_its_kernel(torch, call, arguments)
    return ""


def _without_batch(call: TorchCall, arguments: Sequence[Any]) -> list[Any]:
    """Arguments with empty batches, to compute nothing; mixed dtypes need elements."""
    dtypes = {tensor.dtype for tensor in call.tensors}
    if len(dtypes) > 1 or not dtypes <= set(DTYPES):
        return list(arguments)
    given = list(arguments)
    for place in _BATCHES[call.signature.name]:
        if given[place].dim():
            given[place] = given[place][:0]
    return given


def _words_of_its_kernel(torch: Any, call: TorchCall, arguments: Sequence[Any]) -> str:
    """The message of PyTorch's real kernel, since meta kernels have other messages.

    It checks before it computes, so the tensors need no contents.
    """
    device = device_of(call)
    real = [
        torch.empty_strided(one.size(), one.stride(), dtype=one.dtype, device=device)
        if isinstance(one, torch.Tensor)
        else one
        for one in arguments
    ]
    backend = call.signature.backend
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, backend.key))
    try:
        own_kernel(call.signature.name, backend).call_boxed(keys, *real)
    except torch.OutOfMemoryError:
        return ""  # there may be enough memory next time
    except Exception as error:
        return str(error).split("\n")[0]
    return ""


@functools.cache
def own_kernel(name: str, backend: TorchBackend) -> Any:
    """PyTorch's own kernel of an operation; must first be called before ours is registered."""
    return torch_module().library.get_kernel(f"aten::{name}", backend.key)
