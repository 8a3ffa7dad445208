"""Read patterns, runs and sliding windows of an axis: every pair is read exactly once, and in
time."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from test_direct_nests import axes, met

from skipjack.operations import Axis
from skipjack.solvers.cpu.conv.depthwise.window import (
    LiveRow,
    PlaneChunk,
    ReadPattern,
    balanced_size,
    chunk_blocks,
    plane_chunks,
    position_runs,
    read_pattern,
)

Triple = tuple[int, int, int]
"""An output position, a tap, and the position that it reads."""


def triples(axis: Axis, backward: bool) -> set[Triple]:
    """By the definition."""
    return {
        (image, tap, result) if backward else (result, tap, image)
        for image, tap, result in met(axis)
    }


def read_by_runs(pattern: ReadPattern, size: int) -> Iterator[Triple]:
    """All reads of all repeats."""
    for run in position_runs(pattern, size):
        for repeat in range(run.repeats):
            for at, reads in enumerate(run.reads):
                position = run.begin + repeat * size + at
                for tap, place in reads:
                    yield position, tap, run.base + repeat * run.step + place


@settings(derandomize=True, deadline=None, max_examples=300)
@given(axes(), st.booleans(), st.integers(1, 6))
def test_runs_read_what_the_definition_says(axis: Axis, backward: bool, most: int) -> None:
    pattern = read_pattern(axis, backward=backward)
    size = balanced_size(pattern, most)
    assert sorted(read_by_runs(pattern, size)) == sorted(triples(axis, backward))
    covered = [
        run.begin + r * size for run in position_runs(pattern, size) for r in range(run.repeats)
    ]
    assert covered == list(range(0, pattern.size, size))
    assert sum(run.size * run.repeats for run in position_runs(pattern, size)) == pattern.size


def marched(pattern: ReadPattern, chunk: PlaneChunk, number: int, count: int) -> Iterator[Triple]:
    """All reads of a chunk; the live rows must be those that its rounds state."""
    begin = number * chunk_blocks(pattern, count)
    at = chunk.sliding_window.start + begin
    under_way: set[LiveRow] = set()
    for each in chunk.sliding_window.rounds:
        for _ in range(each.repeats):
            assert each.known == under_way
            for row, uses in each.rows:
                for live_row, tap in uses:
                    position = (at - live_row.back) * pattern.step + live_row.phase
                    yield position, tap, at * pattern.stride + row
            under_way |= each.met
            assert len(under_way) <= chunk.sliding_window.live
            for live_row in each.done:
                yield (at - live_row.back) * pattern.step + live_row.phase, -1, -1
            left = under_way - set(each.done)
            under_way = {LiveRow(live_row.back + 1, live_row.phase) for live_row in left}
            assert each.later == under_way
            at += 1
    assert not under_way


@settings(derandomize=True, deadline=None, max_examples=300)
@given(axes(), st.booleans(), st.integers(1, 4))
def test_marches_meet_all_rows_before_they_are_done(axis: Axis, backward: bool, count: int) -> None:
    pattern = read_pattern(axis, backward=backward)
    seen: list[Triple] = []
    for chunk in plane_chunks(pattern, count):
        for repeat in range(chunk.repeats):
            seen += marched(pattern, chunk, chunk.first + repeat, count)
    done = [position for position, tap, _ in seen if tap < 0]
    assert sorted(done) == list(range(pattern.size))
    assert sorted(s for s in seen if s[1] >= 0) == sorted(triples(axis, backward))
    finished: set[int] = set()
    for position, tap, _ in seen:
        assert position not in finished
        if tap < 0:
            finished.add(position)


def test_rounds_in_between_are_one_loop() -> None:
    pattern = read_pattern(Axis(112, 3, 112, 1), backward=False)
    (chunk,) = plane_chunks(pattern, 1)
    assert [each.repeats for each in chunk.sliding_window.rounds] == [1, 110, 1, 1]
    assert chunk.sliding_window.live == 3


def test_chunks_in_between_are_the_same_code() -> None:
    pattern = read_pattern(Axis(112, 3, 112, 1), backward=False)
    assert [(chunk.first, chunk.repeats) for chunk in plane_chunks(pattern, 7)] == [
        (0, 1),
        (1, 5),
        (6, 1),
    ]
