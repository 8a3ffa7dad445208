"""Which of our problems a call of PyTorch's is: products, softmax, normalisations; convolutions are
next to it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from skipjack.errors import ProblemError
from skipjack.integrations.torch.matching.calls import (
    DTYPES,
    Argument,
    CallMatch,
    CallMatches,
    KernelPart,
    TensorFacts,
    TorchCall,
    contiguous,
    matches,
)
from skipjack.integrations.torch.matching.convolutions import (
    match_convolution,
    match_convolution_backward,
)
from skipjack.integrations.torch.stubs import (
    ARGUMENT,
    MOST_RANK,
    MUTABLE_ARGUMENT,
    OPTIONAL_ARGUMENT,
    RESULT,
    PlanOutput,
    PlanPlace,
)
from skipjack.operations import parse

# Matrix products, optionally with an added matrix or vector.


def _stored(facts: TensorFacts) -> bool | None:
    """Whether a matrix, or each of a batch, is stored transposed; None for other strides."""
    rows, columns = facts.sizes[-2:]
    if facts.is_contiguous:
        return False
    transposed = (*contiguous((*facts.sizes[:-2], columns, rows))[:-2], 1, rows)
    return True if matches(facts.sizes, facts.strides, transposed) else None


def _agree(a: TensorFacts, b: TensorFacts, rank: int) -> bool:
    """Whether two matrices can be multiplied."""
    if a.rank != rank or b.rank != rank:
        return False
    return a.sizes[:-2] == b.sizes[:-2] and a.sizes[-1] == b.sizes[-2]


def match_product(call: TorchCall) -> CallMatches:
    """A product, with an optional addend."""
    tensors = call.tensors
    a, b = tensors[-2:]
    if not _agree(a, b, 3 if call.signature.name.endswith("bmm") else 2):
        return CallMatches(reason="the shapes of its factors do not agree")
    ta, tb = _stored(a), _stored(b)
    if ta is None or tb is None:
        return CallMatches(reason="no kernel supports the strides of its factors")
    (m, k), n = a.sizes[-2:], b.sizes[-1]
    lead = a.sizes[:-2]
    output = (*lead, m, n)
    words = [name for name, is_so in (("ta=1", ta), ("tb=1", tb)) if is_so]
    first = len(tensors) - 2
    arrays = {"a": PlanPlace(ARGUMENT, first), "b": PlanPlace(ARGUMENT, first + 1)}
    if first:
        added = tensors[0]
        if added.is_contiguous and added.sizes == output:
            words.append("beta=1")
            arrays["c"] = PlanPlace(ARGUMENT, 0)
        elif added.is_contiguous and added.sizes == (n,):
            words.append("bias=1")
            arrays["bias"] = PlanPlace(ARGUMENT, 0)
        else:
            return CallMatches(reason="the added tensor is neither a row nor a full matrix")
    arrays["out"] = PlanPlace(RESULT, 0)
    name = "bmm" if lead else "matmul"
    shape = "x".join(map(str, (*lead, m, n, k)))
    problem = parse("/".join([f"{name}:{shape}", *words]) + f":{DTYPES[a.dtype]}")
    made = PlanOutput(0, output, contiguous(output), a.dtype)
    return CallMatches((CallMatch((KernelPart(problem, arrays),), (made,)),), is_valid=True)


# Softmax, normalizations of rows and channels, and their gradients.

_FULL = ("f32", "f64")
"""For narrower dtypes, PyTorch's statistics have other dtypes than ours."""
_ALL = (1, 1, 1)
_DIGITS = 4
"""The most decimals of an explicit momentum. Without one, PyTorch uses 1 / number of batches, and
each call would be another problem."""
_UNUSUAL = "its tensors are not all present and contiguous"
_SOFTMAX = {
    "_softmax": ("softmax", ("x",)),
    "_log_softmax": ("logsoftmax", ("x",)),
    "_softmax_backward_data": ("softmax_backward", ("dy", "y")),
    "_log_softmax_backward_data": ("logsoftmax_backward", ("dy", "y")),
}
"""Our operations, with the names of their inputs."""


def match_softmax(call: TorchCall) -> CallMatches:
    """Softmax along the last axis, and its gradient."""
    operation, names = _SOFTMAX[call.signature.name]
    tensors = call.tensors
    x, axis, switch = tensors[0], *call.arguments[len(tensors) :]
    if not x.sizes or axis not in (-1, x.rank - 1):
        return CallMatches(reason="it is not along the last axis")
    # A gradient has its dtype; the others have a flag to widen a narrow one.
    if switch != (x.dtype if len(tensors) == 2 else 0):
        return CallMatches(reason="its result has a different dtype")
    if not all(one.is_contiguous and one.sizes == x.sizes for one in tensors):
        return CallMatches(reason=_UNUSUAL)
    arrays = {name: PlanPlace(ARGUMENT, place) for place, name in enumerate(names)}
    key = f"{operation}:{prod(x.sizes[:-1])}x{x.sizes[-1]}:{DTYPES[x.dtype]}"
    return _match(key, {**arrays, "out": PlanPlace(RESULT, 0)}, x, x.sizes)


