"""The arrays that a kernel on a CPU takes, of NumPy and of others: checked against its problem."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core import Problem, Tensor, numpy_dtype
from skipjack.errors import ArgumentTypeError, UsageError
from skipjack.native import aligned
from skipjack.operations import get, is_padded, outputs, tensor_dtype
from skipjack.reading import numbered

# The arrays that a kernel takes: checked against its problem, or refused with a message.
#
# A kernel reads and writes memory by address, so it is never called on unchecked arrays.

Array = npt.NDArray[Any]
Out = Array | Sequence[Array | None] | Mapping[str, Array] | None
"""Where to write: an array for the main output; a sequence with one for each output, or None to
allocate it; or arrays by name. Outputs that are left out are allocated."""


def given_outputs(problem: Problem, names: Sequence[str], out: Any) -> Mapping[str, Any]:
    """The arrays of ``out=``, by the names of the outputs."""
    listed = ", ".join(names)
    if isinstance(out, Mapping):
        unknown = [str(name) for name in out if name not in names]
        if unknown:
            raise UsageError(f"{problem.key} has no output {unknown[0]}, only {listed}")
        return out
    if isinstance(out, list | tuple):
        if len(out) != len(names):
            raise UsageError(
                f"{problem.key} has the outputs {listed}: out= needs "
                f"{numbered(len(names), 'array')}, not {len(out)}"
            )
        return dict(zip(names, out, strict=True))
    return {names[0]: out}  # its type is checked later


class KernelArguments:
    """The arrays of one problem: inputs in the order of a call, then outputs."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.inputs, self.outputs = get(problem.operation).inputs(problem), outputs(problem)
        self.output_names = tuple(tensor.name for tensor in self.outputs)
        self.dtypes = {
            tensor.name: numpy_dtype(tensor_dtype(problem, tensor))
            for tensor in (*self.inputs, *self.outputs)
        }

    def arrays(self, inputs: Sequence[Array], out: Out, copies: bool) -> dict[str, Array]:
        """All arrays by name: inputs as a kernel needs them, copied only if that is allowed.

        Arrays of other packages become NumPy arrays of the same memory. Missing outputs are
        allocated. `UsageError` says what does not fit.
        """
        if len(inputs) != len(self.inputs):
            raise UsageError(
                f"{self._problem.key} takes {numbered(len(self.inputs), 'array')}, "
                f"not {len(inputs)}"
            )
        arrays = {
            tensor.name: self._readable(array, tensor, copies)
            for tensor, array in zip(self.inputs, inputs, strict=True)
        }
        given = given_outputs(self._problem, self.output_names, out)
        for number, tensor in enumerate(self.outputs):
            array = given.get(tensor.name)
            if array is None:
                array = aligned(tensor.shape, self.dtypes[tensor.name])
            else:
                listed = isinstance(out, list | tuple)
                name = f"out[{number}]" if listed else tensor.name
                array = self._writeable(array, tensor, arrays, name)
            arrays[tensor.name] = array
        return arrays

    def result(self, arrays: Mapping[str, Array], inputs: Sequence[Any], out: Out) -> Any:
        """The result of a call: the output, or a tuple of several.

        Outputs passed by the caller are returned as they are; allocated ones are PyTorch tensors if
        all inputs are.
        """
        given = given_outputs(self._problem, self.output_names, out)
        results = []
        for name in self.output_names:
            own = given.get(name)
            results.append(_made_for(inputs, arrays[name]) if own is None else own)
        return tuple(results) if len(results) > 1 else results[0]

    def seen(self, inputs: Sequence[Any], out: Any) -> tuple[Sequence[Array], Any]:
        """Inputs and one output as NumPy arrays; `UsageError` names one that is not an array."""
        names = [tensor.name for tensor in self.inputs]
        names += ["an input"] * (len(inputs) - len(names))  # too many: refused later
        arrays = [_as_numpy(array, name) for array, name in zip(inputs, names, strict=False)]
        return arrays, None if out is None else _as_numpy(out, self.output_names[0])

    def _readable(self, given: Any, tensor: Tensor, copies: bool) -> Array:
        """An input as a kernel needs it."""
        array = self._checked(given, tensor, tensor.name)
        lacks = _lacks(array)
        if not lacks:
            return array
        if not copies:
            raise UsageError(
                f"{tensor.name} is not {lacks}, which bind() requires because a bound kernel "
                "reads it again at every call; bind a copy"
            )
        return np.require(array, requirements=("C", "A"))

    def _writeable(
        self, given: Any, tensor: Tensor, others: Mapping[str, Array], name: str
    ) -> Array:
        """An output array of the caller."""
        array = self._checked(given, tensor, name)
        lacks = _lacks(array, written=True)
        if lacks:
            raise UsageError(f"{name} is not {lacks}, which an output array must be")
        if any(np.may_share_memory(array, other) for other in others.values()):
            raise UsageError(f"{name} must not overlap an input or another output")
        return array

    def _checked(self, given: Any, tensor: Tensor, name: str) -> Array:
        shape, storage, array = tensor.shape, self.dtypes[tensor.name], _as_numpy(given, name)
        if _is_masked(array):
            raise UsageError(
                f"{name} is a masked array, and a kernel ignores masks; pass its filled() copy, "
                "or its data"
            )
        fits = array.shape == shape or is_padded(array.shape, shape, len(self.outputs[0].shape))
        if not fits or array.dtype != storage:
            raise UsageError(
                f"{name} must be {storage} of shape {shape}, "
                f"not {array.dtype} of shape {array.shape}"
            )
        return array


