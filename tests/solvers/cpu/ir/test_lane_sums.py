"""Runs of neighbouring output elements, whose vectors are reduced together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skipjack.solvers.cpu.ir import contiguous_runs


@given(st.sets(st.integers(0, 60)).map(sorted), st.sampled_from((1, 2, 4, 8, 16)))
def test_runs_are_neighbours_a_power_of_two_long_and_cover_all(
    offsets: list[int], lanes: int
) -> None:
    found = list(contiguous_runs(offsets, lanes))
    assert [offset for run in found for offset in run] == offsets
    for run in found:
        assert run == tuple(range(run[0], run[0] + len(run)))
        assert len(run) in (1, 2, 4, 8, 16)
        assert len(run) <= lanes


def test_runs_are_as_long_as_they_can_be() -> None:
    assert list(contiguous_runs(range(13), 8)) == [tuple(range(8)), tuple(range(8, 12)), (12,)]
