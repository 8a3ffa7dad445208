"""Steps around a product: joining the shares of split sums, and widening rows of odd lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from skipjack.core.nest import Tensor
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Launch, Scratch, launch
from skipjack.solvers.gpu.product import FACTORS, Finish, Product, number, parts, pointer
from skipjack.solvers.gpu.spec import KernelSpec

_MODULE = "skipjack.solvers.gpu.kernels.joining"
_JOINED = 1024
_LINE_BYTES = 128
"""Rows that begin within a cache line are read at about two thirds of the speed."""
EARLY = {"launch_pdl": True}
"""Compiler options of a kernel that may start before the one before it has ended."""
_BLOCK_ROWS, _BLOCK_COLUMNS = 8, 1024


def join_block(product: Product, units: int) -> int:
    """How many elements a program joins: few where there are few, to have all units read."""
    block = _JOINED
    while block > 128 and product.batch * product.m * product.n < 2 * block * units:
        block //= 2
    return block


def join_spec(product: Product, shares: int, units: int, early: bool) -> KernelSpec:
    """The kernel that adds up shares; `early`, before the one before it has ended."""
    finish, block = Finish(product, False), join_block(product, units)
    return KernelSpec(
        "join",
        _MODULE,
        "join",
        {
            "parts": pointer("fp32"),
            **finish.arguments(),
            "out": pointer(product.out_type),
            "size": number(product.m * product.n),
            "N": number(product.n),
            "shares": number(shares),
            **FACTORS,
        },
        {"BATCHED": product.batch > 1, "BLOCK": block, **finish.constants(), "FOLLOWS": early},
        warps=max(1, min(4, block // 128)),
        options=EARLY if early else {},
    )


def join_step(product: Product, shares: int, units: int) -> Launch:
    """Its launch."""
    size = product.m * product.n
    finish = Finish(product, False)
    return launch(
        "join",
        (-(-size // join_block(product, units)) * product.batch,),
        (
            parts(product, shares),
            *finish.values(),
            "out",
            size,
            product.n,
            shares,
            *finish.factors(),
        ),
    )


@dataclass(frozen=True, slots=True)
class Leftover:
    """Tiles of the last round of persistent programs, cut into shares of K."""

    tile_m: int
    tile_n: int
    group: int
    shares: int
    whole: int
    """Tiles that are not cut."""
    count: int
    """Tiles that are."""

    @property
    def parts(self) -> Scratch:
        """Where sums of shares are kept."""
        return Scratch("parts", 4 * self.count * self.shares * self.tile_m * self.tile_n)

    def spec(self, product: Product, early: bool) -> KernelSpec:
        """The kernel that adds up shares."""
        finish = Finish(product, False)
        return KernelSpec(
            "join",
            _MODULE,
            "join_tiles",
            {
                "parts": pointer("fp32"),
                **finish.arguments(),
                "out": pointer(product.out_type),
                "whole": number(self.whole),
                "M": number(product.m),
                "N": number(product.n),
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
            options=EARLY if early else {},
        )

    @property
    def rows(self) -> int:
        """Of a tile, that one program joins: 4096 elements."""
        return min(self.tile_m, max(1, 4096 // self.tile_n))

    def step(self, product: Product) -> Launch:
        """Its launch."""
        finish = Finish(product, False)
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


def width(product: Product, tensor: Tensor) -> int:
    """How many elements apart the rows of a tensor are where the copy engine reads them."""
    each = _LINE_BYTES // product.element_bytes
    return -(-tensor.shape[-1] // each) * each


def wide(product: Product, tensor: Tensor) -> Scratch:
    """The widened copy of an operand."""
    rows = prod(tensor.shape[:-1])
    return Scratch(f"wide_{tensor.name}", rows * width(product, tensor) * product.element_bytes)


def widen_spec(product: Product, odd: Sequence[Tensor], early: bool) -> KernelSpec:
    """The kernel that copies one or two operands into wider rows."""
    arguments: dict[str, Argument] = {}
    for end, tensor in zip(("_a", "_b") if len(odd) == 2 else ("",), odd, strict=True):
        arguments |= {
            end[1:] or "x": pointer(product.type),
            f"wide{end}" if end else "to": pointer(product.type),
            f"rows{end}": number(prod(tensor.shape[:-1])),
            f"columns{end}": number(tensor.shape[-1]),
            f"width{end}": number(width(product, tensor)),
        }
    constants = {"BR": _BLOCK_ROWS, "BC": _block_columns(odd), "FOLLOWED": early}
    function = "widen_two" if len(odd) == 2 else "widen"
    return KernelSpec("widen", _MODULE, function, arguments, constants, warps=8)


def widen_step(product: Product, odd: Sequence[Tensor]) -> Launch:
    """Its launch."""
    blocks = 0
    values: list[Scratch | str | int] = []
    for tensor in odd:
        rows, columns = prod(tensor.shape[:-1]), tensor.shape[-1]
        blocks += -(-rows // _BLOCK_ROWS) * -(-columns // _block_columns(odd))
        values += [tensor.name, wide(product, tensor), rows, columns, width(product, tensor)]
    return launch("widen", (blocks,), values)


def _block_columns(odd: Sequence[Tensor]) -> int:
    """A power of two, no longer than the longest row needs."""
    longest = max(tensor.shape[-1] for tensor in odd)
    return min(_BLOCK_COLUMNS, max(32, 1 << (longest - 1).bit_length()))
