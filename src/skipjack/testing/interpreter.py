"""What a nest computes, by NumPy and without a schedule: the reference for generated code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.nest import (
    SLOPES,
    Access,
    Accumulator,
    Affine,
    Call,
    Constant,
    Load,
    Nest,
    Scalar,
)
from skipjack.operations import get
from skipjack.operations.elementwise import ELEMENTWISE, Elementwise

Array = npt.NDArray[Any]


def _slope(name: str) -> Callable[..., Any]:
    operation = get(name)
    assert isinstance(operation, Elementwise)
    return operation.function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{operation.name: operation.function for operation in ELEMENTWISE},
    **{name: _slope(name) for name in SLOPES},
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0.0),
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
}


def interpret(nest: Nest, inputs: Sequence[Array]) -> Array:
    """The nest's output, in the precision of the inputs. All iterations are in memory at once."""
    shape = tuple(extent for _, extent in nest.loops)
    grid = dict(zip((name for name, _ in nest.loops), np.indices(shape, sparse=True), strict=True))
    loaded = [
        np.broadcast_to(array.reshape(access.tensor.shape)[_places(access, grid)], shape)
        for access, array in zip(nest.inputs, inputs, strict=True)
    ]
    values = np.broadcast_to(_scalar(nest.body, loaded, None), shape)
    axes = tuple(at for at, (name, _) in enumerate(nest.loops) if name in set(nest.reduction_loops))
    if nest.reduction:
        total = _REDUCTIONS[nest.reduction](values, axis=axes, keepdims=True)
        # What an epilogue loads does not depend on the reduced loops: any of their rounds will do.
        first = tuple(slice(0, 1) if at in axes else slice(None) for at in range(len(shape)))
        values = _scalar(nest.epilogue, [array[first] for array in loaded], total)
    out = np.full(nest.output.tensor.shape, np.nan, values.dtype)
    out[_places(nest.output, grid)] = values.reshape(out[_places(nest.output, grid)].shape)
    return out


def _places(access: Access, grid: dict[str, Array]) -> tuple[Array, ...]:
    return tuple(_index(at, grid) for at in access.indices)


def _index(at: Affine, grid: dict[str, Array]) -> Array:
    used = [grid[name] * factor for name, factor in at.terms if factor]
    return np.asarray(sum(used, start=np.int64(at.constant)))


def _scalar(scalar: Scalar, loaded: Sequence[Array], total: Array | None) -> Array:
    match scalar:
        case Load(operand):
            return loaded[operand]
        case Constant(value):
            return np.asarray(value)
        case Accumulator():
            if total is None:
                raise ValueError("an accumulator outside of an epilogue")
            return total
        case Call(name, arguments):
            result: Array = FUNCTIONS[name](*(_scalar(part, loaded, total) for part in arguments))
            return result
