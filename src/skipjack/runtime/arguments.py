"""Which arrays a kernel takes: checked against its problem, or refused in a sentence.

A kernel reads and writes memory by address, so that nothing is called on arrays that were not
checked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.dtypes import numpy_dtype
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.native.memory import aligned
from skipjack.operations import get, is_padded, outputs, tensor_dtype

Array = npt.NDArray[Any]
Out = Array | Sequence[Array | None] | Mapping[str, Array] | None
"""Where to write: the main output's array; one for each output in order, with None for those to be
made; or arrays by name. What is left out is made."""


def given_outputs(problem: Problem, names: Sequence[str], out: Any) -> Mapping[str, Any]:
    """What ``out=`` gives to write into, by the outputs' names."""
    listed = ", ".join(names)
    if isinstance(out, Mapping):
        unknown = [str(name) for name in out if name not in names]
        if unknown:
            raise UsageError(f"{problem.key} has no output {unknown[0]}, only {listed}")
        return out
    if isinstance(out, list | tuple):
        if len(out) != len(names):
            raise UsageError(
                f"{problem.key} has the outputs {listed}: out= takes as many arrays, "
                f"{len(out)} were given"
            )
        return dict(zip(names, out, strict=True))
    return {names[0]: out}  # refused by its type if wrong


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

        Those of others are seen as NumPy arrays. Outputs that are not given are made. `UsageError`
        says what does not fit.
        """
        if len(inputs) != len(self.inputs):
            raise UsageError(
                f"{self._problem.key} takes {len(self.inputs)} arrays, {len(inputs)} were given"
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
        """What a call of these inputs gives: the output, or a tuple of several.

        Outputs that were given are given back; those that were made are tensors of PyTorch where
        all inputs are.
        """
        given = given_outputs(self._problem, self.output_names, out)
        results = []
        for name in self.output_names:
            own = given.get(name)
            results.append(_made_for(inputs, arrays[name]) if own is None else own)
        return tuple(results) if len(results) > 1 else results[0]

    def seen(self, inputs: Sequence[Any], out: Any) -> tuple[Sequence[Array], Any]:
        """Inputs and one output as NumPy arrays; `UsageError` says what is none."""
        names = [tensor.name for tensor in self.inputs]
        names += ["an input"] * (len(inputs) - len(names))  # too many, which is told later
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
                f"{tensor.name} is not {lacks}, and must be to be bound, since a bound kernel "
                "reads it anew at every call; bind a copy"
            )
        return np.require(array, requirements=("C", "A"))

    def _writeable(
        self, given: Any, tensor: Tensor, others: Mapping[str, Array], name: str
    ) -> Array:
        """An output that was given."""
        array = self._checked(given, tensor, name)
        lacks = _lacks(array, written=True)
        if lacks:
            raise UsageError(f"{name} is not {lacks}, as an array that is written must be")
        if any(np.may_share_memory(array, other) for other in others.values()):
            raise UsageError(f"{name} must not overlap an input or another output")
        return array

    def _checked(self, given: Any, tensor: Tensor, name: str) -> Array:
        shape, storage, array = tensor.shape, self.dtypes[tensor.name], _as_numpy(given, name)
        if _is_masked(array):
            raise UsageError(
                f"{name} is a masked array, whose mask a kernel does not see; give its filled() "
                "copy, or its data"
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
    from skipjack.runtime.foreign_arrays import array_of  # most programs need none of it

    return array_of(array, name)


def _made_for(inputs: Sequence[Any], array: Array) -> Any:
    """An output that was made, as what the inputs are: a tensor of PyTorch if all of them are."""
    if not inputs or isinstance(inputs[0], np.ndarray):
        return array
    from skipjack.runtime.foreign_arrays import as_tensor, is_torch

    return as_tensor(array) if is_torch(inputs) else array


def _is_masked(array: Array) -> bool:
    # `np.ma` is imported when first named, which a process forked meanwhile would wait for.
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, getattr(masked, "MaskedArray", ()))


def _lacks(array: Array, *, written: bool = False) -> str:
    """What an array is not that a kernel needs it to be; empty if there is nothing."""
    flags = array.flags
    needs = {"contiguous": flags.c_contiguous, "aligned to its elements": flags.aligned}
    if written:
        needs["writeable"] = flags.writeable
    return " and not ".join(need for need, met in needs.items() if not met)
