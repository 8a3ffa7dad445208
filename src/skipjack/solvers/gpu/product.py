"""The facts of a matrix product that all solvers for GPUs read, and what they share in writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from skipjack import operations
from skipjack.core.dtypes import DTYPES
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Number, Scratch, Value
from skipjack.operations.matmul import Matmul, Settings
from skipjack.solvers.gpu.spec import Constant

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "sigmoid", "silu", "tanh")
"""Their places are their numbers in `skipjack.solvers.gpu.kernels.epilogue`."""
TRITON_TYPES = {
    "f16": "fp16",
    "bf16": "bf16",
    "f32": "fp32",
    "tf32": "fp32",
    "f64": "fp64",
    "f8e4m3": "fp8e4nv",
    "f8e5m2": "fp8e5",
}
_STORED = {"fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32"}
_LONGEST = 2**31


def other_than_product(problem: Problem) -> str:
    """Why solvers for products of matrices refuse a problem; empty for a product."""
    if isinstance(operations.get(problem.operation), Matmul):
        return ""
    return f"it multiplies matrices and cannot do {problem.operation}"


@dataclass(frozen=True, slots=True)
class Product:
    """A problem's sizes and settings."""

    batch: int
    m: int
    n: int
    k: int
    settings: Settings
    dtype: str
    a: Tensor
    b: Tensor
    out: Tensor

    @classmethod
    def of(cls, problem: Problem) -> Product:
        """Of a ``matmul`` or ``bmm`` problem."""
        operation = operations.get(problem.operation)
        assert isinstance(operation, Matmul)
        a, b, *_ = operation.inputs(problem)
        return cls(
            *operation.sizes(problem),
            Settings.of(problem),
            problem.dtype,
            a,
            b,
            operation.output(problem),
        )

    @property
    def element_bytes(self) -> int:
        """Of an operand."""
        return DTYPES[self.dtype].bytes

    @property
    def out_bytes(self) -> int:
        """Of an element of the result."""
        return DTYPES[self.out.dtype or self.dtype].bytes

    @property
    def type(self) -> str:
        """Triton's name of the operands' type."""
        return TRITON_TYPES[self.dtype]

    @property
    def out_type(self) -> str:
        """Triton's name of the result's type."""
        return TRITON_TYPES[self.out.dtype or self.dtype]

    @property
    def stored(self) -> str:
        """The result's type as a constant of a kernel."""
        return _STORED[self.out_type]

    @property
    def precision(self) -> int:
        """How f32 is multiplied: see `skipjack.solvers.gpu.kernels.epilogue.multiplied`."""
        return 2 if self.dtype == "f32" else 0

    @property
    def is_long(self) -> bool:
        """Whether 31 bits cannot count the elements of an operand."""
        return max(self.a.size, self.b.size, self.out.size) >= _LONGEST

    def row_is_aligned(self, tensor: Tensor, to: int = 16) -> bool:
        """Whether rows are a whole number of bytes apart; the copy engine asks for 16."""
        each = self.out_bytes if tensor.name == "out" else self.element_bytes
        return tensor.shape[-1] * each % to == 0

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def footprint_bytes(self) -> int:
        """Operands and result."""
        operands = (self.a.size + self.b.size) * self.element_bytes
        return operands + self.out.size * self.out_bytes


def number(value: int) -> Argument:
    """A whole number whose divisibility the compiler may use."""
    type_ = "i32" if value < _LONGEST else "i64"
    return Argument(type_, next((by for by in (16, 8) if value % by == 0), 1))


def pointer(type_: str) -> Argument:
    """Tensors begin at whole 16 bytes."""
    return Argument(f"*{type_}", 16)


def descriptor(type_: str, block: Sequence[int]) -> Argument:
    """For the copy engine, in blocks."""
    return Argument(f"tensordesc<{type_}[{', '.join(map(str, block))}]>")


@dataclass(frozen=True, slots=True)
class Finish:
    """The epilogue of a kernel, or that of none where only a part of a sum is stored."""

    product: Product
    partial: bool

    def arguments(self) -> dict[str, Argument]:
        """`c` and `bias`, where the problem has them."""
        type_, settings = pointer(self.product.out_type), self.product.settings
        found = {"c": type_} if settings.beta and not self.partial else {}
        return {**found, **({"bias": type_} if settings.bias and not self.partial else {})}

    def constants(self) -> dict[str, Constant]:
        """Activation and type of the result; None for operands that are not there."""
        settings, have = self.product.settings, self.arguments()
        act = 0 if self.partial else ACTIVATIONS.index(settings.act)
        out: Constant = "tl.float32" if self.partial else self.product.stored
        absent: dict[str, Constant] = {name: None for name in ("c", "bias") if name not in have}
        return {"ACT": act, "OUT": out, **absent}

    def values(self) -> list[Value | str | int | float]:
        """`c` and `bias`, where the problem has them."""
        return list(self.arguments())

    def factors(self) -> list[Value]:
        """Alpha and beta."""
        settings = self.product.settings
        alpha, beta = (1.0, 0.0) if self.partial else (settings.alpha, settings.beta)
        return [Number("f32", alpha), Number("f32", beta)]


FACTORS = {"alpha": Argument("fp32"), "beta": Argument("fp32")}


def parts(product: Product, shares: int) -> Scratch:
    """Where the shares of split sums are kept."""
    return Scratch("parts", 4 * shares * prod((product.batch, product.m, product.n)))
