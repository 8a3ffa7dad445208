"""The code of one thread's share of the loops that are shared out to threads.

Rounds are numbered through all loops that are shared out, and every thread has a run of
neighbouring numbers. A tail is a round like others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from skipjack.core.nest import Access
from skipjack.native.ir import IRWriter
from skipjack.solvers.cpu.nest import Loop
from skipjack.solvers.loops.entry import share, share_with_tail
from skipjack.solvers.loops.tile_points import Spot

Inside = Callable[[Spot], None]
"""Writes what one round does."""


class Sharing:
    """Writes one thread's share; ``%index`` and ``%count`` say which thread of how many it is."""

    def __init__(
        self, writer: IRWriter, accesses: tuple[Access, ...], loops: tuple[Loop, ...], item: int
    ) -> None:
        self.w, self.accesses, self.loops, self.item = writer, accesses, loops, item

    def emit(self, spot: Spot, partial: bool, inside: Inside) -> None:
        """All rounds of this thread. With partial results its first round starts them anew."""
        if len(self.loops) == 1:
            self._one_loop(spot, partial, inside)
        else:
            self._several_loops(spot, inside)

    def _one_loop(self, spot: Spot, partial: bool, inside: Inside) -> None:
        """Pointers that move on from round to round; whoever has the last round has the tail."""
        w, loop = self.w, self.loops[0]
        full, tail = divmod(spot.ranges[loop.variable], loop.step)
        own = share_with_tail(w, full, bool(tail))
        moves = [access.stride(loop.variable) * loop.step * self.item for access in self.accesses]
        starts = [
            w.advance(pointer, w.value(f"mul i64 {own.begin}, {move}") if move else 0)
            for pointer, move in zip(spot.pointers, moves, strict=True)
        ]

        def body(counter: str, pointers: list[str]) -> list[str]:
            here = replace(
                spot,
                pointers=tuple(pointers),
                ranges={**spot.ranges, loop.variable: loop.step},
                first=w.value(f"icmp eq i64 {counter}, 0") if partial else spot.first,
                last=spot.last if not partial else False,
            )
            inside(here)
            pairs = zip(pointers, moves, strict=True)
            return [w.advance(pointer, move) for pointer, move in pairs]

        def last_round() -> None:
            pairs = zip(spot.pointers, moves, strict=True)
            here = replace(
                spot,
                pointers=tuple(w.advance(pointer, full * move) for pointer, move in pairs),
                ranges={**spot.ranges, loop.variable: tail},
                first=w.value(f"icmp eq i64 {own.rounds}, 0") if partial else spot.first,
                last=spot.last if not partial else False,
            )
            inside(here)

        w.loop_or_skip(own.rounds, [("ptr", pointer) for pointer in starts], body)
        if tail:
            w.when(own.has_tail, last_round)

    def _several_loops(self, spot: Spot, inside: Inside) -> None:
        """Every round finds its place from its number."""
        w = self.w
        sizes = [-(-spot.ranges[loop.variable] // loop.step) for loop in self.loops]
        begin, end = share(w, prod(sizes))

        def body(counter: str, _: list[str]) -> list[str]:
            number = w.value(f"add i64 {begin}, {counter}")
            places: list[str] = []
            for size in reversed(sizes[1:]):
                places.insert(0, w.value(f"urem i64 {number}, {size}"))
                number = w.value(f"udiv i64 {number}, {size}")
            self._settle(0, [number, *places], spot, inside)
            return []

        w.loop_or_skip(w.value(f"sub i64 {end}, {begin}"), [], body)

    def _settle(self, position: int, places: list[str], spot: Spot, inside: Inside) -> None:
        """Move to a round's place, one loop after the other; tails have code of their own."""
        if position == len(self.loops):
            inside(spot)
            return
        w, loop, place = self.w, self.loops[position], places[position]
        full, tail = divmod(spot.ranges[loop.variable], loop.step)
        moves = [access.stride(loop.variable) * loop.step * self.item for access in self.accesses]
        pointers = tuple(
            w.advance(pointer, w.value(f"mul i64 {place}, {move}") if move else 0)
            for pointer, move in zip(spot.pointers, moves, strict=True)
        )

        def go(covered: int) -> None:
            ranges = {**spot.ranges, loop.variable: covered}
            here = replace(spot, pointers=pointers, ranges=ranges)
            self._settle(position + 1, places, here, inside)

        if not tail:
            go(loop.step)
            return
        w.when(w.value(f"icmp ult i64 {place}, {full}"), lambda: go(loop.step))
        w.when(w.value(f"icmp eq i64 {place}, {full}"), lambda: go(tail))
