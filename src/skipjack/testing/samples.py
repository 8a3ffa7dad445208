"""Samples for tests: small nests of every kind, and policies with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Access, Accumulator, Affine, Call, Constant, Load, Nest, Tensor, index

# Small nests of every kind for tests.


def matmul_nest(m: int, n: int, k: int) -> Nest:
    """``c[m, n] = sum over k of a[m, k] * b[k, n]``."""
    return Nest(
        loops=(("m", m), ("n", n), ("k", k)),
        inputs=(
            Access(Tensor("a", (m, k)), (index("m"), index("k"))),
            Access(Tensor("b", (k, n)), (index("k"), index("n"))),
        ),
        output=Access(Tensor("c", (m, n)), (index("m"), index("n"))),
        body=Call("mul", (Load(0), Load(1))),
        reduction="sum",
    )


def matmul_transposed_nest(m: int, n: int, k: int) -> Nest:
    """``c[m, n] = sum over k of a[m, k] * b[n, k]``: only k is contiguous."""
    return Nest(
        loops=(("m", m), ("n", n), ("k", k)),
        inputs=(
            Access(Tensor("a", (m, k)), (index("m"), index("k"))),
            Access(Tensor("b", (n, k)), (index("n"), index("k"))),
        ),
        output=Access(Tensor("c", (m, n)), (index("m"), index("n"))),
        body=Call("mul", (Load(0), Load(1))),
        reduction="sum",
    )


def add_nest(i: int) -> Nest:
    """``z[i] = x[i] + y[i]``."""
    x, y, z = (Access(Tensor(name, (i,)), (index("i"),)) for name in "xyz")
    return Nest((("i", i),), (x, y), z, Call("add", (Load(0), Load(1))))


def bias_nest(i: int, j: int) -> Nest:
    """``z[i, j] = x[i, j] + bias[j]``."""
    x, z = (Access(Tensor(name, (i, j)), (index("i"), index("j"))) for name in "xz")
    bias = Access(Tensor("bias", (j,)), (index("j"),))
    return Nest((("i", i), ("j", j)), (x, bias), z, Call("add", (Load(0), Load(1))))


def sum_nest(i: int, j: int, axis: int) -> Nest:
    """``y = x.sum(axis)`` for a matrix x."""
    kept, extent = (("j", j), ("i", i))[axis]
    return Nest(
        loops=(("i", i), ("j", j)),
        inputs=(Access(Tensor("x", (i, j)), (index("i"), index("j"))),),
        output=Access(Tensor("y", (extent,)), (index(kept),)),
        body=Load(0),
        reduction="sum",
    )


def outer_sum_nest(i: int, j: int, k: int, reduction: str = "sum") -> Nest:
    """``y = x.sum((0, 2))`` for an array of three axes, or another reduction."""
    return Nest(
        loops=(("i", i), ("j", j), ("k", k)),
        inputs=(Access(Tensor("x", (i, j, k)), (index("i"), index("j"), index("k"))),),
        output=Access(Tensor("y", (j,)), (index("j"),)),
        body=Load(0),
        reduction=reduction,
    )


def mean_nest(i: int, reduction: str = "sum") -> Nest:
    """``y = x.sum() / i``, a scalar; likewise for other reductions."""
    return Nest(
        loops=(("i", i),),
        inputs=(Access(Tensor("x", (i,)), (index("i"),)),),
        output=Access(Tensor("y", (1,)), (index("i", 0),)),
        body=Load(0),
        reduction=reduction,
        epilogue=Call("mul", (Accumulator(), Constant(1.0 / i))),
    )


def transpose_nest(i: int, j: int) -> Nest:
    """``y[i, j] = x[j, i]``, which cannot be vectorised."""
    x = Access(Tensor("x", (j, i)), (index("j"), index("i")))
    y = Access(Tensor("y", (i, j)), (index("i"), index("j")))
    return Nest((("i", i), ("j", j)), (x,), y, Load(0))


def conv1d_nest(o: int, r: int) -> Nest:
    """``y[o] = sum over r of x[o + r] * w[r]``."""
    x = Access(Tensor("x", (o + r - 1,)), (Affine((("o", 1), ("r", 1))),))
    w = Access(Tensor("w", (r,)), (index("r"),))
    y = Access(Tensor("y", (o,)), (index("o"),))
    body = Call("mul", (Load(0), Load(1)))
    return Nest((("o", o), ("r", r)), (x, w), y, body, reduction="sum")


# Policies for tests: networks with random weights.

_ENDS = {"from_cursor": 17, "from_top": 16, "from_bottom": 16}


def random_weights(
    row: int, machine: int, actions: int, *, width: int = 16, trunk: int = 24, seed: int = 1
) -> dict[str, NDArray[Any]]:
    """The arrays of a small network with these numbers of features and actions."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> NDArray[np.float32]:
        return rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

    matrices = {
        "row_in": (width, row),
        "row_out": (width, width),
        "context": (width, machine),
        "trunk": (trunk, 6 * width),
        "logits": (actions, trunk),
        "worth": (1, trunk),
    }
    for layer in range(2):
        for name in ("query", "key", "value", "out", "upper", "lower"):
            tall = {"upper": (2 * width, width), "lower": (width, 2 * width)}
            matrices[f"layers.{layer}.{name}"] = tall.get(name, (width, width))
    arrays = {f"{name}.weight": drawn(*shape) for name, shape in matrices.items()}
    arrays |= {f"{name}.bias": drawn(shape[0]) for name, shape in matrices.items()}
    return arrays | {f"{name}.weight": drawn(count, width) for name, count in _ENDS.items()}
