"""Batch normalisation with NumPy, and the scale of rounding errors of each result.

Every function takes arrays by name. Intermediate results are complete NCHW arrays, or vectors with
one element for each channel.
"""

from __future__ import annotations

import numpy as np

from skipjack.core import Array, Arrays

_AXES = (0, 2, 3)


def forward(arrays: Arrays, eps: float, out: Array, *, train: bool) -> dict[str, Array]:
    """Normalise into `out`; returns the mean and inverse deviation that training saves."""
    x = arrays["x"]
    mean = x.mean(axis=_AXES) if train else arrays["mean"]
    np.subtract(x, _channel(mean), out=out)
    variance = np.square(out).mean(axis=_AXES) if train else arrays["var"]
    invstd = 1 / np.sqrt(variance + x.dtype.type(eps))
    out *= _channel(arrays["gamma"] * invstd)
    out += _channel(arrays["beta"])
    return {"mean": mean, "invstd": invstd} if train else {}


def backward(arrays: Arrays, out: Array) -> dict[str, Array]:
    """Compute the gradient of x into `out`; returns those of gamma and beta."""
    dy, invstd = arrays["dy"], arrays["invstd"]
    centred = arrays["x"] - _channel(arrays["mean"])
    count = dy.size // dy.shape[1]
    total, projection = dy.sum(axis=_AXES), (dy * centred).sum(axis=_AXES)
    centred *= _channel(projection / count * np.square(invstd))
    np.subtract(dy, _channel(total / count), out=out)
    out -= centred
    out *= _channel(arrays["gamma"] * invstd)
    return {"dgamma": projection * invstd, "dbeta": total}


def infer_backward(arrays: Arrays, eps: float, out: Array) -> dict[str, Array]:
    """The gradients of inference, whose statistics are inputs."""
    dy = arrays["dy"]
    invstd = 1 / np.sqrt(arrays["var"] + dy.dtype.type(eps))
    projection = (dy * (arrays["x"] - _channel(arrays["mean"]))).sum(axis=_AXES)
    np.multiply(dy, _channel(arrays["gamma"] * invstd), out=out)
    return {"dgamma": projection * invstd, "dbeta": dy.sum(axis=_AXES)}


def bessel_correction(count: int) -> float:
    """The factor from the mean squared deviation of `count` elements to the unbiased variance."""
    return count / max(1, count - 1)


def moving_statistics(
    arrays: Arrays, batch: tuple[Array, Array], momentum: float
) -> dict[str, Array]:
    """Running statistics after a batch with this mean and variance."""
    x, (mean, variance) = arrays["x"], batch
    unbiased = variance * x.dtype.type(bessel_correction(x.size // x.shape[1]))
    new, kept = x.dtype.type(momentum), x.dtype.type(1 - momentum)
    return {
        "next_mean": kept * arrays["running_mean"] + new * mean,
        "next_var": kept * arrays["running_var"] + new * unbiased,
    }


def forward_magnitudes(arrays: Arrays, eps: float, *, train: bool) -> dict[str, Array]:
    """The error of a mean scales with its elements, and so does whatever is normalised by it."""
    x, gamma = arrays["x"], np.abs(arrays["gamma"])
    mean = x.mean(axis=_AXES) if train else arrays["mean"]
    size = np.abs(x).mean(axis=_AXES) if train else np.abs(mean)
    invstd = 1 / np.sqrt((x.var(axis=_AXES) if train else arrays["var"]) + eps)
    scale: Array = np.abs(x - _channel(mean)) + _channel(size)
    scale *= _channel(gamma * invstd)
    scale += _channel(np.abs(arrays["beta"]))
    if not train:
        return {"out": scale}
    return {"out": scale, "mean": size, "invstd": invstd * (1 + size * invstd)}


def backward_magnitudes(arrays: Arrays) -> dict[str, Array]:
    """The same formula with magnitudes; only the mean is still subtracted."""
    dy, invstd = np.abs(arrays["dy"]), np.abs(arrays["invstd"])
    centred = np.abs(arrays["x"] - _channel(arrays["mean"]))
    count = dy.size // dy.shape[1]
    total, projection = dy.sum(axis=_AXES), (dy * centred).sum(axis=_AXES)
    scale: Array = dy + _channel(total / count)
    scale += centred * _channel(projection / count * np.square(invstd))
    scale *= _channel(np.abs(arrays["gamma"]) * invstd)
    return {"out": scale, "dgamma": projection * invstd, "dbeta": total}


def infer_backward_magnitudes(arrays: Arrays, eps: float) -> dict[str, Array]:
    """The same formula with magnitudes; only the mean is still subtracted."""
    sizes = {name: np.abs(arrays[name]) for name in ("dy", "gamma")}
    away = np.abs(arrays["x"] - _channel(arrays["mean"]))
    given = {**sizes, "x": away, "mean": np.zeros_like(arrays["mean"]), "var": arrays["var"]}
    out = np.empty_like(away)
    return {"out": out, **infer_backward(given, eps, out)}


def _channel(values: Array) -> Array:
    """A vector over the channels, in a shape that broadcasts with NCHW arrays."""
    return values[:, None, None]
