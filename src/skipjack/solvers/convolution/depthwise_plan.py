"""What the code of a depthwise convolution is made from, and what all its forms have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from skipjack.native.ir import STREAM_METADATA, VectorType, function
from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.convolution.depthwise_axis import Pattern, Run, balanced, gathering, runs
from skipjack.solvers.loops.entry import KERNEL, run_task, share, slot
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

Function = tuple[str, set[str]]
"""The text of a function and the declarations that it needs."""
SOURCE, PARTNER, OUT, WORKSPACE, POOL = range(5)
"""Slots: the array whose rows are loaded one by one, the other that is given, the one that is
wanted, memory of all threads, the pool; the number of threads is the last."""


@dataclass(frozen=True)
class Plan:
    """A convolution and the settings of its code."""

    geometry: Geometry
    vector: VectorType
    positions: int
    """Vectors of a row that are computed together: pixels with channels last, else vectors of
    pixels."""
    hoisted: bool
    """Whether the filter's taps stay in registers."""
    ahead: bool = False
    """Whether the next channels' pixels are fetched in advance."""
    stream: bool = False
    """Whether results are stored past the caches."""
    chunks: int = 1
    """How many parts of a plane threads may share out."""
    marching: bool = True
    """Whether every row is loaded once, and not for every row of the filter again."""
    block: int = 1
    """Vectors of channels, or channels, whose sums are under way together."""
    group: int = 1
    """Rows of the filter whose sums are in registers together."""
    threads: int = 1
    touch: int = 0

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.vector.item_bytes

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return self.vector.lanes * self.vector.item_bytes

    @property
    def last(self) -> bool:
        """Whether vectors hold channels, which lie side by side, and not pixels."""
        return self.geometry.channels_last

    @cached_property
    def patterns(self) -> tuple[Pattern, Pattern, Pattern]:
        """Depth, height, width: who reads whom."""
        backward = self.geometry.wanted == "image"
        deep, high, wide = (gathering(axis, backward=backward) for axis in self.geometry.axes)
        return deep, high, wide

    @property
    def pixel(self) -> int:
        """Bytes from a pixel to its neighbour. Channels of all arrays are as many where they
        lie side by side."""
        return self.geometry.c * self.item if self.last else self.item

    @cached_property
    def runs(self) -> list[Run]:
        """The width in pieces."""
        wide = self.patterns[2]
        unit = 1 if self.last else self.vector.lanes
        return runs(wide, balanced(wide, self.positions // wide.step, unit))

    @property
    def alignment(self) -> int:
        """Of all vectors of the output that are stored, if the array itself has it."""
        step = self.pixel if self.last else self.patterns[2].size * self.item
        return min(step & -step, self.vector_bytes)

    @property
    def tap_row(self) -> int:
        """Bytes of a row of taps, as the code of sums over taps finds them."""
        return self.geometry.filter_sizes[2] * self._tap

    @property
    def tap_plane(self) -> int:
        """Bytes of a plane of taps."""
        return self.geometry.filter_sizes[1] * self.tap_row

    @property
    def _tap(self) -> int:
        return self.vector_bytes if self.last else self.item

    def load_tap(self, w: WholeNumberWriter, taps: str, row: int, column: int) -> str:
        """A tap for all lanes: a vector of channels' own ones, or one for all pixels."""
        place = w.advance(taps, row * self.tap_row + column * self._tap)
        return w.load(self.vector, place) if self.last else w.broadcast(self.vector, place)

    @property
    def vectors(self) -> int:
        """Of all channels, where vectors hold them."""
        return -(-self.geometry.c // self.vector.lanes)


@dataclass(frozen=True, slots=True)
class Strides:
    """Bytes from one part of an array to the next."""

    row: int
    plane: int
    """Of a depth."""
    channel: int
    """Of channels that do not lie side by side: to the next one; else to the next vector."""
    image: int

    @classmethod
    def of(cls, plan: Plan, role: Role) -> Strides:
        """Of the image or the result."""
        geometry = plan.geometry
        deep, high, wide = geometry.image_sizes if role == "image" else geometry.result_sizes
        row = wide * plan.pixel
        plane = high * row
        image = deep * plane
        if plan.last:
            return cls(row, plane, plan.vector_bytes, image)
        channels = geometry.c if role == "image" else geometry.k
        return cls(row, plane, image, image * channels)


def internal(w: WholeNumberWriter, signature: str, plan: Plan) -> Function:
    """A finished body as a function of the module."""
    bits = max(128, 8 * plan.vector_bytes)
    text = function(w, signature, bits, linkage="internal", attributes="noinline")
    return text, w.declarations


def module(plan: Plan, functions: Sequence[Function], alignment: int = 0) -> str:
    """The functions, of which one is the task, and the entry that hands it out.

    With an alignment there is a plain task for an output without it.
    """
    w = WholeNumberWriter()
    threads = slot(w, POOL + 1, "i64") if plan.threads > 1 else "1"
    pool = slot(w, POOL) if plan.threads > 1 else ""

    def start(name: str) -> None:
        if pool:
            run_task(w, pool, threads, name)
        else:
            w.emit(f"call void @{name}(ptr %slots, i64 0, i64 1)")

    if alignment:
        address = w.value(f"ptrtoint ptr {slot(w, OUT)} to i64")
        odd = w.value(f"and i64 {address}, {alignment - 1}")
        aligned = w.value(f"icmp eq i64 {odd}, 0")
        w.either(aligned, lambda: start("task"), lambda: start("task_plain"))
    else:
        start("task")
    w.emit("ret void")
    declared: set[str] = set().union(*(needed for _, needed in functions))
    texts = [text for text, _ in functions]
    return "\n".join([*sorted(declared), *texts, function(w, KERNEL, 64), STREAM_METADATA])


def own_memory(w: WholeNumberWriter, plan: Plan, bytes_: int) -> str:
    """Inside of a task: this thread's part of the workspace."""
    room = slot(w, WORKSPACE)
    return room if plan.threads == 1 else w.advance(room, w.mul("%index", bytes_))


def each_item(
    w: WholeNumberWriter,
    sizes: Mapping[str, int],
    body: Callable[[Mapping[str, str]], None],
) -> None:
    """Run the body for this thread's share of all combinations, the last size running fastest."""
    begin, end = share(w, prod(sizes.values()))

    def item(counter: str, _: list[str]) -> list[str]:
        number = w.add(begin, counter)
        at: dict[str, str] = {}
        for name, size in reversed(sizes.items()):
            at[name] = "0" if size == 1 else w.value(f"urem i64 {number}, {size}")
            if size > 1:
                number = w.value(f"udiv i64 {number}, {size}")
        body(at)
        return []

    w.loop_or_skip(w.sub(end, begin), [], item)
