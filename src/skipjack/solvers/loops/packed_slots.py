"""What the kernel of a packed matrix product is given, and how its code reads that."""

from __future__ import annotations

from skipjack.errors import SpaceError
from skipjack.solvers.loops.entry import slot
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

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
"""Strides are in elements. `split` says what threads share out: 0 the batch, 1 rows, 2 columns,
3 groups of rows, `GRID` + r both rows (in r shares) and columns (in as many as are left).

Rows are `m` of each of `groups` groups, which have strides of their own; B is the same for all.
Sums run over `k` steps of each of `slices` slices; `slice_block` of them are packed together, which
is more than one only where `k_block` is all of `k` and A is packed. With `accumulate` other than 0
the product is added to what C holds.
"""
SPLITS = ("batch", "rows", "columns", "groups")
"""What threads may share out; or rows and columns, as ``4x2``: four shares of rows, two of columns.
With many threads each packs less for itself in a grid."""
GRID = len(SPLITS)
ACCUMULATE = len(POINTERS) + NUMBERS.index("accumulate")
"""Where that slot is: in rounds that add up, it moves by 1."""
EXTRA_NUMBERS = ("batch", "row")
"""After all others, for each further operand: a pointer, and these strides."""


def grid_of(split: str) -> tuple[int, int] | None:
    """Shares of rows and of columns, if threads share out both."""
    if split in SPLITS:
        return None
    rows, columns = split.split("x")
    return int(rows), int(columns)


def split_slot(split: str, threads: int) -> int:
    """What the slot `split` holds; `SpaceError` for a grid of other than so many threads."""
    grid = grid_of(split)
    if grid is None:
        return SPLITS.index(split)
    if grid[0] * grid[1] != threads:
        raise SpaceError(f"split={split} is for {grid[0] * grid[1]} threads, not for {threads}")
    return GRID + grid[0]


class SlotWriter(WholeNumberWriter):
    """Knows the slots."""

    def pointer(self, name: str) -> str:
        """A pointer among the slots."""
        return slot(self, POINTERS.index(name))

    def number(self, name: str) -> str:
        """A number among the slots."""
        return slot(self, len(POINTERS) + NUMBERS.index(name), "i64")

    def bytes(self, name: str, recipe: Recipe) -> str:
        """A stride among the slots, in bytes."""
        return self.mul(self.number(name), recipe.vector.item_bytes)

    def extra(self, number: int, field: int) -> str:
        """A further operand's pointer (field 0), batch stride (1) or row stride (2)."""
        start = len(POINTERS) + len(NUMBERS) + number * (1 + len(EXTRA_NUMBERS))
        return slot(self, start + field, "ptr" if field == 0 else "i64")

    def is_more(self, value: str) -> str:
        """Whether a number is not zero."""
        return self.value(f"icmp ne i64 {value}, 0")
