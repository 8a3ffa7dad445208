"""The known operations by name, and the way from a problem's text to a checked problem."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard, get_args

import numpy as np

from skipjack.core.dtypes import DTYPES, listed
from skipjack.core.membership import called, check_members
from skipjack.core.nest import Tensor
from skipjack.core.operation import (
    Arrays,
    DirectCall,
    Directed,
    LetteredShape,
    NestOperation,
    Operation,
    OperationClass,
    PaddedCheck,
    ProgramOperation,
    Projectable,
    SeveralOutputs,
    TorchMagnitude,
)
from skipjack.core.problem import Problem, parse_shape, shown, split_key
from skipjack.errors import ForeignError, ProblemError, UsageError, blaming

if TYPE_CHECKING:
    from skipjack.entry_points import EntryPoints

_MAX_ELEMENTS = 2**48
"""More than any memory holds; keeps sizes far from 64-bit overflow."""
_SHOWN = 30
"""Names in a message."""

_FAMILIES = {
    "matmul:PRODUCTS": "matmul bmm",
    "elementwise:ELEMENTWISE": (
        "add sub mul div maximum minimum bias scale neg abs square sqrt reciprocal relu exp log "
        "tanh erf rsqrt sigmoid silu gelu gelu_tanh"
    ),
    "activation_gradients:ACTIVATION_GRADIENTS": (
        "relu_backward sigmoid_backward tanh_backward silu_backward gelu_backward "
        "gelu_tanh_backward"
    ),
    "reduce:REDUCTIONS": "sum mean prod max min absmax sumsq norm",
    "normalization:NORMALIZATIONS": "softmax logsoftmax rmsnorm",
    "layernorm:LAYERNORMS": "layernorm layernorm_backward",
    "row_gradients:ROW_GRADIENTS": "softmax_backward logsoftmax_backward",
    "batchnorm:BATCHNORMS": "batchnorm",
    "convolution:CONVOLUTIONS": "conv2d conv3d conv_transpose2d conv_transpose3d",
}
"""Tuples of operations as ``module:NAME`` of this package, and the names of those in each. A module
is loaded when one of its operations is asked for."""
_known: dict[str, Operation | str] = {
    name: family for family, names_ in _FAMILIES.items() for name in names_.split()
}
"""Operations of others, and the families of ours."""

_PROTOCOLS = (
    *(NestOperation, ProgramOperation, SeveralOutputs, LetteredShape),
    *(DirectCall, TorchMagnitude, PaddedCheck, Projectable),
)
"""Whose methods an operation has, or may have; the first two extend `Operation`."""


def register(operation: Operation) -> None:
    """Add an operation, so that its name can start a problem's key."""
    from skipjack.core.guarding import guard
    from skipjack.core.naming import check_new_name

    check_members("operation", operation, Operation)
    check_new_name("operation", operation.name, _known)
    _check_values(operation)
    guard("operation", operation, _PROTOCOLS)
    _known[operation.name] = operation


def _held(name: str) -> object | None:
    return _known.get(name)


def _add_installed(name: str, found: object) -> None:
    from skipjack.entry_points import named_instance

    register(named_instance("operation", name, found))


@functools.cache
def installed() -> EntryPoints:
    """Plug-ins of other distributions; a hit of the bank loads nothing of this."""
    from skipjack.entry_points import EntryPoints

    return EntryPoints("operation", "skipjack.operations", _held, _add_installed)


def _check_values(operation: Operation) -> None:
    this = called("operation", operation)
    with blaming(this):
        classed, dtypes = operation.operation_class, tuple(operation.dtypes)
        low, high = operation.domain
        known = bool(dtypes) and all(dtype in DTYPES for dtype in dtypes)
        ordered = -math.inf < low <= high < math.inf
    if classed not in get_args(OperationClass):
        raise UsageError(f"{this}: operation_class is {classed!r}; write cube or vector")
    if not known:
        raise UsageError(f"{this}: dtypes are {dtypes!r}; choose from {', '.join(DTYPES)}")
    if not ordered:
        raise UsageError(f"{this}: domain is {operation.domain!r}; give a least and a most value")


