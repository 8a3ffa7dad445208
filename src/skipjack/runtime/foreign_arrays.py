"""Arrays of others in this machine's memory, seen as NumPy arrays of the same memory.

Tensors of PyTorch, and whatever speaks DLPack or has an ``__array_interface__``. Nothing is copied
or converted: what does not fit a kernel is refused in a sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.errors import ArgumentTypeError, UsageError

Array = npt.NDArray[Any]
_CPU_MEMORY = 1
"""DLPack's number for it."""


def array_of(array: object, name: str) -> Array:
    """The memory of an array as NumPy sees it; `UsageError` says why that cannot be.

    `name` is how the kernel calls it.
    """
    if isinstance(array, np.ndarray):
        return array
    if isinstance(array, np.generic):
        raise _no_array(array, name)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(array, name, torch)
    found = _by_dlpack(array, name)
    if found is None and hasattr(array, "__array_interface__"):
        found = _by_interface(array, name)
    if found is None:
        raise _no_array(array, name)
    return found


def is_torch(arrays: Sequence[object]) -> bool:
    """Whether these are tensors of PyTorch, all of them."""
    torch = sys.modules.get("torch")
    return torch is not None and all(isinstance(array, torch.Tensor) for array in arrays)


def as_tensor(array: Array) -> Any:
    """The same memory as a tensor of PyTorch."""
    return sys.modules["torch"].from_numpy(array)


def _of_torch(tensor: Any, name: str, torch: Any) -> Array:
    if tensor.device.type == "meta":
        raise UsageError(f"{name} is a meta tensor, which holds no numbers")
    if tensor.device.type != "cpu":
        raise UsageError(
            f"{name} is on {tensor.device}, and the kernel runs on the CPU: give {name}.cpu(), or "
            "look the problem up with device='gpu'"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise UsageError(
            f"{name} requires grad, and a kernel computes no gradients: give {name}.detach(), or "
            "call it under torch.no_grad()"
        )
    try:
        seen: Array = (tensor.detach() if tensor.requires_grad else tensor).numpy()
    except (TypeError, RuntimeError) as error:
        kind = f"{tensor.dtype}, {tensor.layout}".replace("torch.", "")
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"{name} is a tensor of {kind}, and its memory is not a NumPy array's: {reason}"
        ) from None
    return seen


def _by_dlpack(array: Any, name: str) -> Array | None:
    """None for who does not speak it, or has nothing to give by it."""
    if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
        return None
    kind = int(array.__dlpack_device__()[0])
    if kind != _CPU_MEMORY:
        raise UsageError(
            f"{name} is not in the CPU's memory (its DLPack device is of type {kind}), and the "
            "kernel runs on the CPU: give a copy of it that is"
        )
    try:
        return np.from_dlpack(array)
    except (BufferError, TypeError, RuntimeError, ValueError) as error:
        if hasattr(array, "__array_interface__"):
            return None
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{name} cannot be taken by DLPack: {reason}") from None


def _by_interface(array: object, name: str) -> Array:
    try:
        return np.asarray(array)
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"the __array_interface__ of {name} is of no use: {reason}") from None


def _no_array(array: object, name: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name} must be a NumPy array, not {type(array).__name__}; a tensor of PyTorch, or "
        "something with DLPack or __array_interface__, will do as well"
    )
