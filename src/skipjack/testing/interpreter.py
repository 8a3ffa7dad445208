"""What a nest or a row program computes, by NumPy and without a schedule: the reference for
generated code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core import (
    SLOPES,
    Access,
    Accumulator,
    Affine,
    Call,
    Constant,
    Load,
    Nest,
    RowProgram,
    Scalar,
    View,
)
from skipjack.operations import ELEMENTWISE, Elementwise, get

# Computes a nest by NumPy without a schedule, as a reference for generated code.

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
        np.broadcast_to(array.reshape(access.tensor.shape)[_indices(access, grid)], shape)
        for access, array in zip(nest.inputs, inputs, strict=True)
    ]
    values = np.broadcast_to(_scalar(nest.body, loaded, None), shape)
    axes = tuple(at for at, (name, _) in enumerate(nest.loops) if name in set(nest.reduction_loops))
    if nest.reduction:
        total = _REDUCTIONS[nest.reduction](values, axis=axes, keepdims=True)
        # What an epilogue loads does not depend on the reduced loops: any iteration will do.
        first = tuple(slice(0, 1) if at in axes else slice(None) for at in range(len(shape)))
        values = _scalar(nest.epilogue, [array[first] for array in loaded], total)
    out = np.full(nest.output.tensor.shape, np.nan, values.dtype)
    out[_indices(nest.output, grid)] = values.reshape(out[_indices(nest.output, grid)].shape)
    return out


def _indices(access: Access, grid: dict[str, Array]) -> tuple[Array, ...]:
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


# Computes a row program by NumPy, one statistic after the other.


def interpret_program(program: RowProgram, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The program's outputs by name, in the precision of the inputs."""
    loaded = [_seen(program, view, arrays[view.tensor.name]) for view in program.inputs]
    known: dict[str, Array] = {}
    for statistic in program.statistics:
        values = np.broadcast_to(_row_scalar(statistic.body, loaded, known), _shape(program))
        reduce: Callable[..., Any] = np.sum if statistic.reduction == "sum" else np.fmax.reduce
        total = reduce(values, axis=(1, 2), keepdims=True)
        known[statistic.name] = _row_scalar(statistic.epilogue, loaded, {**known, "": total})
    written = [(program.output, program.body)]
    written += [(result.view, result.value) for result in program.results]
    found = {
        view.tensor.name: _stored(program, view, _row_scalar(scalar, loaded, known))
        for view, scalar in written
    }
    for one in program.column_sums:
        values = np.broadcast_to(_row_scalar(one.value, loaded, known), _shape(program))
        total = np.sum(values, axis=0, keepdims=True)
        found[one.view.tensor.name] = _stored(program, one.view, total)
    return found


def _stored(program: RowProgram, view: View, values: Array) -> Array:
    """An array with NaN in all elements that the program does not write."""
    out = np.full(view.tensor.size, np.nan, values.dtype)
    out[_row_indices(program, view)] = np.broadcast_to(values, _shape(program))
    return out.reshape(view.tensor.shape)


def _shape(program: RowProgram) -> tuple[int, int, int]:
    return program.groups, program.segments, program.columns


def _row_indices(program: RowProgram, view: View) -> Array:
    group, segment, column = np.indices(_shape(program), sparse=True)
    places: Array = group * view.group + segment * view.segment + column * view.column
    return places + view.offset


def _seen(program: RowProgram, view: View, array: Array) -> Array:
    seen: Array = array.reshape(-1)[_row_indices(program, view)]
    return seen


def _row_scalar(scalar: Scalar, loaded: list[Array], known: Mapping[str, Array]) -> Array:
    match scalar:
        case Load(operand):
            return loaded[operand]
        case Constant(value):
            return np.asarray(value, loaded[0].dtype)
        case Accumulator(name):
            return known[name]
        case Call(name, arguments):
            result: Array = FUNCTIONS[name](
                *(_row_scalar(part, loaded, known) for part in arguments)
            )
            return result