def comes_with_skipjack(name: str) -> bool:
    """Whether the operation of this name is ours and not of a plug-in."""
    return isinstance(_known.get(name), str)


def names() -> list[str]:
    """All known operations, sorted."""
    installed().load_all()
    return sorted(_known)


def is_known(name: str) -> bool:
    """Whether `get` finds it; other distributions are looked at if it is not ours."""
    if name not in _known:
        installed().load(name)
    return name in _known


def get(name: str) -> Operation:
    """The operation of this name; `ProblemError` with the closest match if there is none."""
    if not is_known(name):
        from skipjack.core.naming import closest

        close = closest(shown(name), names())
        hint = f"did you mean {close[0]}?" if close else _some_names()
        raise ProblemError(f"unknown operation {shown(name)!r}: {hint}")
    known = _known[name]
    return _of_family(known)[name] if isinstance(known, str) else known


def _some_names() -> str:
    """As many as a message has room for."""
    every = names()
    more = f" and {len(every) - _SHOWN} others" if len(every) > _SHOWN else ""
    return f"known are {', '.join(every[:_SHOWN])}{more}"


@functools.cache
def _of_family(family: str) -> Mapping[str, Operation]:
    module, _, name = family.partition(":")
    found = getattr(importlib.import_module(f"skipjack.operations.{module}"), name)
    return {operation.name: operation for operation in found}


def parse(
    text: str,
    dtype: str | None = None,
    *,
    layout: str | None = None,
    direction: str | None = None,
) -> Problem:
    """The problem that a full key or short form means; the others fill in what it leaves out.

    A layout or direction is for operations that have several, and says nothing to the others.
    """
    if not isinstance(text, str):
        raise ProblemError(f"a problem is a text such as matmul:192x192x192, not {text!r}")
    parts = split_key(text)
    operation = get(parts.operation)
    where = shown(text)
    asked = {"dtype": dtype}
    if _is_directed(operation):
        asked |= {"layout": layout.upper() if layout else None, "direction": direction}
    chosen = _suffixes(parts.suffixes, operation, asked, where)
    if _is_lettered(operation):
        shape, shape_text = operation.parse_shape(parts.shape, where)
    else:
        shape, shape_text = parse_shape(parts.shape, where), ""
    attributes = operation.check(shape, parts.attributes, where)
    problem = Problem(operation.name, shape, attributes=attributes, shape_text=shape_text, **chosen)
    if max(tensor.size for tensor in tensors(problem)) > _MAX_ELEMENTS:
        raise ProblemError(f"problem {where!r} is larger than any memory")
    return problem


def _suffixes(
    texts: Sequence[str], operation: Operation, asked: Mapping[str, str | None], where: str
) -> dict[str, str]:
    """Dtype, layout and direction, from the key and from what was asked for besides."""
    if len(texts) > len(asked):
        what = "a dtype" if len(asked) == 1 else "a dtype, a layout and a direction"
        raise ProblemError(
            f"problem {where!r}: {operation.name} takes {what} after the shape and nothing else"
        )
    known = {"dtype": tuple(DTYPES)}
    if _is_directed(operation):
        known |= {"layout": tuple(operation.layouts), "direction": tuple(operation.directions)}
    found: dict[str, str] = {}
    for text in texts:
        upper = text.upper()
        kind = next((name for name in known if text in known[name]), "")
        if upper in known.get("layout", ()):
            kind, text = "layout", upper
        if not kind and len(known) > 1:
            choices = ", ".join(" or ".join(values) for values in known.values())
            raise UsageError(
                f"unknown dtype, layout or direction {shown(text)!r} for {operation.name}: "
                f"choose {choices}"
            )
        kind = kind or "dtype"
        if kind in found:
            raise ProblemError(f"problem {where!r} gives a {kind} twice: {shown(text)!r}")
        found[kind] = text
    for kind, wish in asked.items():
        if wish and kind in found and found[kind] != wish:
            raise ProblemError(
                f"problem {where!r} says {shown(found[kind])} but the {kind} asked for is {wish}"
            )
        default = operation.dtypes[0] if kind == "dtype" else known[kind][0]
        found.setdefault(kind, wish or default)
        if kind != "dtype" and found[kind] not in known[kind]:
            raise UsageError(
                f"unknown {kind} {shown(found[kind])!r} for {operation.name}: "
                f"choose {' or '.join(known[kind])}"
            )
    check_dtype(found["dtype"], operation)
    return found


