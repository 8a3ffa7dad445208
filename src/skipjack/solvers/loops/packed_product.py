"""What a packed matrix product computes: sizes, and where its operands lie."""

from __future__ import annotations

from dataclasses import dataclass, field

from skipjack.core.device import Device
from skipjack.core.nest import Accumulator, Scalar
from skipjack.core.problem import Problem
from skipjack.operations import get
from skipjack.operations.matmul import Matmul, Settings
from skipjack.solvers.solver import Slot


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix for each product of a batch; strides in elements."""

    slot: Slot
    batch: int
    row: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Slices:
    """Sums over two levels: all of `Product.k`, so often, with these strides of A and B."""

    count: int = 1
    a: int = 0
    b: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of two levels: all of `Product.m`, so often, with these strides of A and of `out`."""

    count: int = 1
    a: int = 0
    out: int = 0


@dataclass(frozen=True, slots=True)
class Product:
    """``out = epilogue(a b)`` for each of a batch.

    Columns of `out` lie side by side; or its rows do, and then nothing else is done to them.
    """

    batch: int
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    out: Operand
    extras: tuple[Operand, ...] = ()
    """What the epilogue loads besides, as `Load(2)` and so on."""
    epilogue: Scalar = field(default_factory=Accumulator)
    slices: Slices = Slices()
    accumulate: bool = False
    """Whether the product is added to what `out` holds."""
    groups: Groups = Groups()

    def __post_init__(self) -> None:
        assert self.out.column == 1 or self.out.row == 1, "rows or columns lie side by side"
        plain = self.groups.count == 1 and self.out.column == 1
        assert plain or not self.extras, "groups of rows and turned products load nothing besides"

    @property
    def depth(self) -> int:
        """The whole length of a sum."""
        return self.k * self.slices.count

    @property
    def packs(self) -> tuple[bool, ...]:
        """Whether A may be packed, the default first: one of two strides must be."""
        if self.a.column == 1:
            return (False, True)
        return (True, False) if self.a.row == 1 else (True,)

    @property
    def packs_b(self) -> tuple[bool, ...]:
        """Whether B may be packed, the default first: it must be unless columns lie together."""
        return (True, False) if self.b.column == 1 else (True,)


def parse_tile(tile: object) -> tuple[int, int]:
    """Rows, and vectors of columns."""
    rows, vectors = str(tile).split("x")
    return int(rows), int(vectors)


def refusal_of(problem: Problem, device: Device) -> str:
    """Why solvers of matrix products on CPUs refuse a problem; empty if they need not."""
    if device.kind != "cpu":
        return f"it builds for CPUs, not for {device.name}"
    is_product = isinstance(get(problem.operation), Matmul)
    return "" if is_product else "it knows matrix products alone"


def product_of(problem: Problem) -> Product:
    """What a problem of `Matmul` is."""
    operation = get(problem.operation)
    assert isinstance(operation, Matmul)
    batch, m, n, k = operation.sizes(problem)
    settings = Settings.of(problem)
    return Product(
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
