"""Axes as gathers: parts, tiles and runs cover the pairs of a convolution exactly once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.operations import Axis, result_size
from skipjack.solvers.cpu.conv.implicit_gemm.filter_gradients import pixel_runs
from skipjack.solvers.cpu.conv.implicit_gemm.gather import (
    AxisPart,
    backward_parts,
    even_size,
    forward_part,
    tile_runs,
)


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    taps, pad = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    least = max(1, (taps - 1) * dilation + 1 - 2 * pad)
    image = draw(st.integers(least, least + 12))
    return Axis(image, taps, result_size(image, taps, pad, stride, dilation), pad, stride, dilation)


def met(axis: Axis) -> list[tuple[int, int, int]]:
    """Pixel of the image, tap and pixel of the result, by the definition of a convolution."""
    found = [
        (pixel * axis.stride + tap * axis.dilation - axis.pad, tap, pixel)
        for pixel in range(axis.result)
        for tap in range(axis.filter)
    ]
    return sorted(triple for triple in found if 0 <= triple[0] < axis.image)


def read(part: AxisPart, tile: int) -> list[tuple[int, int, int]]:
    """Element of the output, tap and element of the source that the tiles of a part cover."""
    found = []
    for run in tile_runs(part, tile):
        for number in range(run.tiles):
            begin = run.begin + number * run.elements
            for tap, (low, high) in enumerate(run.active):
                for at in range(begin + low, begin + high):
                    source = at * part.step + part.offset + tap * part.spread
                    index = part.tap + tap * part.tap_step
                    found.append((part.first + at * part.every, index, source))
    return found


@settings(derandomize=True, deadline=None, max_examples=200)
@given(axes(), st.integers(1, 9))
def test_a_forward_axis_reads_each_pair_inside_once(axis: Axis, tile: int) -> None:
    found = [(source, tap, pixel) for pixel, tap, source in read(forward_part(axis), tile)]
    assert sorted(found) == met(axis)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(axes(), st.integers(1, 9))
def test_backward_parts_read_each_pair_inside_once(axis: Axis, tile: int) -> None:
    parts = backward_parts(axis)
    found = [triple for part in parts for triple in read(part, tile)]
    assert sorted(found) == met(axis)
    wanted = [part.first + at * part.every for part in parts for at in range(part.count)]
    assert sorted(wanted) == list(range(axis.image))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(axes())
def test_runs_of_pixels_meet_each_pair_inside_once(axis: Axis) -> None:
    found = [
        (pixel * axis.stride + tap * axis.dilation - axis.pad, tap, pixel)
        for first, count, (low, high) in pixel_runs(axis)
        for pixel in range(first, first + count)
        for tap in range(low, high)
    ]
    assert sorted(found) == met(axis)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.integers(1, 500), st.integers(1, 40))
def test_even_pieces_are_as_few_as_can_be_and_nearly_equal(count: int, most: int) -> None:
    size = even_size(count, most)
    assert size <= most
    assert -(-count // size) == -(-count // most)
    assert size == 1 or -(-count // (size - 1)) > -(-count // most)


def test_only_taps_on_padding_are_left_out() -> None:
    found = tile_runs(forward_part(Axis(28, 3, 28, 1)), 14)
    assert [run.active for run in found] == [
        ((1, 14), (0, 14), (0, 14)),
        ((0, 14), (0, 14), (0, 13)),
    ]