def match_layer_norm(call: TorchCall) -> CallMatches:
    """Layer norm with both vectors; the statistics of the rows are results, too."""
    x, row, weight, bias, eps = call.arguments
    if not _are_plain(x, weight, bias) or not isinstance(x, TensorFacts):
        return CallMatches(reason=_UNUSUAL)
    lead = _lead(x, row)
    if lead is None or not _are_of(row, weight, bias):
        return CallMatches(reason="the shapes of its vectors and rows differ")
    shape = f"{prod(lead)}x{prod(x.sizes[len(lead) :])}"
    arrays = {
        "x": PlanPlace(ARGUMENT, 0),
        "gamma": PlanPlace(OPTIONAL_ARGUMENT, 2),
        "beta": PlanPlace(OPTIONAL_ARGUMENT, 3),
        **_results("out", "mean", "invstd"),
    }
    of_rows = (*lead, *(1 for _ in x.sizes[len(lead) :]))
    key = f"layernorm:{shape}/eps={eps!r}/mode=train:{DTYPES[x.dtype]}"
    return _match(key, arrays, x, x.sizes, of_rows, of_rows)


def match_layer_norm_backward(call: TorchCall) -> CallMatches:
    """All three gradients."""
    dy, x, row, mean, invstd, weight, _, wanted = call.arguments
    if not _are_plain(dy, x, mean, invstd, weight) or not isinstance(x, TensorFacts):
        return CallMatches(reason=_UNUSUAL)
    lead = _lead(x, row)
    of_rows = () if lead is None else (*lead, *(1 for _ in x.sizes[len(lead) :]))
    are_right = _are_of(row, weight) and _are_of(x.sizes, dy) and _are_of(of_rows, mean, invstd)
    if lead is None or not are_right:
        return CallMatches(reason="the shapes of its tensors and rows differ")
    if wanted != _ALL:
        return CallMatches(reason="only some of its gradients are requested")
    arrays = {
        **{name: PlanPlace(ARGUMENT, at) for name, at in (("dy", 0), ("x", 1))},
        **{name: PlanPlace(ARGUMENT, at) for name, at in (("mean", 3), ("invstd", 4))},
        "gamma": PlanPlace(OPTIONAL_ARGUMENT, 5),
        **_results("out", "dgamma", "dbeta"),
    }
    vector = x.sizes[len(lead) :]
    key = f"layernorm_backward:{prod(lead)}x{prod(vector)}:{DTYPES[x.dtype]}"
    return _match(key, arrays, x, x.sizes, vector, vector)


def match_batch_norm(call: TorchCall) -> CallMatches:
    """Batch norm; training also updates the running statistics, if there are any."""
    x, weight, bias, mean, variance, training, momentum, eps = call.arguments
    running = [one for one in (mean, variance) if one is not None]
    if not _are_plain(x, weight, bias, *running) or not isinstance(x, TensorFacts):
        return CallMatches(reason=_UNUSUAL)
    channels = x.sizes[1:2]
    if not channels or not _are_of(channels, weight, bias, *running):
        return CallMatches(reason="the shapes of its vectors and channels differ")
    if len(running) == 1 or (not training and not running):
        return CallMatches(reason="it has no running statistics")
    if training and prod(x.sizes) == channels[0]:
        return CallMatches(reason="its channels have only one element")
    if training and running and momentum != round(float(momentum), _DIGITS):  # type: ignore[arg-type]
        return CallMatches(reason="its momentum is for an average over all batches")
    arrays = {
        "x": PlanPlace(ARGUMENT, 0),
        "gamma": PlanPlace(OPTIONAL_ARGUMENT, 1),
        "beta": PlanPlace(OPTIONAL_ARGUMENT, 2),
    }
    key = f"batchnorm:{_images(x)}/eps={eps!r}/mode={'train' if training else 'infer'}"
    dtype = DTYPES[x.dtype]
    if not training:
        arrays |= {
            "mean": PlanPlace(OPTIONAL_ARGUMENT, 3),
            "var": PlanPlace(OPTIONAL_ARGUMENT, 4),
            **_results("out"),
        }
        return _match(f"{key}:{dtype}", arrays, x, x.sizes, (0,), (0,))
    arrays |= _results("out", "mean", "invstd")
    if running:
        key += f"/momentum={momentum!r}"
        arrays |= {f"{name}_mean": PlanPlace(MUTABLE_ARGUMENT, 3) for name in ("running", "next")}
        arrays |= {f"{name}_var": PlanPlace(MUTABLE_ARGUMENT, 4) for name in ("running", "next")}
    return _match(f"{key}:{dtype}", arrays, x, x.sizes, channels, channels)


