"""``matmul:MxNxK`` and ``bmm:BxMxNxK``: matrix products, plain or with a common epilogue.

``out = act(alpha * A B + beta * c + bias)``. Attributes, all optional: ``ta=1`` and
``tb=1`` for operands that are stored transposed, ``alpha`` and ``beta`` (which adds an input `c`),
``bias=1`` (an input with one element for each column), ``act`` for an activation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from skipjack.core import (
    Access,
    Accumulator,
    Affine,
    Array,
    Arrays,
    Call,
    Constant,
    Load,
    Nest,
    OperationClass,
    Problem,
    Sample,
    Scalar,
    Tensor,
    Tolerance,
    excerpt,
    index,
)
from skipjack.errors import ProblemError
from skipjack.operations.attributes import refuse_unknown, require_rank
from skipjack.operations.elementwise import ELEMENTWISE
from skipjack.operations.error_bounds import product_factor

ACTIVATIONS = {
    operation.name: operation
    for operation in ELEMENTWISE
    if operation.name in ("relu", "gelu", "gelu_tanh", "sigmoid", "silu", "tanh")
}
_SAMPLED_ROWS = 16
_NAMES = ("ta", "tb", "alpha", "beta", "bias", "act")
_PLAIN = {"ta": "0", "tb": "0", "alpha": "1", "beta": "0", "bias": "0", "act": "none"}


@dataclass(frozen=True, slots=True)
class MatmulAttributes:
    """The attributes of a problem, parsed."""

    ta: bool
    tb: bool
    alpha: float
    beta: float
    bias: bool
    act: str

    @classmethod
    def of(cls, problem: Problem) -> MatmulAttributes:
        """The attributes of the problem, completed with defaults."""
        found = {**_PLAIN, **dict(problem.attributes)}
        return cls(
            found["ta"] == "1",
            found["tb"] == "1",
            float(found["alpha"]),
            float(found["beta"]),
            found["bias"] == "1",
            found["act"],
        )

    @property
    def plain(self) -> bool:
        """Whether it is just the product, without transposed operands."""
        return self == MatmulAttributes(False, False, 1.0, 0.0, False, "none")


@dataclass(frozen=True)
class Matmul:
    """A matrix product, or a batch of them."""

    name: str = "matmul"
    batched: bool = False

    operation_class: OperationClass = "cube"
    dtypes = ("f32", "f64", "f16", "bf16", "tf32", "f8e4m3", "f8e5m2")
    domain = (-1.0, 1.0)

    @property
    def example(self) -> str:
        return "bmm:16x128x128x64" if self.batched else "matmul:192x192x192"

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Three sizes, or four with the batch; attributes with default values are omitted."""
        form = "bmm:BxMxNxK" if self.batched else "matmul:MxNxK"
        require_rank(shape, 4 if self.batched else 3, form, where)
        refuse_unknown(attributes, _NAMES, where)
        texts = {name: _checked(name, text, where) for name, text in attributes.items()}
        return tuple((n, texts[n]) for n in _NAMES if texts.get(n, _PLAIN[n]) != _PLAIN[n])

    def sizes(self, problem: Problem) -> tuple[int, int, int, int]:
        """Batch, M, N, K."""
        batch, m, n, k = problem.shape if self.batched else (1, *problem.shape)
        return batch, m, n, k

    def _tensor(
        self, name: str, problem: Problem, rows: int, columns: int, dtype: str = ""
    ) -> Tensor:
        lead = problem.shape[:1] if self.batched else ()
        return Tensor(name, (*lead, rows, columns), dtype)

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """A and B as stored, then c and the bias if the problem has them."""
        _, m, n, k = self.sizes(problem)
        settings = MatmulAttributes.of(problem)
        a = self._tensor("a", problem, *((k, m) if settings.ta else (m, k)))
        b = self._tensor("b", problem, *((n, k) if settings.tb else (k, n)))
        wide = _result_dtype(problem)
        c = (self._tensor("c", problem, m, n, wide),) if settings.beta else ()
        bias = (Tensor("bias", (n,), wide),) if settings.bias else ()
        return (a, b, *c, *bias)

    def output(self, problem: Problem) -> Tensor:
        _, m, n, _ = self.sizes(problem)
        return self._tensor("out", problem, m, n, _result_dtype(problem))

    def nest(self, problem: Problem) -> Nest:
        """``out[m,n] += a[m,k] * b[k,n]``, followed by the epilogue."""
        batch, m, n, k = self.sizes(problem)
        settings = MatmulAttributes.of(problem)
        a, b, *extras = self.inputs(problem)
        lead: tuple[Affine, ...] = (index("b"),) if self.batched else ()

        def at(tensor: Tensor, row: str, column: str, swapped: bool = False) -> Access:
            pair = (column, row) if swapped else (row, column)
            return Access(tensor, (*lead, *(index(name) for name in pair)))

        beside = [
            Access(tensor, (index("n"),)) if tensor.name == "bias" else at(tensor, "m", "n")
            for tensor in extras
        ]
        loops = (("m", m), ("k", k), ("n", n))
        return Nest(
            loops=(("b", batch), *loops) if self.batched else loops,
            inputs=(at(a, "m", "k", settings.ta), at(b, "k", "n", settings.tb), *beside),
            output=at(self.output(problem), "m", "n"),
            body=Call("mul", (Load(0), Load(1))),
            reduction="sum",
            epilogue=self.epilogue(problem),
        )

    def epilogue(self, problem: Problem) -> Scalar:
        """The expression applied to each sum; `c` and the bias are operands from 2 on."""
        settings = MatmulAttributes.of(problem)
        names = [tensor.name for tensor in self.inputs(problem)]
        value: Scalar = Accumulator()
        if settings.alpha != 1.0:
            value = Call("mul", (value, Constant(settings.alpha)))
        if settings.beta:
            scaled = Call("mul", (Load(names.index("c")), Constant(settings.beta)))
            value = Call("add", (value, scaled))
        if settings.bias:
            value = Call("add", (value, Load(names.index("bias"))))
        return value if settings.act == "none" else Call(settings.act, (value,))

    def flops(self, problem: Problem) -> int:
        """A multiplication and an addition for each index triple; the epilogue is not counted."""
        batch, m, n, k = self.sizes(problem)
        return 2 * batch * m * n * k

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """The product with NumPy, and the epilogue as a user would write it."""
        out = np.empty(self.output(problem).shape, arrays["a"].dtype)
        self.numpy_call(problem, {**arrays, "out": out})()
        return out

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The product with NumPy on these arrays, and the epilogue in place."""
        settings, out = MatmulAttributes.of(problem), arrays["out"]
        a = arrays["a"].swapaxes(-1, -2) if settings.ta else arrays["a"]
        b = arrays["b"].swapaxes(-1, -2) if settings.tb else arrays["b"]
        product = partial(np.matmul, a, b, out=out)
        if replace(settings, ta=False, tb=False).plain:
            return product

        def call() -> None:
            product()
            _finish(settings, arrays, out)

        return call

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """|A| |B|, the classical bound of the rounding error, plus those of added terms."""
        settings = MatmulAttributes.of(problem)
        sizes = {name: np.abs(array) for name, array in arrays.items()}
        a = sizes["a"].swapaxes(-1, -2) if settings.ta else sizes["a"]
        b = sizes["b"].swapaxes(-1, -2) if settings.tb else sizes["b"]
        return self._scaled(settings, np.matmul(a, b), sizes)

    def _scaled(self, settings: MatmulAttributes, product: Array, sizes: Arrays) -> Array:
        scale = abs(settings.alpha) * product
        if settings.beta:
            scale = scale + abs(settings.beta) * sizes["c"]
        return scale + sizes["bias"] if settings.bias else scale

    def tolerance(self, problem: Problem) -> Tolerance:
        """K roundings stay within K eps |A||B| in any order, and rarely exceed sqrt(K).

        The slope of an activation is at most about 1, and its own error is a few eps of its result.
        """
        _, _, _, k = self.sizes(problem)
        own = 0.0 if MatmulAttributes.of(problem).act == "none" else 12.0
        return Tolerance(product_factor(problem.dtype, k, own))

    def can_project(self, problem: Problem) -> bool:
        """Whether it is a plain product of two matrices, which is linear."""
        return not self.batched and MatmulAttributes.of(problem).plain

    def project(
        self, problem: Problem, arrays: Arrays, vectors: Array
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """A (B V) costs two thin products instead of a full one."""
        exact = arrays["a"] @ (arrays["b"] @ vectors)
        scale = np.abs(arrays["a"]) @ (np.abs(arrays["b"]) @ np.abs(vectors))
        return exact, scale

    def as_matrix(self, problem: Problem, result: Array) -> Array:
        return result

    def sampled(
        self, problem: Problem, arrays: Arrays, rng: np.random.Generator
    ) -> Sequence[Sample]:
        """The first, the last and some other rows, complete."""
        count = arrays["a"].shape[0]
        rows = np.unique(np.r_[0, count - 1, rng.integers(0, count, _SAMPLED_ROWS)])
        some = arrays["a"][rows]
        return [Sample((rows,), some @ arrays["b"], np.abs(some) @ np.abs(arrays["b"]))]


def _result_dtype(problem: Problem) -> str:
    """The dtype of the result and added terms; 8 bits are too few for sums."""
    return "f16" if problem.dtype in ("f8e4m3", "f8e5m2") else ""


def _finish(settings: MatmulAttributes, arrays: Arrays, out: Array) -> None:
    """Apply the epilogue of a product in place."""
    if settings.alpha != 1.0:
        out *= out.dtype.type(settings.alpha)
    if settings.beta:
        out += out.dtype.type(settings.beta) * arrays["c"]
    if settings.bias:
        out += arrays["bias"]
    if settings.act != "none":
        out[...] = ACTIVATIONS[settings.act].function(out)


def _checked(name: str, text: str, where: str) -> str:
    """The canonical text of an attribute."""
    if name in ("ta", "tb", "bias"):
        if text not in ("0", "1"):
            raise ProblemError(f"problem {where!r}: {name} is {excerpt(text)!r}; it must be 0 or 1")
        return text
    if name == "act":
        if text != "none" and text not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            raise ProblemError(
                f"problem {where!r}: unknown activation {excerpt(text)!r}; choose from {known}"
            )
        return text
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise ProblemError(f"problem {where!r}: {name} is {excerpt(text)!r}; it must be a number")
    value += 0.0  # -0 and 0 are the same problem
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


PRODUCTS = (Matmul(), Matmul("bmm", batched=True))
