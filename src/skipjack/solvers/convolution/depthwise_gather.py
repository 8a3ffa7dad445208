"""Depthwise convolution forward, and backward to the image: planes as sums of products with taps.

The march sums rows up in registers while it goes down the plane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from skipjack.operations.conv_geometry import Role
from skipjack.solvers.convolution.depthwise_march import Chunk, Partner, Round, chunk_blocks, chunks
from skipjack.solvers.convolution.depthwise_module import Function, internal
from skipjack.solvers.convolution.depthwise_plan import Plan, Strides
from skipjack.solvers.convolution.depthwise_rows import Rows
from skipjack.solvers.convolution.depthwise_strips import Place, Strips, Under
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

_SIGNATURE = "ptr noalias %from, ptr noalias %taps, ptr noalias %to, i64 %chunk"


@dataclass(frozen=True, slots=True)
class PlaneFunction:
    """The code of some chunks of a plane: ``@name(from, taps, to, chunk)``, pointers to the whole.

    What it is for besides: a first term, which is stored, or a further one, which is added; full
    vectors of channels or, with a mask, the last.
    """

    name: str
    chunk: Chunk
    more: bool
    mask: str | None


class Gathering:
    """Writes the functions of planes."""

    def __init__(self, plan: Plan) -> None:
        self.plan, geometry = plan, plan.geometry
        given: Role = "result" if geometry.wanted == "image" else "image"
        self.source, self.to = Strides.of(plan, given), Strides.of(plan, geometry.wanted)
        _, self.high, _ = plan.patterns
        self.blocks = chunk_blocks(self.high, plan.chunks)
        self.chunks = chunks(self.high, plan.chunks)
        if not plan.marching:  # its code is the same for all chunks
            self.chunks = (replace(self.chunks[0], repeats=sum(c.repeats for c in self.chunks)),)

    def write(self, function: PlaneFunction) -> Function:
        """The text."""
        w = WholeNumberWriter()
        if self.plan.marching:
            self._march(w, function)
        else:
            begin = w.mul("%chunk", self.blocks)
            rows = Rows(w, self.plan, self.source, self.to, function.more, function.mask)
            rows.write("%from", "%taps", "%to", begin, w.add(begin, self.blocks))
        w.emit("ret void")
        return internal(w, f"void @{function.name}({_SIGNATURE})", self.plan)

    def _march(self, w: WholeNumberWriter, function: PlaneFunction) -> None:
        plan = self.plan
        begin = w.mul("%chunk", self.blocks)
        source = w.advance("%from", w.mul(begin, self.high.stride * self.source.row))
        to = w.advance("%to", w.mul(begin, self.high.step * self.to.row))
        _, rows, columns = plan.geometry.filter_sizes
        kept = {
            (row, column): plan.load_tap(w, "%taps", row, column)
            for row in range(rows if plan.hoisted else 0)
            for column in range(columns)
        }

        def meet(each: Round, place: Place, under: Under, _: list[str]) -> list[str]:
            for row, meetings in each.rows:
                for partner, _tap in meetings:
                    if partner not in under:
                        under[partner] = self._fresh(w, place, partner, function.more)
                self._products(w, place, row, meetings, under, kept)
            for partner in each.done:
                sums = under.get(partner) or self._fresh(w, place, partner, function.more)
                place.columns.store(self._row(w, place, partner), sums)
            return []

        march = function.chunk.march
        Strips(w, plan, march, self.source, self.to, meet, function.mask).write(source, to)

    def _products(
        self,
        w: WholeNumberWriter,
        place: Place,
        row: int,
        meetings: tuple[tuple[Partner, int], ...],
        under: Under,
        kept: dict[tuple[int, int], str],
    ) -> None:
        """Everything that one row meets."""
        vector, zero = self.plan.vector, self.plan.vector.constant(0.0)
        source = w.advance(place.source, row * self.source.row)
        for value, met in place.columns.values(source):
            for partner, filter_row in meetings:
                sums = under[partner]
                for at, column in met:
                    tap = kept.get((filter_row, column)) or self.plan.load_tap(
                        w, "%taps", filter_row, column
                    )
                    sums[at] = (
                        w.value(f"fmul {vector.text} {value}, {tap}")
                        if sums[at] == zero
                        else w.call(vector, "fmuladd", [value, tap, sums[at]])
                    )

    def _fresh(self, w: WholeNumberWriter, place: Place, partner: Partner, more: bool) -> list[str]:
        """A row's sums before the first product."""
        if more:
            return place.columns.load(self._row(w, place, partner))
        return [self.plan.vector.constant(0.0)] * place.columns.positions

    def _row(self, w: WholeNumberWriter, place: Place, partner: Partner) -> str:
        row = partner.phase - partner.back * self.high.step
        return w.advance(place.partners, row * self.to.row)