# Asking a protocol takes longer than all else in parsing a key, and its answer is the type's.
_conforms: dict[tuple[type, type], bool] = {}


def _is_a(operation: Operation, protocol: type) -> bool:
    kind = type(operation), protocol
    if kind not in _conforms:
        _conforms[kind] = isinstance(operation, protocol)
    return _conforms[kind]


def _is_directed(operation: Operation) -> TypeGuard[Directed]:
    return _is_a(operation, Directed)


def _is_lettered(operation: Operation) -> TypeGuard[LetteredShape]:
    return _is_a(operation, LetteredShape)


def _has_several(operation: Operation) -> TypeGuard[SeveralOutputs]:
    return _is_a(operation, SeveralOutputs)


def check_dtype(dtype: str, operation: Operation) -> str:
    """The dtype, if the operation can be computed in it."""
    if dtype not in DTYPES or dtype not in operation.dtypes:
        known = listed(operation.dtypes, "or")
        order = "; attributes stand before the dtype" if "/" in dtype else ""
        raise UsageError(
            f"unknown dtype {shown(dtype)!r} for {operation.name}: choose {known}{order}"
        )
    return dtype


def outputs(problem: Problem) -> tuple[Tensor, ...]:
    """All that is written, the main output first."""
    operation = get(problem.operation)
    if _has_several(operation):
        return operation.outputs(problem)
    return (operation.output(problem),)


def references(problem: Problem, arrays: Arrays) -> Arrays:
    """Each output by name, by NumPy and in the precision of the inputs given."""
    operation = get(problem.operation)
    if isinstance(operation, SeveralOutputs):
        return _shaped(problem, "references", operation.references(problem, arrays))
    found = {operation.output(problem).name: operation.reference(problem, arrays)}
    return _shaped(problem, "reference", found)


def magnitudes(problem: Problem, arrays: Arrays) -> Arrays:
    """The scale of rounding errors of each output, from inputs in float64."""
    operation = get(problem.operation)
    if isinstance(operation, SeveralOutputs):
        return _shaped(problem, "magnitudes", operation.magnitudes(problem, arrays))
    found = {operation.output(problem).name: operation.magnitude(problem, arrays)}
    return _shaped(problem, "magnitude", found)


def _shaped(problem: Problem, method: str, found: Arrays) -> Arrays:
    """What an operation's method gave, if that has the shapes of the outputs."""
    for tensor in outputs(problem):
        shape = np.shape(found[tensor.name]) if tensor.name in found else None
        if shape != tensor.shape:
            given = "nothing" if shape is None else f"an array of shape {shape}"
            raise ForeignError(
                f"{method} of {called('operation', get(problem.operation))} gave {given} for "
                f"{tensor.name} of {problem.key}, whose shape is {tensor.shape}"
            )
    return found


def tensors(problem: Problem) -> tuple[Tensor, ...]:
    """Inputs in the order of a call, then the outputs."""
    return (*get(problem.operation).inputs(problem), *outputs(problem))


def tensor_dtype(problem: Problem, tensor: Tensor) -> str:
    """The short name of the type that a problem's tensor is stored in."""
    return tensor.dtype or problem.dtype


def bytes_moved(problem: Problem) -> int:
    """Least traffic of one run: every tensor once."""
    return sum(
        tensor.size * DTYPES[tensor_dtype(problem, tensor)].bytes for tensor in tensors(problem)
    )


MEMORY_SHARE = 0.8
"""Of a device's memory, so much may be taken by `arrays_bytes` where nobody has set it."""


def arrays_bytes(problem: Problem) -> int:
    """Memory that tuning needs: the tensors, and float64 copies for the check."""
    elements = sum(tensor.size for tensor in tensors(problem))
    operation = get(problem.operation)
    besides = operation.check_elements(problem) if isinstance(operation, PaddedCheck) else 0
    return bytes_moved(problem) * 2 + elements * 16 + besides * 8