def _as_numpy(array: Any, name: str) -> Array:
    """The memory of an array as NumPy sees it; `UsageError`."""
    if isinstance(array, np.ndarray):
        return array
    pass  # most programs do not need it

    return array_of(array, name)


def _made_for(inputs: Sequence[Any], array: Array) -> Any:
    """An allocated output, as a PyTorch tensor if all inputs are PyTorch tensors."""
    if not inputs or isinstance(inputs[0], np.ndarray):
        return array
    pass

    return as_tensor(array) if is_torch(inputs) else array


def _is_masked(array: Array) -> bool:
    # The first access to `np.ma` imports it; a process forked meanwhile would wait for that.
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, getattr(masked, "MaskedArray", ()))


def _lacks(array: Array, *, written: bool = False) -> str:
    """The properties that a kernel needs and an array lacks; empty if it lacks none."""
    flags = array.flags
    needs = {"contiguous": flags.c_contiguous, "aligned to its elements": flags.aligned}
    if written:
        needs["writeable"] = flags.writeable
    return " and not ".join(need for need, met in needs.items() if not met)


# Arrays of other packages in the CPU's memory, as NumPy arrays of the same memory.
#
# Accepted are PyTorch tensors, and objects with DLPack or an ``__array_interface__``. Nothing is
# copied or converted: arrays that do not fit a kernel are refused with a message.

_CPU_MEMORY = 1
"""DLPack's device type of the CPU."""


def array_of(array: object, name: str) -> Array:
    """The memory of an array as a NumPy array; `UsageError` says why that is impossible.

    `name` is the kernel's name for it.
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
    """Whether all of these are PyTorch tensors."""
    torch = sys.modules.get("torch")
    return torch is not None and all(isinstance(array, torch.Tensor) for array in arrays)


def as_tensor(array: Array) -> Any:
    """The same memory as a PyTorch tensor."""
    return sys.modules["torch"].from_numpy(array)


def _of_torch(tensor: Any, name: str, torch: Any) -> Array:
    if tensor.device.type == "meta":
        raise UsageError(f"{name} is a meta tensor, which has no data")
    if tensor.device.type != "cpu":
        raise UsageError(
            f"{name} is on {tensor.device}, and the kernel runs on the CPU: pass {name}.cpu(), or "
            "look the problem up with device='gpu'"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise UsageError(
            f"{name} requires grad, and a kernel computes no gradients: pass {name}.detach(), or "
            "call it under torch.no_grad()"
        )
    try:
        seen: Array = (tensor.detach() if tensor.requires_grad else tensor).numpy()
    except (TypeError, RuntimeError) as error:
        kind = f"{tensor.dtype}, {tensor.layout}".replace("torch.", "")
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"{name} is a tensor of {kind}, which cannot become a NumPy array: {reason}"
        ) from None
    return seen


def _by_dlpack(array: Any, name: str) -> Array | None:
    """The array by DLPack; None if the object does not support it."""
    if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
        return None
    kind = int(array.__dlpack_device__()[0])
    if kind != _CPU_MEMORY:
        raise UsageError(
            f"{name} is not in the CPU's memory (its DLPack device is of type {kind}), and the "
            "kernel runs on the CPU: pass a copy in the CPU's memory"
        )
    try:
        return np.from_dlpack(array)
    except (BufferError, TypeError, RuntimeError, ValueError) as error:
        if hasattr(array, "__array_interface__"):
            return None
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{name} cannot be imported by DLPack: {reason}") from None


def _by_interface(array: object, name: str) -> Array:
    try:
        return np.asarray(array)
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"the __array_interface__ of {name} cannot be used: {reason}") from None


def _no_array(array: object, name: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name} must be a NumPy array, a PyTorch tensor, or an object with DLPack or "
        f"__array_interface__, not {type(array).__name__}"
    )