def match_batch_norm_backward(call: TorchCall) -> CallMatches:
    """All three gradients, from saved or from running statistics."""
    dy, x, weight, *statistics, training, eps, wanted = call.arguments
    mean, variance = statistics[2:] if training else statistics[:2]
    if not _are_plain(dy, x, weight, mean, variance) or not isinstance(x, TensorFacts):
        return CallMatches(reason=_UNUSUAL)
    channels = x.sizes[1:2]
    if not channels or not _are_of(channels, weight, mean, variance) or not _are_of(x.sizes, dy):
        return CallMatches(reason="the shapes of its vectors and channels differ")
    if wanted != _ALL:
        return CallMatches(reason="only some of its gradients are requested")
    first, scale = (5, "invstd") if training else (3, "var")
    arrays = {
        **{name: PlanPlace(ARGUMENT, at) for name, at in (("dy", 0), ("x", 1))},
        "gamma": PlanPlace(OPTIONAL_ARGUMENT, 2),
        "mean": PlanPlace(OPTIONAL_ARGUMENT, first),
        scale: PlanPlace(OPTIONAL_ARGUMENT, first + 1),
        **_results("out", "dgamma", "dbeta"),
    }
    words = "mode=backward" if training else f"eps={eps!r}/mode=infer_backward"
    key = f"batchnorm:{_images(x)}/{words}:{DTYPES[x.dtype]}"
    return _match(key, arrays, x, x.sizes, channels, channels)


def _images(x: TensorFacts) -> str:
    """The shape of a batch norm, which treats dimensions after the channels as one."""
    height, width = x.sizes[2:] if x.rank == 4 else (1, prod(x.sizes[2:]))
    return f"n{x.sizes[0]}c{x.sizes[1]}h{height}w{width}"


def _are_plain(*tensors: Argument) -> bool:
    """Whether all are present, contiguous, and of a dtype that their statistics have, too."""
    return all(
        isinstance(one, TensorFacts) and one.is_contiguous and DTYPES[one.dtype] in _FULL
        for one in tensors
    )


def _are_of(sizes: Argument, *tensors: Argument) -> bool:
    return all(isinstance(one, TensorFacts) and one.sizes == sizes for one in tensors)


def _lead(x: TensorFacts, row: Argument) -> tuple[int, ...] | None:
    """The dimensions before the normalized ones; None if those are not the last ones."""
    if not isinstance(row, tuple) or not row or x.sizes[-len(row) :] != row:
        return None
    return x.sizes[: -len(row)]


def _results(*names: str) -> dict[str, PlanPlace]:
    return {name: PlanPlace(RESULT, place) for place, name in enumerate(names)}


def _match(
    key: str,
    arrays: dict[str, PlanPlace],
    x: TensorFacts,
    *results: tuple[int, ...],
) -> CallMatches:
    """One problem with contiguous results of one dtype; its shapes were checked."""
    made = tuple(
        PlanOutput(place, sizes, contiguous(sizes), x.dtype) for place, sizes in enumerate(results)
    )
    return CallMatches((CallMatch((KernelPart(parse(key), arrays),), made),), is_valid=True)


# Finds the problems that a call of PyTorch consists of.

MATCHERS: dict[str, Callable[[TorchCall], CallMatches]] = {
    "aten::mm": match_product,
    "aten::bmm": match_product,
    "aten::convolution": match_convolution,
    "aten::convolution_backward": match_convolution_backward,
    "skipjack::addmm": match_product,
    "skipjack::baddbmm": match_product,
    "aten::_softmax": match_softmax,
    "aten::_log_softmax": match_softmax,
    "aten::_softmax_backward_data": match_softmax,
    "aten::_log_softmax_backward_data": match_softmax,
    "aten::native_layer_norm": match_layer_norm,
    "aten::native_layer_norm_backward": match_layer_norm_backward,
    "aten::native_batch_norm": match_batch_norm,
    "aten::native_batch_norm_backward": match_batch_norm_backward,
}
"""Matchers by the name of the operation."""


_NARROW = ("f16", "bf16")
"""For wider dtypes, the precision is an option of PyTorch that a program may change."""


def _left_to_the_gpus_libraries(call: TorchCall) -> str:
    if call.gpu is None or call.gpu < 0:
        return "its tensors are on several devices"
    if DTYPES[call.tensors[0].dtype] not in _NARROW:
        return f"on GPUs there are only kernels for {' and '.join(_NARROW)}"
    return ""


def match_call(call: TorchCall) -> CallMatches:
    """The ways to compute a call with our kernels."""
    for tensor in call.tensors:
        if tensor.dtype not in DTYPES:
            return CallMatches(reason=f"no kernels for {tensor}")
        if tensor.rank > MOST_RANK or 0 in tensor.sizes:
            return CallMatches(reason="tensors without elements, or of too many dimensions")
    if len({tensor.dtype for tensor in call.tensors}) != 1:
        return CallMatches(reason="its tensors differ in dtype")
    if call.gpu is not None and (reason := _left_to_the_gpus_libraries(call)):
        return CallMatches(reason=reason)
    try:
        return MATCHERS[call.signature.full_name](call)
    except ProblemError as error:
        return CallMatches(reason=str(error))
