"""Sums over the pixels of a plane, for every tap of a depthwise filter.

The march goes down the image and keeps the rows of the result that it meets; the sums of some rows
of the filter stay in registers all the while.
"""

from __future__ import annotations

from dataclasses import replace

from skipjack.native.ir import constant_mask
from skipjack.solvers.convolution.depthwise_axis import Reads
from skipjack.solvers.convolution.depthwise_march import Partner, Round, chunk_blocks, chunks
from skipjack.solvers.convolution.depthwise_module import Function, internal
from skipjack.solvers.convolution.depthwise_plan import Plan, Strides
from skipjack.solvers.convolution.depthwise_strips import Place, Strips, Under
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

_SIGNATURE = "ptr noalias %image, ptr noalias %result, ptr noalias %sums, i64 %chunk"


def filter_groups(reads: Reads, size: int) -> list[Reads]:
    """Rows of the filter in groups whose sums are in registers together."""
    return [reads[first : first + size] for first in range(0, len(reads), size)]


class PlaneSums:
    """Writes ``@sumsG_K(image, result, sums, chunk)`` for groups G of the filter's rows.

    They add what a chunk of a kind K gives; pointers are to whole planes and a plane's sums.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.image, self.result = Strides.of(plan, "image"), Strides.of(plan, "result")
        _, self.high, _ = plan.patterns
        self.blocks = chunk_blocks(self.high, plan.chunks)
        self.groups = filter_groups(self.high.phases[0], plan.group)
        self.chunks = [
            chunks(replace(self.high, phases=(reads,)), plan.chunks) for reads in self.groups
        ]
        self.columns = range(plan.geometry.filter_sizes[2])
        self.mask = constant_mask(plan.vector.lanes, plan.tail) if plan.tail else None

    def functions(self) -> list[Function]:
        """All groups, all kinds of chunks; for a last vector of channels, more of them."""
        return [
            self._plane(group, kind, tail)
            for tail in ((False, True) if self.mask else (False,))
            for group, found in enumerate(self.chunks)
            for kind in range(len(found))
        ]

    def _plane(self, group: int, kind: int, tail: bool) -> Function:
        w, plan = WholeNumberWriter(), self.plan
        taps = [(row, column) for row, _ in self.groups[group] for column in self.columns]
        numbers = [row * len(self.columns) + column for row, column in taps]
        places = [w.advance("%sums", number * plan.vector_bytes) for number in numbers]
        begin = w.mul("%chunk", self.blocks)
        image = w.advance("%image", w.mul(begin, self.high.stride * self.image.row))
        result = w.advance("%result", w.mul(begin, self.result.row))

        def meet(each: Round, place: Place, under: Under, sums: list[str]) -> list[str]:
            now = dict(zip(taps, sums, strict=True))
            for row, meetings in each.rows:
                for partner, _ in meetings:
                    if partner not in under:
                        there = w.advance(place.partners, -partner.back * self.result.row)
                        under[partner] = place.columns.load(there)
                self._products(w, place, row, meetings, under, now)
            return list(now.values())

        mask = self.mask if tail else None
        march = self.chunks[group][kind].march
        starts = [w.load(plan.vector, place) for place in places]
        strips = Strips(w, plan, march, self.image, self.result, meet, mask)
        ends = strips.write(image, result, starts)
        for place, value in zip(places, ends, strict=True):
            w.store(plan.vector, value, place)
        w.emit("ret void")
        name = f"sums{group}_{kind}{'_tail' if tail else ''}"
        return internal(w, f"void @{name}({_SIGNATURE})", plan)

    def _products(
        self,
        w: WholeNumberWriter,
        place: Place,
        row: int,
        meetings: tuple[tuple[Partner, int], ...],
        under: Under,
        sums: dict[tuple[int, int], str],
    ) -> None:
        """Everything that one row of the image meets."""
        source = w.advance(place.source, row * self.image.row)
        for value, met in place.columns.values(source):
            for partner, filter_row in meetings:
                for at, column in met:
                    tap = (filter_row, column)
                    factors = [value, under[partner][at], sums[tap]]
                    sums[tap] = w.call(self.plan.vector, "fmuladd", factors)
