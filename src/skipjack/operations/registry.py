"""The registry of operations by name, and the parser of problems."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard, get_args

import numpy as np

from skipjack.core import (
    DTYPES,
    Arrays,
    DirectCall,
    Directed,
    LetteredShape,
    NestOperation,
    Operation,
    OperationClass,
    PaddedCheck,
    Problem,
    ProgramOperation,
    Projectable,
    SeveralOutputs,
    Tensor,
    TorchMagnitude,
    check_members,
    excerpt,
    listed,
    parse_shape,
    plugin_label,
    split_key,
)
from skipjack.errors import ForeignError, ProblemError, UsageError, foreign_code

if TYPE_CHECKING:
    from skipjack.plugins import EntryPoints

_MAX_ELEMENTS = 2**48
"""Exceeds any memory, and keeps sizes far from 64-bit overflow."""
_SHOWN = 30
"""Maximum number of names in a message."""

_FAMILIES = {
    "skipjack.operations.matmul:PRODUCTS": "matmul bmm",
    "skipjack.operations.elementwise:ELEMENTWISE": (
        "add sub mul div maximum minimum bias scale neg abs square sqrt reciprocal relu exp log "
        "tanh erf rsqrt sigmoid silu gelu gelu_tanh"
    ),
    "skipjack.operations.activation_gradients:ACTIVATION_GRADIENTS": (
        "relu_backward sigmoid_backward tanh_backward silu_backward gelu_backward "
        "gelu_tanh_backward"
    ),
    "skipjack.operations.reduce:REDUCTIONS": "sum mean prod max min absmax sumsq norm",
    "skipjack.operations.normalization:NORMALIZATIONS": "softmax logsoftmax rmsnorm",
    "skipjack.operations.layernorm:LAYERNORMS": "layernorm layernorm_backward",
    "skipjack.operations.normalization:ROW_GRADIENTS": "softmax_backward logsoftmax_backward",
    "skipjack.operations.batchnorm:BATCHNORMS": "batchnorm",
    "skipjack.operations.convolution:CONVOLUTIONS": (
        "conv2d conv3d conv_transpose2d conv_transpose3d"
    ),
}
"""Tuples of operations as ``module:NAME``, and the names of the operations in each. A module is
loaded when one of its operations is first used."""
_known: dict[str, Operation | str] = {
    name: family for family, names_ in _FAMILIES.items() for name in names_.split()
}
"""Registered operations, and the families of built-in ones."""

_PROTOCOLS = (
    *(NestOperation, ProgramOperation, SeveralOutputs, LetteredShape),
    *(DirectCall, TorchMagnitude, PaddedCheck, Projectable),
)
"""Protocols whose methods an operation may have; the first two extend `Operation`."""


def register(operation: Operation) -> None:
    """Register an operation, so that keys of problems can use its name."""
    from skipjack.core import check_new_name, guard_methods

    check_members("operation", operation, Operation)
    check_new_name("operation", operation.name, _known)
    _check_values(operation)
    guard_methods("operation", operation, _PROTOCOLS)
    _known[operation.name] = operation


def _known_operation(name: str) -> object | None:
    return _known.get(name)


def _add_installed(name: str, found: object) -> None:
    from skipjack.plugins import named_instance

    register(named_instance("operation", name, found))


@functools.cache
def installed() -> EntryPoints:
    """Plug-ins of other distributions, which a hit in the bank does not load."""
    from skipjack.plugins import EntryPoints

    return EntryPoints("operation", "skipjack.operations", _known_operation, _add_installed)


def _check_values(operation: Operation) -> None:
    this = plugin_label("operation", operation)
    with foreign_code(this):
        classed, dtypes = operation.operation_class, tuple(operation.dtypes)
        low, high = operation.domain
        known = bool(dtypes) and all(dtype in DTYPES for dtype in dtypes)
        ordered = -math.inf < low <= high < math.inf
    if classed not in get_args(OperationClass):
        raise UsageError(f"{this}: operation_class is {classed!r}; write cube or vector")
    if not known:
        raise UsageError(f"{this}: dtypes are {dtypes!r}; choose from {', '.join(DTYPES)}")
    if not ordered:
        raise UsageError(
            f"{this}: domain is {operation.domain!r}; give finite bounds, the lower one first"
        )


def comes_with_skipjack(name: str) -> bool:
    """Whether the operation is built in and not of a plug-in."""
    return isinstance(_known.get(name), str)


def names() -> list[str]:
    """The names of all operations, sorted."""
    installed().load_all()
    return sorted(_known)


def is_known(name: str) -> bool:
    """Whether `get` finds it; searches other distributions if it is not built in."""
    if name not in _known:
        installed().load(name)
    return name in _known


def get(name: str) -> Operation:
    """The operation with this name; `ProblemError` suggests the closest name."""
    if not is_known(name):
        from skipjack.core import closest_names

        close = closest_names(excerpt(name), names())
        hint = f"did you mean {close[0]}?" if close else _some_names()
        raise ProblemError(f"unknown operation {excerpt(name)!r}: {hint}")
    known = _known[name]
    return _of_family(known)[name] if isinstance(known, str) else known


def _some_names() -> str:
    every = names()
    more = f" and {len(every) - _SHOWN} others" if len(every) > _SHOWN else ""
    return f"choose from {', '.join(every[:_SHOWN])}{more}"


@functools.cache
def _of_family(family: str) -> Mapping[str, Operation]:
    module, _, name = family.partition(":")
    found = getattr(importlib.import_module(module), name)
    return {operation.name: operation for operation in found}


def parse(
    text: str,
    dtype: str | None = None,
    *,
    layout: str | None = None,
    direction: str | None = None,
) -> Problem:
    """Parse a key or a short form of it; the keyword arguments fill in what it omits.

    A layout or direction applies to operations that have several; the others ignore it.
    """
    if not isinstance(text, str):
        raise ProblemError(f"a problem is a string such as matmul:192x192x192, not {text!r}")
    parts = split_key(text)
    operation = get(parts.operation)
    where = excerpt(text)
    requested = {"dtype": dtype}
    if _is_directed(operation):
        requested |= {"layout": layout.upper() if layout else None, "direction": direction}
    chosen = _suffixes(parts.suffixes, operation, requested, where)
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
    texts: Sequence[str], operation: Operation, requested: Mapping[str, str | None], where: str
) -> dict[str, str]:
    """Dtype, layout and direction, from the key and from the request."""
    if len(texts) > len(requested):
        what = "a dtype" if len(requested) == 1 else "a dtype, a layout and a direction"
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
                f"unknown dtype, layout or direction {excerpt(text)!r} for {operation.name}: "
                f"choose {choices}"
            )
        kind = kind or "dtype"
        if kind in found:
            raise ProblemError(f"problem {where!r} gives a {kind} twice: {excerpt(text)!r}")
        found[kind] = text
    for kind, request in requested.items():
        if request and kind in found and found[kind] != request:
            raise ProblemError(
                f"problem {where!r} says {excerpt(found[kind])} but the {kind} asked for is "
                f"{request}"
            )
        default = operation.dtypes[0] if kind == "dtype" else known[kind][0]
        found.setdefault(kind, request or default)
        if kind != "dtype" and found[kind] not in known[kind]:
            raise UsageError(
                f"unknown {kind} {excerpt(found[kind])!r} for {operation.name}: "
                f"choose {' or '.join(known[kind])}"
            )
    check_dtype(found["dtype"], operation)
    return found


# isinstance with a protocol would take most of the time of parsing a key; its result is cached.
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
    """The dtype; `UsageError` if the operation does not support it."""
    if dtype not in DTYPES or dtype not in operation.dtypes:
        known = listed(operation.dtypes, "or")
        order = "; attributes come before the dtype" if "/" in dtype else ""
        raise UsageError(
            f"unknown dtype {excerpt(dtype)!r} for {operation.name}: choose {known}{order}"
        )
    return dtype


def outputs(problem: Problem) -> tuple[Tensor, ...]:
    """All outputs, the main output first."""
    operation = get(problem.operation)
    if _has_several(operation):
        return operation.outputs(problem)
    return (operation.output(problem),)


def references(problem: Problem, arrays: Arrays) -> Arrays:
    """Each output by name, computed by NumPy in the precision of the inputs."""
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
    """The result of a method; `ForeignError` unless it has the shapes of the outputs."""
    for tensor in outputs(problem):
        shape = np.shape(found[tensor.name]) if tensor.name in found else None
        if shape != tensor.shape:
            actual = "nothing" if shape is None else f"an array of shape {shape}"
            raise ForeignError(
                f"{method} of {plugin_label('operation', get(problem.operation))} returned "
                f"{actual} for {tensor.name} of {problem.key}, whose shape is {tensor.shape}"
            )
    return found


def tensors(problem: Problem) -> tuple[Tensor, ...]:
    """Inputs in the order of a call, then the outputs."""
    return (*get(problem.operation).inputs(problem), *outputs(problem))


def tensor_dtype(problem: Problem, tensor: Tensor) -> str:
    """The name of the element type in which a tensor of a problem is stored."""
    return tensor.dtype or problem.dtype


def bytes_moved(problem: Problem) -> int:
    """Minimum memory traffic of one run: every tensor once."""
    return sum(
        tensor.size * DTYPES[tensor_dtype(problem, tensor)].bytes for tensor in tensors(problem)
    )


MEMORY_SHARE = 0.8
"""Default share of a device's memory that `arrays_bytes` may take."""


def arrays_bytes(problem: Problem) -> int:
    """Memory for tuning: the tensors, and float64 copies for verification."""
    elements = sum(tensor.size for tensor in tensors(problem))
    operation = get(problem.operation)
    besides = operation.check_elements(problem) if isinstance(operation, PaddedCheck) else 0
    return bytes_moved(problem) * 2 + elements * 16 + besides * 8
