"""Whether PyTorch refuses a call, and in which words."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from skipjack.integrations.torch.abi import torch_module
from skipjack.integrations.torch.calls import DTYPES, TensorFacts, TorchCall
from skipjack.integrations.torch.racing.sample import device_of, dtype_of, sample_argument
from skipjack.integrations.torch.signatures import TorchBackend

_BATCHES = {"convolution": (0,), "convolution_backward": (0, 1)}
"""Arguments with a batch, of operations whose kernels check more than those of meta tensors."""


def why_invalid(call: TorchCall) -> str:
    """PyTorch's own words about a call that it refuses; empty if it does not.

    It is tried on tensors without memory. What cannot be tried is left to PyTorch's kernel.
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
    """With batches of no element there is nothing to compute; a mix of dtypes needs elements."""
    dtypes = {tensor.dtype for tensor in call.tensors}
    if len(dtypes) > 1 or not dtypes <= set(DTYPES):
        return list(arguments)
    given = list(arguments)
    for place in _BATCHES[call.signature.name]:
        if given[place].dim():
            given[place] = given[place][:0]
    return given


def _words_of_its_kernel(torch: Any, call: TorchCall, arguments: Sequence[Any]) -> str:
    """What PyTorch's kernel itself says; those for tensors without memory have words of their own.

    It checks before it computes, so that the tensors need not hold anything.
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
        return ""  # it may have room the next time
    except Exception as error:
        return str(error).split("\n")[0]
    return ""


@functools.cache
def own_kernel(name: str, backend: TorchBackend) -> Any:
    """PyTorch's own kernel of an operation; first to be asked for before ours is registered."""
    return torch_module().library.get_kernel(f"aten::{name}", backend.key)
