"""Operations of a plug-in on which policies for loop nests are trained; none is in `loop_suite`.

==============================  ===========================================================
``stencil3:HxW``                the mean of a cell and those above and below it
``window_sum:HxWxRxR``          sums over windows of R by R cells
``line_conv:KxCxLxR``           a convolution along one axis
``weighted_rows:MxN``           the sum of rows, each times its weight
``triple_dot:BxK``              the sum of products of three rows, for each row
``rank_one:MxN``                a matrix plus the product of a column and a row
``contraction:IxJxKxL``         a product over two axes that lie in different orders
``min_plus:MxNxK``              the product of matrices with sums for products, least for sums
==============================  ===========================================================

Sizes are those of the loops: ``window_sum`` reads (H + R - 1) x (W + R - 1) cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from skipjack import operations
from skipjack.core import (
    Access,
    Affine,
    Array,
    Arrays,
    Call,
    Constant,
    Load,
    Nest,
    OperationClass,
    Problem,
    Scalar,
    Tensor,
    Tolerance,
)
from skipjack.errors import ProblemError

Reference = Callable[[Arrays], Array]


@dataclass(frozen=True)
class NestKind:
    """An operation given by the indices of its arrays: ``("x", "h+2 w")`` is ``x[h + 2, w]``."""

    name: str
    example: str
    letters: str
    read: tuple[tuple[str, str], ...]
    """Each load of an array; the arrays are as large as their loads need."""
    written: str
    body: Scalar
    compute: Reference
    reduction: str = ""
    steps: int = 2
    """Arithmetic steps for each iteration."""

    operation_class: OperationClass = "cube"
    dtypes = ("f32", "f64")
    domain = (-1.0, 1.0)

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        if attributes:
            raise ProblemError(f"problem {where!r}: {self.name} has no attributes")
        if len(shape) != len(self.letters):
            raise ProblemError(f"problem {where!r}: {self.name} has {len(self.letters)} sizes")
        return ()

    def _extents(self, problem: Problem) -> dict[str, int]:
        return dict(zip(self.letters, problem.shape, strict=True))

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        extents = self._extents(problem)
        shapes: dict[str, tuple[int, ...]] = {}
        for name, text in self.read:
            sizes = tuple(_reach(_affine(word), extents) for word in text.split())
            before = shapes.get(name, (0,) * len(sizes))
            shapes[name] = tuple(map(max, before, sizes))
        return tuple(Tensor(name, shape) for name, shape in shapes.items())

    def output(self, problem: Problem) -> Tensor:
        extents = self._extents(problem)
        return Tensor("out", tuple(extents[letter] for letter in self.written.split()))

    def nest(self, problem: Problem) -> Nest:
        tensors = {tensor.name: tensor for tensor in self.inputs(problem)}
        return Nest(
            loops=tuple(self._extents(problem).items()),
            inputs=tuple(Access(tensors[name], _indices(text)) for name, text in self.read),
            output=Access(self.output(problem), _indices(self.written)),
            body=self.body,
            reduction=self.reduction,
        )

    def flops(self, problem: Problem) -> int:
        return self.steps * prod(problem.shape)

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        wide = {name: np.asarray(array) for name, array in arrays.items()}
        return self.compute({**wide, "sizes": np.array(problem.shape)})

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        return self.reference(problem, {name: np.abs(array) for name, array in arrays.items()})

    def tolerance(self, problem: Problem) -> Tolerance:
        summed = prod(problem.shape) / self.output(problem).size
        return Tolerance(8.0 + 4.0 * summed**0.5)


def _affine(word: str) -> Affine:
    """``h+r`` or ``h+2``."""
    parts = word.split("+")
    constant = sum(int(part) for part in parts if part.isdigit())
    return Affine(tuple((part, 1) for part in parts if not part.isdigit()), constant)


def _indices(text: str) -> tuple[Affine, ...]:
    return tuple(_affine(word) for word in text.split())


def _reach(at: Affine, extents: Mapping[str, int]) -> int:
    return at.constant + 1 + sum(extents[name] - 1 for name, _ in at.terms)


def _sum(*terms: Scalar) -> Scalar:
    total, *rest = terms
    for term in rest:
        total = Call("add", (total, term))
    return total


def _product(*factors: Scalar) -> Scalar:
    result, *rest = factors
    for factor in rest:
        result = Call("mul", (result, factor))
    return result


def _einsum(text: str, *names: str) -> Reference:
    return lambda a: np.einsum(text, *(a[name] for name in names), optimize=True)


def _stencil(a: Arrays) -> Array:
    x = a["x"]
    result: Array = (x[:-2] + x[1:-1] + x[2:]) * x.dtype.type(1 / 3)
    return result


def _windows(a: Arrays) -> Array:
    reach = int(a["sizes"][2])
    views = np.lib.stride_tricks.sliding_window_view(a["x"], (reach, reach))
    result: Array = views.sum(axis=(2, 3))
    return result


def _line_conv(a: Arrays) -> Array:
    views = np.lib.stride_tricks.sliding_window_view(a["x"], int(a["sizes"][3]), axis=1)
    result: Array = np.tensordot(a["w"], views, axes=([1, 2], [0, 2]))
    return result


def _rank_one(a: Arrays) -> Array:
    result: Array = a["z"] + np.multiply.outer(a["x"], a["y"])
    return result


def _min_plus(a: Arrays) -> Array:
    return np.stack([np.min(row[:, None] + a["b"], axis=0) for row in a["a"]])


_L0, _L1, _L2 = Load(0), Load(1), Load(2)
KINDS = (
    NestKind(
        *("stencil3", "stencil3:512x512", "hw"),
        (("x", "h w"), ("x", "h+1 w"), ("x", "h+2 w")),
        "h w",
        _product(_sum(_L0, _L1, _L2), Constant(1 / 3)),
        _stencil,
        steps=3,
        operation_class="vector",
    ),
    NestKind(
        *("window_sum", "window_sum:128x128x3", "hwrs"),
        (("x", "h+r w+s"),),
        "h w",
        _L0,
        _windows,
        "sum",
        steps=1,
    ),
    NestKind(
        *("line_conv", "line_conv:32x16x256x3", "kclr"),
        (("w", "k c r"), ("x", "c l+r")),
        "k l",
        _product(_L0, _L1),
        _line_conv,
        "sum",
    ),
    NestKind(
        *("weighted_rows", "weighted_rows:512x512", "mn"),
        (("w", "m"), ("x", "m n")),
        "n",
        _product(_L0, _L1),
        _einsum("m,mn->n", "w", "x"),
        "sum",
        operation_class="vector",
    ),
    NestKind(
        *("triple_dot", "triple_dot:256x512", "bk"),
        (("x", "b k"), ("y", "b k"), ("z", "k")),
        "b",
        _product(_L0, _L1, _L2),
        _einsum("bk,bk,k->b", "x", "y", "z"),
        "sum",
        steps=3,
        operation_class="vector",
    ),
    NestKind(
        *("rank_one", "rank_one:512x512", "mn"),
        (("z", "m n"), ("x", "m"), ("y", "n")),
        "m n",
        _sum(_L0, _product(_L1, _L2)),
        _rank_one,
        operation_class="vector",
    ),
    NestKind(
        *("contraction", "contraction:32x32x16x16", "ijkl"),
        (("a", "i k l"), ("b", "l j k")),
        "i j",
        _product(_L0, _L1),
        _einsum("ikl,ljk->ij", "a", "b"),
        "sum",
    ),
    NestKind(
        *("min_plus", "min_plus:128x128x128", "mnk"),
        (("a", "m k"), ("b", "k n")),
        "m n",
        _sum(_L0, _L1),
        _min_plus,
        "min",
    ),
)

for _kind in KINDS:
    operations.register(_kind)
