"""Overlay: another searcher's points with some parameters fixed."""

from skipjack.search import Points, Repeat, Run, SearcherInterface
from skipjack.search.load import Bisect
from skipjack.search.scripted import Overlay, Step
from skipjack.testing.scripts import play

STEP = Step("x", 1, 4, lambda x: x + 1)


def test_fixed_keys_are_in_every_point() -> None:
    overlay = Overlay(STEP, {"mode": "fast"})
    assert [*overlay.generate()] == [{"x": x, "mode": "fast"} for x in (1, 2, 3)]
    assert not overlay.is_dynamic


def test_results_reach_the_subject_and_its_best_has_the_keys_too() -> None:
    bisect = Bisect("q", 500, 2500, 100, lambda run: run["result_validity"] == "VALID")
    overlay = Overlay(bisect, {"mode": "fast"})
    runs = play(overlay, lambda point: bool(point["q"] <= 1700))
    assert [run.cross["q"] for run in runs] == [1500, 2000, 1700, 1800]
    assert overlay.is_dynamic
    assert overlay.get_best() == {"q": 1700, "mode": "fast"}


def test_the_fixed_keys_win_and_are_copied() -> None:
    fixed = {"x": 9}
    overlay = Overlay(STEP, fixed)
    fixed["x"] = 8
    assert [*overlay.generate()] == [{"x": 9}] * 3


class Twice(SearcherInterface):
    is_dynamic = True

    def generate(self) -> Points:
        run: Run | None = yield {"x": 1}
        assert run is not None
        yield Repeat(run.cross)


def test_a_repeat_stays_one() -> None:
    points = Overlay(Twice(), {"y": 2}).generate()
    assert not isinstance(next(points), Repeat)
    again = points.send(Run({"x": 1}, {}))
    assert again == Repeat(x=1, y=2)
    assert isinstance(again, Repeat)
