"""Composer: who is asked, who is forced, and the documented trace."""

from typing import Any

import pytest

from skipjack.core import Config, Status, Trial
from skipjack.errors import ForeignError, SkipjackError, UsageError
from skipjack.search import Point, Points, Repeat, Run, SearcherInterface, do_send
from skipjack.search.load import Bisect
from skipjack.search.scripted import CartesianProduct, Composer, ScriptedSearcher, Step
from skipjack.testing.scripts import play, values_of
from skipjack.testing.searchers import drive

TRACE = [
    (3800, 1, 200),
    (3800, 2, 200),
    (4200, 2, 200),
    (4200, 3, 200),
    (4200, 3, 150),
    (4400, 3, 150),
    (4300, 3, 150),
    (4250, 3, 150),
]


def valid(run: Run) -> bool:
    verdict: bool = run.stats["result_validity"] == "VALID"
    return verdict


def load() -> Bisect:
    return Bisect("q", 3000, 4650, 50, valid)


def streams() -> Step:
    return Step("s", 1, 4, lambda x: x + 1)


def batches() -> Step:
    return Step("b", 200, 100, lambda x: x - 50)


def composed(timeout: int | None = 10) -> Composer:
    return Composer([load(), (streams(), lambda run: True), batches()], timeout)


class ByHand(SearcherInterface):
    """The same search, written out; it yields one dict and changes it."""

    is_dynamic = True

    def __init__(self, timeout: int = 10) -> None:
        self.timeout = timeout

    def generate(self) -> Points:
        bisect = load()
        knobs = [streams().generate(), batches().generate()]
        loads = bisect.generate()
        here: dict[str, Any] = {}
        for points in (loads, *knobs):
            here.update(do_send(points) or {})
        for _ in range(self.timeout):
            run = yield here
            if bisect.was_good(run):
                change = do_send(loads, run)
            else:
                change = do_send(knobs[0]) or do_send(knobs[1]) or do_send(loads, run)
            if change is None:
                return
            here.update(change)


def holds(point: Point) -> bool:
    limit = {1: 3600, 2: 3900, 3: 4100}[point["s"]] + (150 if point["b"] == 150 else 0)
    return bool(point["q"] <= limit)


def places(runs: list[Run]) -> list[tuple[int, int, int]]:
    return [(run.cross["q"], run.cross["s"], run.cross["b"]) for run in runs]


def test_the_documented_trace() -> None:
    composer = composed()
    assert places(play(composer, holds)) == TRACE
    assert composer.get_best() == {"q": 4250, "s": 3, "b": 150}


def test_a_search_written_by_hand_goes_the_same_way() -> None:
    assert places(play(ByHand(), holds)) == TRACE


def test_both_go_the_same_way_when_they_are_asked_and_told() -> None:
    def evaluate(config: Config) -> Trial:
        verdict = "VALID" if holds(config) else "INVALID"
        return Trial(config, value=1.0, metrics={"result_validity": verdict})

    for searcher in (ByHand(), composed()):
        trials = drive(ScriptedSearcher(searcher), evaluate)
        assert places([Run.of(trial) for trial in trials]) == TRACE


@pytest.mark.parametrize(("timeout", "runs"), [(0, 0), (3, 3), (8, 8), (9, 8), (-1, 8), (None, 8)])
def test_the_timeout_is_a_number_of_runs(timeout: int | None, runs: int) -> None:
    assert places(play(composed(timeout), holds)) == TRACE[:runs]


def test_a_point_is_not_changed_after_it_was_yielded() -> None:
    points = composed().generate()
    first = next(points)
    copy = dict(first)
    points.send(Run(first, {"result_validity": "INVALID"}))
    assert first == copy


def test_without_a_good_run_there_is_no_best() -> None:
    composer = composed(None)
    runs = play(composer, lambda point: False)
    assert values_of(runs, "q")[-2:] == [3050, 3000]
    with pytest.raises(SkipjackError, match="no feasible point: Bisect, the first searcher"):
        composer.get_best()


def test_a_run_that_failed_is_never_the_best() -> None:
    composer = Composer([(streams(), lambda run: True)], None)
    play(composer, lambda point: point["s"] < 3 or Status.CRASH)
    assert composer.get_best() == {"s": 2}


def test_a_first_searcher_without_a_predicate_does_not_say_what_is_best() -> None:
    composer = Composer([streams(), load()], 4)
    play(composer, holds_anything)
    with pytest.raises(NotImplementedError, match="Composer does not define"):
        composer.get_best()


def holds_anything(point: Point) -> bool:
    return True


def test_steps_before_a_bisection_go_first() -> None:
    runs = play(Composer([streams(), load()], None), holds_anything)
    assert [(run.cross["s"], run.cross["q"]) for run in runs[:5]] == [
        *((1, 3800), (2, 3800), (3, 3800)),
        *((3, 4200), (3, 4400)),
    ]


def test_nobody_wants_so_all_are_forced_from_the_last() -> None:
    never = [(searcher, lambda run: False) for searcher in (streams(), batches())]
    runs = play(Composer(never, -1), holds_anything)
    assert [(run.cross["s"], run.cross["b"]) for run in runs] == [
        *((1, 200), (1, 150)),
        *((2, 150), (3, 150)),
    ]


def test_failing_runs_are_a_no_where_a_predicate_misses_a_number() -> None:
    fast = (streams(), lambda run: run["p99"] < 10)
    runs = play(Composer([fast, batches()], None), lambda point: Status.CRASH)
    assert [(run.cross["s"], run.cross["b"]) for run in runs][:2] == [(1, 200), (1, 150)]
    with pytest.raises(ForeignError, match="the predicate of Step in Composer raised MissingStat"):
        play(Composer([fast, batches()], None), holds_anything)


def test_a_predicate_that_was_given_is_asked_about_failing_runs() -> None:
    eager = (streams(), lambda run: True)
    runs = play(Composer([eager, batches()], None), lambda point: Status.CRASH)
    assert [(run.cross["s"], run.cross["b"]) for run in runs][:2] == [(1, 200), (2, 200)]


def test_a_searcher_without_points_adds_nothing() -> None:
    nothing = CartesianProduct({"x": []})
    assert [run.cross for run in play(Composer([nothing, batches()], None), holds_anything)] == [
        {"b": 200},
        {"b": 150},
    ]
    assert play(Composer([nothing], None), holds_anything) == []


class Again(SearcherInterface):
    is_dynamic = True

    def generate(self) -> Points:
        yield {"x": 1}
        yield Repeat(x=1)


def test_a_repeat_of_a_part_repeats_the_whole_point() -> None:
    points = Composer([batches(), (Again(), lambda run: False)], None).generate()
    next(points)
    assert points.send(Run({}, {})) == {"b": 150, "x": 1}
    again = points.send(Run({}, {}))
    assert again == {"b": 150, "x": 1}
    assert isinstance(again, Repeat)


def test_what_is_no_searcher_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Composer takes searchers, or pairs .* not 3"):
        Composer([3], 1)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="predicate given for Step in Composer must be a func"):
        Composer([(streams(), None)], 1)  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"timeout of Composer must be a number of runs, not 1\.5"):
        Composer([streams()], 1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one"):
        Composer([], 1)
