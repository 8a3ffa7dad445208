"""What a row program computes, by NumPy and one statistic after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core.nest import Accumulator, Call, Constant, Load, Scalar
from skipjack.core.program import RowProgram, View
from skipjack.testing.interpreter import FUNCTIONS

Array = npt.NDArray[Any]


def interpret_program(program: RowProgram, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The program's outputs by name, in the precision of the inputs."""
    loaded = [_seen(program, view, arrays[view.tensor.name]) for view in program.inputs]
    known: dict[str, Array] = {}
    for statistic in program.statistics:
        values = np.broadcast_to(_scalar(statistic.body, loaded, known), _shape(program))
        reduce: Callable[..., Any] = np.sum if statistic.reduction == "sum" else np.fmax.reduce
        total = reduce(values, axis=(1, 2), keepdims=True)
        known[statistic.name] = _scalar(statistic.epilogue, loaded, {**known, "": total})
    written = [(program.output, program.body)]
    written += [(result.view, result.value) for result in program.results]
    found = {
        view.tensor.name: _stored(program, view, _scalar(scalar, loaded, known))
        for view, scalar in written
    }
    for one in program.column_sums:
        values = np.broadcast_to(_scalar(one.value, loaded, known), _shape(program))
        total = np.sum(values, axis=0, keepdims=True)
        found[one.view.tensor.name] = _stored(program, one.view, total)
    return found


def _stored(program: RowProgram, view: View, values: Array) -> Array:
    """An array with NaN wherever the program writes nothing."""
    out = np.full(view.tensor.size, np.nan, values.dtype)
    out[_places(program, view)] = np.broadcast_to(values, _shape(program))
    return out.reshape(view.tensor.shape)


def _shape(program: RowProgram) -> tuple[int, int, int]:
    return program.groups, program.segments, program.columns


def _places(program: RowProgram, view: View) -> Array:
    group, segment, column = np.indices(_shape(program), sparse=True)
    places: Array = group * view.group + segment * view.segment + column * view.column
    return places + view.offset


def _seen(program: RowProgram, view: View, array: Array) -> Array:
    seen: Array = array.reshape(-1)[_places(program, view)]
    return seen


def _scalar(scalar: Scalar, loaded: list[Array], known: Mapping[str, Array]) -> Array:
    match scalar:
        case Load(operand):
            return loaded[operand]
        case Constant(value):
            return np.asarray(value, loaded[0].dtype)
        case Accumulator(name):
            return known[name]
        case Call(name, arguments):
            result: Array = FUNCTIONS[name](*(_scalar(part, loaded, known) for part in arguments))
            return result
