"""Solvers are ranked by times from the same rounds, not by the clock rate at the time."""

from collections.abc import Sequence

import pytest

from skipjack.core import Candidate, Config
from skipjack.execute import Block
from skipjack.operations import parse
from skipjack.tuning.study import LoadedCandidate, joined_blocks, rank

PROBLEM = parse("add:8")


def loaded(kernel: int, solver: str, time_ns: float = 1.0) -> LoadedCandidate:
    return LoadedCandidate(Candidate(PROBLEM, solver, Config(n=kernel)), kernel, time_ns=time_ns)


def blocks(kernel: int, times: Sequence[float], start: int = 0) -> list[Block]:
    rounds = enumerate(times, start)
    return [Block(kernel, at, 1, (time_ns,), (1.0, 1.0), False) for at, time_ns in rounds]


NEST, ROWS, NUMPY = loaded(1, "nest"), loaded(2, "rows"), loaded(3, "numpy")


def test_the_fastest_is_first() -> None:
    timed = {1: blocks(1, [30.0] * 12), 2: blocks(2, [10.0] * 12), 3: blocks(3, [20.0] * 12)}
    ranking = rank([NEST, ROWS, NUMPY], timed)
    assert [place.loaded.solver for place in ranking] == ["rows", "numpy", "nest"]
    assert [place.timing.time_ns for place in ranking] == pytest.approx([10.0, 20.0, 30.0])
    assert [place.behind.ratio for place in ranking] == pytest.approx([1.0, 2.0, 3.0])
    assert not any(place.tie for place in ranking)


def test_those_that_pairs_do_not_tell_apart_are_ties() -> None:
    noise = [10.0, 10.4] * 6
    timed = {1: blocks(1, noise), 2: blocks(2, noise[::-1]), 3: blocks(3, [11.0] * 12)}
    first, second, third = rank([NEST, ROWS, NUMPY], timed)
    assert (first.tie, second.tie, third.tie) == (False, True, False)


def test_a_small_difference_in_every_pair_is_none() -> None:
    drift = [10.0 + at for at in range(12)]
    timed = {1: blocks(1, drift), 2: blocks(2, [1.02 * time_ns for time_ns in drift])}
    _, second = rank([NEST, ROWS], timed)
    assert not second.tie
    assert second.behind.ratio == pytest.approx(1.02)


def test_rounds_that_only_some_took_part_in_do_not_change_the_order() -> None:
    """The machine was twice as slow later, when the slower one was not timed anymore."""
    timed = {1: blocks(1, [10.0] * 4 + [20.0] * 8), 2: blocks(2, [15.0] * 4)}
    first, second = rank([ROWS, NEST], timed)
    assert (first.loaded, second.loaded) == (NEST, ROWS)
    assert second.timing.time_ns == pytest.approx(1.5 * first.timing.time_ns)


def test_a_solver_has_one_place_its_best() -> None:
    slower = loaded(4, "nest")
    timed = {1: blocks(1, [10.0] * 5), 4: blocks(4, [12.0] * 5), 2: blocks(2, [11.0] * 5)}
    ranking = rank([slower, NEST, ROWS], timed)
    assert [place.loaded for place in ranking] == [NEST, ROWS]


def test_who_was_left_out_keeps_the_time_of_its_one_call() -> None:
    far = loaded(5, "naive", 90.0)
    first, second = rank([far, NEST], {1: blocks(1, [10.0] * 5)})
    assert (first.loaded, second.loaded) == (NEST, far)
    assert (second.timing.time_ns, second.timing.samples) == (90.0, 1)
    assert second.behind.ratio == pytest.approx(9.0)
    assert not second.behind.supported
    assert (first.alone, second.alone) == (False, True)
    assert rank([far], {})[0].timing.time_ns == 90.0
    assert rank([], {}) == ()


def test_blocks_of_two_stages_stay_pairs() -> None:
    both = joined_blocks({1: blocks(1, [1.0, 2.0]), 2: blocks(2, [3.0])}, {1: blocks(1, [4.0])})
    assert [(block.round, block.time_ns) for block in both[1]] == [(0, 1.0), (1, 2.0), (2, 4.0)]
    assert [block.round for block in both[2]] == [0]
