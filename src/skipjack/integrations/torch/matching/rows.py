"""Softmax, normalisations of rows and channels, and their gradients."""

from __future__ import annotations

from math import prod

from skipjack.integrations.torch.calls import (
    DTYPES,
    Argument,
    CallMatch,
    CallMatches,
    KernelPart,
    TensorFacts,
    TorchCall,
    contiguous,
)
from skipjack.integrations.torch.stubs import ARGUMENT, MUTABLE_ARGUMENT, OPTIONAL_ARGUMENT, RESULT
from skipjack.integrations.torch.table import PlanOutput, PlanPlace
from skipjack.operations import parse

_FULL = ("f32", "f64")
"""PyTorch keeps the statistics of narrower rows in other types than we do."""
_ALL = (1, 1, 1)
_DIGITS = 4
"""Of a momentum that somebody wrote. Without one PyTorch takes 1 by the number of batches so far,
which makes a problem of its own of each call."""
_UNUSUAL = "not all tensors are given and contiguous"
_SOFTMAX = {
    "_softmax": ("softmax", ("x",)),
    "_log_softmax": ("logsoftmax", ("x",)),
    "_softmax_backward_data": ("softmax_backward", ("dy", "y")),
    "_log_softmax_backward_data": ("logsoftmax_backward", ("dy", "y")),
}
"""Operations of ours, with the names of their inputs."""


def match_softmax(call: TorchCall) -> CallMatches:
    """Along the last axis."""
    operation, names = _SOFTMAX[call.signature.name]
    tensors = call.tensors
    x, axis, switch = tensors[0], *call.arguments[len(tensors) :]
    if not x.sizes or axis not in (-1, x.rank - 1):
        return CallMatches(reason="it is not along the last axis")
    # A gradient names its dtype; the others say whether a narrow one is to be widened.
    if switch != (x.dtype if len(tensors) == 2 else 0):
        return CallMatches(reason="its result has another dtype")
    if not all(one.is_contiguous and one.sizes == x.sizes for one in tensors):
        return CallMatches(reason=_UNUSUAL)
    arrays = {name: PlanPlace(ARGUMENT, place) for place, name in enumerate(names)}
    key = f"{operation}:{prod(x.sizes[:-1])}x{x.sizes[-1]}:{DTYPES[x.dtype]}"
    return _match(key, {**arrays, "out": PlanPlace(RESULT, 0)}, x, x.sizes)


def match_layer_norm(call: TorchCall) -> CallMatches:
    """With both vectors; the statistics of the rows are results as well."""
    x, row, weight, bias, eps = call.arguments
    if not _are_plain(x, weight, bias) or not isinstance(x, TensorFacts):
        return CallMatches(reason=_UNUSUAL)
    lead = _lead(x, row)
    if lead is None or not _are_of(row, weight, bias):
        return CallMatches(reason="its vectors have another shape than its rows")
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
        return CallMatches(reason="its tensors have other shapes than its rows")
    if wanted != _ALL:
        return CallMatches(reason="only some of its gradients are wanted")
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
    """In training the running statistics are moved as well, if there are any."""
    x, weight, bias, mean, variance, training, momentum, eps = call.arguments
    running = [one for one in (mean, variance) if one is not None]
    if not _are_plain(x, weight, bias, *running) or not isinstance(x, TensorFacts):
        return CallMatches(reason=_UNUSUAL)
    channels = x.sizes[1:2]
    if not channels or not _are_of(channels, weight, bias, *running):
        return CallMatches(reason="its vectors have another shape than its channels")
    if len(running) == 1 or (not training and not running):
        return CallMatches(reason="it has no running statistics")
    if training and prod(x.sizes) == channels[0]:
        return CallMatches(reason="a channel has one element")
    if training and running and momentum != round(float(momentum), _DIGITS):  # type: ignore[arg-type]
        return CallMatches(reason="its momentum is that of an average over all batches")
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
    """All three gradients, from what training saved or from running statistics."""
    dy, x, weight, *statistics, training, eps, wanted = call.arguments
    mean, variance = statistics[2:] if training else statistics[:2]
    if not _are_plain(dy, x, weight, mean, variance) or not isinstance(x, TensorFacts):
        return CallMatches(reason=_UNUSUAL)
    channels = x.sizes[1:2]
    if not channels or not _are_of(channels, weight, mean, variance) or not _are_of(x.sizes, dy):
        return CallMatches(reason="its vectors have another shape than its channels")
    if wanted != _ALL:
        return CallMatches(reason="only some of its gradients are wanted")
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
    """A shape of batch norm's; all dimensions after the channels are one to it."""
    height, width = x.sizes[2:] if x.rank == 4 else (1, prod(x.sizes[2:]))
    return f"n{x.sizes[0]}c{x.sizes[1]}h{height}w{width}"


def _are_plain(*tensors: Argument) -> bool:
    """Whether they are all given, contiguous, and of a type whose statistics have the same."""
    return all(
        isinstance(one, TensorFacts) and one.is_contiguous and DTYPES[one.dtype] in _FULL
        for one in tensors
    )


def _are_of(sizes: Argument, *tensors: Argument) -> bool:
    return all(isinstance(one, TensorFacts) and one.sizes == sizes for one in tensors)


def _lead(x: TensorFacts, row: Argument) -> tuple[int, ...] | None:
    """The dimensions before those that are normalised; None if those are not the last ones."""
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
    """One problem, whose results are contiguous and of one type; its shapes were checked."""
    made = tuple(
        PlanOutput(place, sizes, contiguous(sizes), x.dtype) for place, sizes in enumerate(results)
    )
    return CallMatches((CallMatch((KernelPart(parse(key), arrays),), made),), is_valid=True)
