"""A packed matrix product as data: its sizes, its operands, and the slots of its kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from skipjack.core import Accumulator, Device, Problem, Scalar
from skipjack.errors import SpaceError
from skipjack.operations import Matmul, MatmulAttributes, get
from skipjack.solvers.cpu.gemm.tile import PackedRecipe
from skipjack.solvers.cpu.ir import WholeNumberWriter, slot
from skipjack.solvers.solver import Slot

# Sizes of a product, and where its operands lie.


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix for each product of a batch; strides are in elements."""

    slot: Slot
    batch: int
    row: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Slices:
    """Sums over two levels: `count` times all of `GemmProduct.k`, with strides of A and B."""

    count: int = 1
    a: int = 0
    b: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of two levels: `count` times all of `GemmProduct.m`, with strides of A and `out`."""

    count: int = 1
    a: int = 0
    out: int = 0


@dataclass(frozen=True, slots=True)
class GemmProduct:
    """``out = epilogue(a b)`` for each of a batch.

    The columns of `out` lie side by side, or its rows do; then there are no epilogue operands.
    """

    batch: int
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    out: Operand
    extras: tuple[Operand, ...] = ()
    """Further operands that the epilogue loads, as `Load(2)` and so on."""
    epilogue: Scalar = field(default_factory=Accumulator)
    slices: Slices = Slices()
    accumulate: bool = False
    """Whether the product is added to the values in `out`."""
    groups: Groups = Groups()

    def __post_init__(self) -> None:
        assert self.out.column == 1 or self.out.row == 1, (
            "either the rows or the columns of the output must lie side by side"
        )
        plain = self.groups.count == 1 and self.out.column == 1
        assert plain or not self.extras, (
            "products with groups of rows or a transposed output have no further operands"
        )

    @property
    def depth(self) -> int:
        """The length of a sum over all slices."""
        return self.k * self.slices.count

    @property
    def packs(self) -> tuple[bool, ...]:
        """The choices of packing A, the default first; without packing one of its strides must be
        1."""
        if self.a.column == 1:
            return (False, True)
        return (True, False) if self.a.row == 1 else (True,)

    @property
    def packs_b(self) -> tuple[bool, ...]:
        """The choices of packing B, the default first; without packing its columns must lie side by
        side."""
        return (True, False) if self.b.column == 1 else (True,)


def parse_tile(tile: object) -> tuple[int, int]:
    """Rows, and vectors of columns, of a tile such as ``6x4``."""
    rows, vectors = str(tile).split("x")
    return int(rows), int(vectors)


def refusal_of(problem: Problem, device: Device) -> str:
    """Why solvers of matrix products on CPUs refuse a problem; empty if they accept it."""
    if device.kind != "cpu":
        return f"it builds for CPUs, not for {device.name}"
    is_product = isinstance(get(problem.operation), Matmul)
    return "" if is_product else "it only supports matrix products"


def product_of(problem: Problem) -> GemmProduct:
    """The product that a problem of `Matmul` asks for."""
    operation = get(problem.operation)
    assert isinstance(operation, Matmul)
    batch, m, n, k = operation.sizes(problem)
    settings = MatmulAttributes.of(problem)
    return GemmProduct(
        *(batch, m, n, k),
        Operand("a", m * k, *((1, m) if settings.ta else (k, 1))),
        Operand("b", n * k, *((1, k) if settings.tb else (n, 1))),
        Operand("out", m * n, n),
        tuple(
            Operand(tensor.name, *((0, 0) if tensor.name == "bias" else (m * n, n)))
            for tensor in operation.inputs(problem)[2:]
        ),
        operation.epilogue(problem),
    )


# The slots of the kernel of a packed matrix product, and how its code reads them.

POINTERS = ("a", "b", "out", "workspace", "parallel")
NUMBERS = (
    "threads",
    "split",
    "batch",
    "m",
    "n",
    "k",
    "a_batch",
    "a_row",
    "a_col",
    "b_batch",
    "b_row",
    "b_col",
    "out_batch",
    "out_row",
    "m_block",
    "k_block",
    "n_block",
    "thread_bytes",
    "slices",
    "a_slice",
    "b_slice",
    "slice_block",
    "accumulate",
    "out_col",
    "groups",
    "a_group",
    "out_group",
)
"""Strides are in elements. `split` says what threads share out: 0 the batch, 1 rows, 2 columns, 3
groups of rows, `GRID` + r a grid with r shares of rows (and threads / r shares of columns).

There are `m` rows in each of `groups` groups, which have strides of their own; B is the same for
all. Sums run over `k` steps of each of `slices` slices; `slice_block` of them are packed together,
more than one only if `k_block` is all of `k` and A is packed. If `accumulate` is not 0, the product
is added to the values in C.
"""
SPLITS = ("batch", "rows", "columns", "groups")
"""What threads may share out; or a grid such as ``4x2``: four shares of rows, two of columns. In a
grid each of many threads packs less for itself."""
GRID = len(SPLITS)
ACCUMULATE = len(POINTERS) + NUMBERS.index("accumulate")
"""The index of that slot: in rounds that add to the same sums, it moves by 1."""
EXTRA_NUMBERS = ("batch", "row")
"""After all other slots, for each further operand: a pointer, and these strides."""


def grid_of(split: str) -> tuple[int, int] | None:
    """Shares of rows and of columns if threads share out a grid, else None."""
    if split in SPLITS:
        return None
    rows, columns = split.split("x")
    return int(rows), int(columns)


def split_slot(split: str, threads: int) -> int:
    """The value of the slot `split`; `SpaceError` if a grid does not have `threads` threads."""
    grid = grid_of(split)
    if grid is None:
        return SPLITS.index(split)
    if grid[0] * grid[1] != threads:
        raise SpaceError(f"split={split} is for {grid[0] * grid[1]} threads, not for {threads}")
    return GRID + grid[0]


class SlotWriter(WholeNumberWriter):
    """Reads the slots by name."""

    def pointer(self, name: str) -> str:
        """Load a pointer."""
        return slot(self, POINTERS.index(name))

    def number(self, name: str) -> str:
        """Load a number."""
        return slot(self, len(POINTERS) + NUMBERS.index(name), "i64")

    def bytes(self, name: str, recipe: PackedRecipe) -> str:
        """Load a stride, in bytes."""
        return self.mul(self.number(name), recipe.vector.item_bytes)

    def extra(self, number: int, field: int) -> str:
        """Load a further operand's pointer (field 0), batch stride (1) or row stride (2)."""
        start = len(POINTERS) + len(NUMBERS) + number * (1 + len(EXTRA_NUMBERS))
        return slot(self, start + field, "ptr" if field == 0 else "i64")

    def is_more(self, value: str) -> str:
        """Whether a number is not zero."""
        return self.value(f"icmp ne i64 {value}, 0")
