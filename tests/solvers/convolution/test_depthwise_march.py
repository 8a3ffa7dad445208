"""Patterns, runs and marches of an axis: every pair that meets does so once, and in time."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from test_direct_nests import axes, met

from skipjack.operations.conv_geometry import Axis
from skipjack.solvers.convolution.depthwise_axis import Pattern, balanced, gathering, runs
from skipjack.solvers.convolution.depthwise_march import Chunk, Partner, chunk_blocks, chunks

Triple = tuple[int, int, int]
"""A position that is wanted, a tap, and the position that it reads."""


def triples(axis: Axis, backward: bool) -> set[Triple]:
    """By the definition."""
    return {
        (image, tap, result) if backward else (result, tap, image)
        for image, tap, result in met(axis)
    }


def read_by_runs(pattern: Pattern, size: int) -> Iterator[Triple]:
    """All reads of all repeats."""
    for run in runs(pattern, size):
        for repeat in range(run.repeats):
            for at, reads in enumerate(run.reads):
                position = run.begin + repeat * size + at
                for tap, place in reads:
                    yield position, tap, run.base + repeat * run.step + place


@settings(derandomize=True, deadline=None, max_examples=300)
@given(axes(), st.booleans(), st.integers(1, 6))
def test_runs_read_what_the_definition_says(axis: Axis, backward: bool, most: int) -> None:
    pattern = gathering(axis, backward=backward)
    size = balanced(pattern, most)
    assert sorted(read_by_runs(pattern, size)) == sorted(triples(axis, backward))
    covered = [run.begin + r * size for run in runs(pattern, size) for r in range(run.repeats)]
    assert covered == list(range(0, pattern.size, size))
    assert sum(run.size * run.repeats for run in runs(pattern, size)) == pattern.size


def marched(pattern: Pattern, chunk: Chunk, number: int, count: int) -> Iterator[Triple]:
    """All meetings of a chunk; who is under way when must be as its rounds say."""
    begin = number * chunk_blocks(pattern, count)
    at = chunk.march.start + begin
    under_way: set[Partner] = set()
    for each in chunk.march.rounds:
        for _ in range(each.repeats):
            assert each.known == under_way
            for row, meetings in each.rows:
                for partner, tap in meetings:
                    position = (at - partner.back) * pattern.step + partner.phase
                    yield position, tap, at * pattern.stride + row
            under_way |= each.met
            assert len(under_way) <= chunk.march.live
            for partner in each.done:
                yield (at - partner.back) * pattern.step + partner.phase, -1, -1
            left = under_way - set(each.done)
            under_way = {Partner(partner.back + 1, partner.phase) for partner in left}
            assert each.later == under_way
            at += 1
    assert not under_way


@settings(derandomize=True, deadline=None, max_examples=300)
@given(axes(), st.booleans(), st.integers(1, 4))
def test_marches_meet_all_rows_before_they_are_done(axis: Axis, backward: bool, count: int) -> None:
    pattern = gathering(axis, backward=backward)
    seen: list[Triple] = []
    for chunk in chunks(pattern, count):
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
    pattern = gathering(Axis(112, 3, 112, 1), backward=False)
    (chunk,) = chunks(pattern, 1)
    assert [each.repeats for each in chunk.march.rounds] == [1, 110, 1, 1]
    assert chunk.march.live == 3


def test_chunks_in_between_are_the_same_code() -> None:
    pattern = gathering(Axis(112, 3, 112, 1), backward=False)
    assert [(chunk.first, chunk.repeats) for chunk in chunks(pattern, 7)] == [
        (0, 1),
        (1, 5),
        (6, 1),
    ]
