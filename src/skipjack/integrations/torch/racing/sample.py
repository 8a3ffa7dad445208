"""A call like the program's, on tensors made up for it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from skipjack.integrations.torch.abi import torch_module
from skipjack.integrations.torch.calls import TensorFacts, TorchCall

_FLUSHED_BYTES = 8 << 20
_AHEAD_CYCLES = 4_000_000
"""Some milliseconds, in which the host queues all calls that are timed."""
_POSITIVE = ("running_var",)
"""Arguments of which a root is taken."""
_TOLERANCE = {4: 1e-3, 8: 1e-9, 2: 3e-2}
"""Of the norm of the difference, by the size of an element: kernels were verified elsewhere, this
finds arguments that were mixed up."""

_DTYPES = {
    **{0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 11: "bool"},
    **{5: "float16", 6: "float32", 7: "float64", 15: "bfloat16"},
}


class SampleCall:
    """The operation on tensors made up for it."""

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
        """Compute."""
        return self._operation(*self._arguments)

    def wait(self) -> None:
        """Until the GPU has computed what it was given."""
        if self.gpu is not None:
            self._torch.cuda.synchronize(self.gpu)

    def queued_ns(self, calls: int) -> float:
        """Nanoseconds of a call on the GPU, which is kept waiting until all are queued."""
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
        """Push the tensors out of the nearer caches of a CPU."""
        self._flushed.add_(1.0)

    def results(self) -> list[Any]:
        """The tensors that it gives, those that were not asked for left out."""
        found = self()
        found = found if isinstance(found, list | tuple) else [found]
        return [one for one in found if one is not None and one.numel()]

    def differs(self, ours: Sequence[Any], theirs: Sequence[Any]) -> str:
        """In what two results differ more than rounding explains; empty if they do not."""
        if len(ours) != len(theirs):
            return f"{len(ours)} results instead of {len(theirs)}"
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if one.shape != other.shape or one.stride() != other.stride():
                return f"result {place} has another shape or other strides"
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
    """An argument as PyTorch takes it; tensors hold random numbers."""
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
    """As PyTorch calls it."""
    return "cpu" if call.gpu is None else f"cuda:{max(call.gpu, 0)}"


@functools.cache
def _generator(device: str) -> Any:
    """Numbers of our own: the program's are drawn as if nobody was here."""
    return torch_module().Generator(device)


def dtype_of(torch: Any, number: object) -> Any:
    """PyTorch's dtype of a number of its C interface."""
    return getattr(torch, _DTYPES[number]) if isinstance(number, int) else None
