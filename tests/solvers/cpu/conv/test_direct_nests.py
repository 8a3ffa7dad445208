"""Phases of an image's axis: the pairs of taps and pixels of the result, each exactly once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.operations import Axis, result_size
from skipjack.solvers.cpu.conv.direct.nests import result_margins, tap_phases


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    taps, pad = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    least = max(1, (taps - 1) * dilation + 1 - 2 * pad)
    image = draw(st.integers(least, least + 9))
    return Axis(image, taps, result_size(image, taps, pad, stride, dilation), pad, stride, dilation)


def met(axis: Axis) -> set[tuple[int, int, int]]:
    """Pixel of the image, tap, pixel of the result, by the definition."""
    pairs = ((result, tap) for result in range(axis.result) for tap in range(axis.filter))
    found = {(r * axis.stride + tap * axis.dilation - axis.pad, tap, r) for r, tap in pairs}
    return {triple for triple in found if 0 <= triple[0] < axis.image}


@settings(derandomize=True, deadline=None, max_examples=300)
@given(axes())
def test_phases_meet_what_the_definition_says(axis: Axis) -> None:
    seen: list[tuple[int, int, int]] = []
    pixels: list[int] = []
    for phase in tap_phases(axis):
        for at in range(phase.count):
            pixel = phase.first + phase.stride * at
            pixels.append(pixel)
            for step in range(phase.taps):
                tap = phase.tap_first + phase.tap_step * step
                seen.append((pixel, tap, at + phase.start - phase.step * step))
    assert sorted(pixels) == list(range(axis.image))
    inside = [triple for triple in seen if 0 <= triple[2] < axis.result]
    assert sorted(inside) == sorted(met(axis))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(axes())
def test_margins_hold_all_that_phases_read(axis: Axis) -> None:
    before, after = result_margins(axis)
    for phase in tap_phases(axis):
        if phase.taps:
            assert phase.lowest + before >= 0
            assert phase.highest < axis.result + after
