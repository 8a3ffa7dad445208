"""The facts of a matrix product, its epilogue, and the launches before and after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from skipjack import operations
from skipjack.core import DTYPES, Problem, Tensor
from skipjack.gpu import Argument, Launch, Number, Scratch, Value, launch
from skipjack.operations import Matmul, MatmulAttributes
from skipjack.solvers.gpu.triton import (
    EARLY_LAUNCH,
    LONGEST,
    TRITON_TYPES,
    Constant,
    KernelSpec,
    integer_type,
    pointer_type,
)

# The facts of a matrix product that all its solvers for GPUs read, and its epilogue.

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "sigmoid", "silu", "tanh")
"""Their indices are the numbers that `skipjack.solvers.gpu.kernels.tiles` uses."""
_STORED = {"fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32"}


def refusal_of_others(problem: Problem) -> str:
    """Why solvers for matrix products refuse a problem; empty for a product."""
    if isinstance(operations.get(problem.operation), Matmul):
        return ""
    return f"it multiplies matrices and cannot do {problem.operation}"


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """The sizes and settings of a problem."""

    batch: int
    m: int
    n: int
    k: int
    settings: MatmulAttributes
    dtype: str
    a: Tensor
    b: Tensor
    out: Tensor

    @classmethod
    def of(cls, problem: Problem) -> MatrixProduct:
        """The product of a ``matmul`` or ``bmm`` problem."""
        operation = operations.get(problem.operation)
        assert isinstance(operation, Matmul)
        a, b, *_ = operation.inputs(problem)
        return cls(
            *operation.sizes(problem),
            MatmulAttributes.of(problem),
            problem.dtype,
            a,
            b,
            operation.output(problem),
        )

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of an operand."""
        return DTYPES[self.dtype].bytes

    @property
    def out_bytes(self) -> int:
        """Bytes of an element of the result."""
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
        """How f32 is multiplied; see `skipjack.solvers.gpu.kernels.tiles.multiplied`."""
        return 2 if self.dtype == "f32" else 0

    @property
    def is_long(self) -> bool:
        """Whether 31 bits cannot count the elements of an operand."""
        return max(self.a.size, self.b.size, self.out.size) >= LONGEST

    def row_is_aligned(self, tensor: Tensor, to: int = 16) -> bool:
        """Whether the row stride is a multiple of `to` bytes; the copy engine (TMA) requires 16."""
        each = self.out_bytes if tensor.name == "out" else self.element_bytes
        return tensor.shape[-1] * each % to == 0

    @property
    def flops(self) -> int:
        """Number of multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the operands and the result."""
        operands = (self.a.size + self.b.size) * self.element_bytes
        return operands + self.out.size * self.out_bytes


@dataclass(frozen=True, slots=True)
class ProductEpilogue:
    """The epilogue of a kernel, which is empty if the kernel stores partial sums."""

    product: MatrixProduct
    partial: bool

    def arguments(self) -> dict[str, Argument]:
        """`c` and `bias`, as far as the problem has them."""
        type_, settings = pointer_type(self.product.out_type), self.product.settings
        found = {"c": type_} if settings.beta and not self.partial else {}
        return {**found, **({"bias": type_} if settings.bias and not self.partial else {})}

    def constants(self) -> dict[str, Constant]:
        """Activation and type of the result; None for absent operands."""
        settings, have = self.product.settings, self.arguments()
        act = 0 if self.partial else ACTIVATIONS.index(settings.act)
        out: Constant = "tl.float32" if self.partial else self.product.stored
        absent: dict[str, Constant] = {name: None for name in ("c", "bias") if name not in have}
        return {"ACT": act, "OUT": out, **absent}

    def values(self) -> list[Value | str | int | float]:
        """`c` and `bias`, as far as the problem has them."""
        return list(self.arguments())

    def factors(self) -> list[Value]:
        """Alpha and beta."""
        settings = self.product.settings
        alpha, beta = (1.0, 0.0) if self.partial else (settings.alpha, settings.beta)
        return [Number("f32", alpha), Number("f32", beta)]


FACTORS = {"alpha": Argument("fp32"), "beta": Argument("fp32")}


def partial_sums(product: MatrixProduct, shares: int) -> Scratch:
    """The scratch memory of the partial sums of split K."""
    return Scratch("parts", 4 * shares * prod((product.batch, product.m, product.n)))


# Steps before and after a product: widening misaligned rows, and adding up partial sums.

_MODULE = "skipjack.solvers.gpu.kernels.gemm.split_k"
_JOINED = 1024
_LINE_BYTES = 128
"""Rows that do not begin at a cache line are read at about two thirds of the speed."""
_BLOCK_ROWS, _BLOCK_COLUMNS = 8, 1024


def join_block(product: MatrixProduct, units: int) -> int:
    """How many elements a program adds up; fewer in small problems, so that all units read."""
    block = _JOINED
    while block > 128 and product.batch * product.m * product.n < 2 * block * units:
        block //= 2
    return block


