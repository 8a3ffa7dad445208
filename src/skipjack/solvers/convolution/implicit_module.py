"""What the kernels of an implicit matrix product have in common: named slots, one entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from skipjack.native.ir import VectorType, function
from skipjack.solvers.loops.entry import KERNEL, run_or_call, slot
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

SHARED = ("parallel", "threads")
"""The first two slots of every such kernel: the pool, and how many threads it has."""


def slot_number(name: str, pointers: Sequence[str], numbers: Sequence[str] = ()) -> int:
    """Where among the slots a name is."""
    return (*SHARED, *pointers, *numbers).index(name)


class NamedSlots(WholeNumberWriter):
    """Reads slots by their names: after the shared ones pointers, then numbers."""

    def __init__(self, pointers: Sequence[str], numbers: Sequence[str] = ()) -> None:
        super().__init__()
        self._pointers, self._numbers = tuple(pointers), tuple(numbers)

    def given(self, name: str) -> str:
        """What a slot holds."""
        kind = "ptr" if name in (SHARED[0], *self._pointers) else "i64"
        return slot(self, slot_number(name, self._pointers, self._numbers), kind)


@dataclass
class Module:
    """Functions under construction, for vectors of one type."""

    vector: VectorType
    texts: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)

    def take(self, part: tuple[str, set[str]]) -> None:
        """A finished function and the declarations that it needs."""
        self.texts.append(part[0])
        self.declarations |= part[1]

    def close(self, w: WholeNumberWriter, signature: str, linkage: str = "internal") -> None:
        """Take in a function whose body is written but for its last return."""
        w.emit("ret void")
        bits = 8 * self.vector.lanes * self.vector.item_bytes
        attributes = "noinline" if linkage else ""
        text = function(w, signature, bits, linkage=linkage, attributes=attributes)
        self.take((text, w.declarations))

    def text(self) -> str:
        """The module, with an entry that has the pool run ``@task``."""
        w = NamedSlots(())
        run_or_call(w, w.given("parallel"), w.given("threads"))
        self.close(w, KERNEL, linkage="")
        return "\n".join([*sorted(self.declarations), *self.texts])
