"""Turning a depthwise filter: a channel's taps lie side by side, vectors want a tap's channels."""

from __future__ import annotations

from skipjack.native.ir import constant_mask
from skipjack.solvers.convolution.depthwise_plan import Function, Plan, internal
from skipjack.solvers.loops.packing import transpose
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


def taps_function(plan: Plan) -> Function:
    """``@taps(from, to)``: for every vector of channels all its taps.

    Channels that are missing in the last vector are copies of the last one.
    """
    w, geometry, vector = WholeNumberWriter(), plan.geometry, plan.vector
    taps, lanes = geometry.taps, vector.lanes
    channel = taps * plan.item

    def block(number: str, _: list[str]) -> list[str]:
        channels = [
            w.least(w.add(w.mul(number, lanes), lane), geometry.c - 1) for lane in range(lanes)
        ]
        rows = [w.advance("%from", w.mul(each, channel)) for each in channels]
        target = w.advance("%to", w.mul(number, taps * plan.vector_bytes))
        for start in range(0, taps, lanes):
            have = min(lanes, taps - start)
            mask = constant_mask(lanes, have)
            square = [w.load(vector, w.advance(row, start * plan.item), mask) for row in rows]
            for tap, value in enumerate(transpose(w, vector, square)[:have], start):
                w.store(vector, value, w.advance(target, tap * plan.vector_bytes))
        return []

    w.loop(plan.vectors, [], block)
    w.emit("ret void")
    return internal(w, "void @taps(ptr noalias %from, ptr noalias %to)", plan)