def join_spec(product: MatrixProduct, shares: int, units: int, early: bool) -> KernelSpec:
    """The kernel that adds up partial sums; `early`: it may start before its predecessor ends."""
    finish, block = ProductEpilogue(product, False), join_block(product, units)
    return KernelSpec(
        "join",
        _MODULE,
        "join",
        {
            "parts": pointer_type("fp32"),
            **finish.arguments(),
            "out": pointer_type(product.out_type),
            "size": integer_type(product.m * product.n),
            "N": integer_type(product.n),
            "shares": integer_type(shares),
            **FACTORS,
        },
        {"BATCHED": product.batch > 1, "BLOCK": block, **finish.constants(), "FOLLOWS": early},
        warps=max(1, min(4, block // 128)),
        options=EARLY_LAUNCH if early else {},
    )


def join_step(product: MatrixProduct, shares: int, units: int) -> Launch:
    """The launch of that kernel."""
    size = product.m * product.n
    finish = ProductEpilogue(product, False)
    return launch(
        "join",
        (-(-size // join_block(product, units)) * product.batch,),
        (
            partial_sums(product, shares),
            *finish.values(),
            "out",
            size,
            product.n,
            shares,
            *finish.factors(),
        ),
    )


@dataclass(frozen=True, slots=True)
class TailTiles:
    """Tiles of the last round of persistent programs, which are split along K."""

    tile_m: int
    tile_n: int
    group: int
    shares: int
    whole: int
    """Number of tiles that are not split."""
    count: int
    """Number of tiles that are split."""

    @property
    def parts(self) -> Scratch:
        """The scratch memory of the partial sums."""
        return Scratch("parts", 4 * self.count * self.shares * self.tile_m * self.tile_n)

    def spec(self, product: MatrixProduct, early: bool) -> KernelSpec:
        """The kernel that adds up the partial sums."""
        finish = ProductEpilogue(product, False)
        return KernelSpec(
            "join",
            _MODULE,
            "join_tiles",
            {
                "parts": pointer_type("fp32"),
                **finish.arguments(),
                "out": pointer_type(product.out_type),
                "whole": integer_type(self.whole),
                "M": integer_type(product.m),
                "N": integer_type(product.n),
                **FACTORS,
            },
            {
                "SHARES": self.shares,
                "BM": self.tile_m,
                "BN": self.tile_n,
                "ROWS": self.rows,
                "GROUP": self.group,
                **finish.constants(),
                "FOLLOWS": early,
            },
            options=EARLY_LAUNCH if early else {},
        )

    @property
    def rows(self) -> int:
        """Rows of a tile that one program adds up: 4096 elements."""
        return min(self.tile_m, max(1, 4096 // self.tile_n))

    def step(self, product: MatrixProduct) -> Launch:
        """The launch of that kernel."""
        finish = ProductEpilogue(product, False)
        return launch(
            "join",
            (self.tile_m // self.rows, self.count),
            (
                self.parts,
                *finish.values(),
                "out",
                self.whole,
                product.m,
                product.n,
                *finish.factors(),
            ),
        )


def widened_width(product: MatrixProduct, tensor: Tensor) -> int:
    """The row stride, in elements, of the widened copy of a tensor."""
    each = _LINE_BYTES // product.element_bytes
    return -(-tensor.shape[-1] // each) * each


def widened_operand(product: MatrixProduct, tensor: Tensor) -> Scratch:
    """The widened copy of an operand."""
    rows = prod(tensor.shape[:-1])
    return Scratch(
        f"wide_{tensor.name}", rows * widened_width(product, tensor) * product.element_bytes
    )


def widen_spec(product: MatrixProduct, odd: Sequence[Tensor], early: bool) -> KernelSpec:
    """The kernel that copies one or two operands into wider rows."""
    arguments: dict[str, Argument] = {}
    for end, tensor in zip(("_a", "_b") if len(odd) == 2 else ("",), odd, strict=True):
        arguments |= {
            end[1:] or "x": pointer_type(product.type),
            f"wide{end}" if end else "to": pointer_type(product.type),
            f"rows{end}": integer_type(prod(tensor.shape[:-1])),
            f"columns{end}": integer_type(tensor.shape[-1]),
            f"width{end}": integer_type(widened_width(product, tensor)),
        }
    constants = {"BR": _BLOCK_ROWS, "BC": _block_columns(odd), "FOLLOWED": early}
    function = "widen_two" if len(odd) == 2 else "widen"
    return KernelSpec("widen", _MODULE, function, arguments, constants, warps=8)


def widen_step(product: MatrixProduct, odd: Sequence[Tensor]) -> Launch:
    """The launch of that kernel."""
    blocks = 0
    values: list[Scratch | str | int] = []
    for tensor in odd:
        rows, columns = prod(tensor.shape[:-1]), tensor.shape[-1]
        blocks += -(-rows // _BLOCK_ROWS) * -(-columns // _block_columns(odd))
        values += [
            tensor.name,
            widened_operand(product, tensor),
            rows,
            columns,
            widened_width(product, tensor),
        ]
    return launch("widen", (blocks,), values)


def _block_columns(odd: Sequence[Tensor]) -> int:
    """A power of two, no longer than the longest row needs."""
    longest = max(tensor.shape[-1] for tensor in odd)
    return min(_BLOCK_COLUMNS, max(32, 1 << (longest - 1).bit_length()))
