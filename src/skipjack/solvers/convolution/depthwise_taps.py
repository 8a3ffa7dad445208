"""Turning a depthwise filter round: a channel's taps lie side by side in memory.

Vectors of channels want a tap's channels side by side, and sums over pixels leave them so, or as
vectors that are still to be added up.
"""

from __future__ import annotations

from skipjack.native.ir import constant_mask
from skipjack.solvers.convolution.depthwise_module import Function, internal
from skipjack.solvers.convolution.depthwise_plan import Plan
from skipjack.solvers.loops.lane_sums import reduced_lanes, runs
from skipjack.solvers.loops.packing import transpose
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


def taps_function(plan: Plan) -> Function:
    """``@taps(from, to, first, end)``: for some vectors of channels all their taps.

    Channels that are missing in the last vector are copies of the last one.
    """
    w, geometry, vector = WholeNumberWriter(), plan.geometry, plan.vector
    taps, lanes = geometry.taps, vector.lanes

    def block(after: str, _: list[str]) -> list[str]:
        number = w.add("%first", after)
        channels = [
            w.least(w.add(w.mul(number, lanes), lane), geometry.c - 1) for lane in range(lanes)
        ]
        rows = [w.advance("%from", w.mul(each, taps * plan.item)) for each in channels]
        target = w.advance("%to", w.mul(number, taps * plan.vector_bytes))
        for start in range(0, taps, lanes):
            have = min(lanes, taps - start)
            mask = constant_mask(lanes, have)
            square = [w.load(vector, w.advance(row, start * plan.item), mask) for row in rows]
            for tap, value in enumerate(transpose(w, vector, square)[:have], start):
                w.store(vector, value, w.advance(target, tap * plan.vector_bytes))
        return []

    w.loop_or_skip(w.sub("%end", "%first"), [], block)
    w.emit("ret void")
    signature = "void @taps(ptr noalias %from, ptr noalias %to, i64 %first, i64 %end)"
    return internal(w, signature, plan)


def finish_function(plan: Plan, *, tail: bool) -> Function:
    """``@finish(from, to)``: a filter from the vectors of its taps; of the last vector a tail."""
    w = WholeNumberWriter()
    if plan.last:
        _turn_back(w, plan, plan.tail if tail else plan.vector.lanes)
    else:
        _add_up(w, plan)
    w.emit("ret void")
    name = f"finish{'_tail' if tail else ''}"
    return internal(w, f"void @{name}(ptr noalias %from, ptr noalias %to)", plan)


def _turn_back(w: WholeNumberWriter, plan: Plan, channels: int) -> None:
    vector, taps = plan.vector, plan.geometry.taps
    for start in range(0, taps, vector.lanes):
        have = min(vector.lanes, taps - start)
        square = [
            w.load(vector, w.advance("%from", (start + tap) * plan.vector_bytes))
            for tap in range(have)
        ]
        mask = constant_mask(vector.lanes, have)
        for channel, value in enumerate(transpose(w, vector, square)[:channels]):
            w.store(vector, value, w.advance("%to", (channel * taps + start) * plan.item), mask)


def _add_up(w: WholeNumberWriter, plan: Plan) -> None:
    vector = plan.vector
    for together in runs(range(plan.geometry.taps), vector.lanes):
        values = [w.load(vector, w.advance("%from", tap * plan.vector_bytes)) for tap in together]
        kind, value = reduced_lanes(w, vector, "sum", values)
        w.store(kind, value, w.advance("%to", together[0] * plan.item))
