"""Which point a sweep chooses, given what its search and its confirming runs said."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

from skipjack.core import Config, Status, Trial
from skipjack.sweep.engine import SweepMeasurer
from skipjack.sweep.engine.confirmation import Finalist, SweepConfirmation, confirm, ranked

BASE = Config(n=0)


def measurer(runs: Mapping[int, Sequence[float | None]]) -> SweepMeasurer:
    """Gives the values of a point one after the other, the last of them again and again."""
    left = {n: list(values) for n, values in runs.items()}

    def measure(point: Config, *_: object) -> Trial:
        values = left[int(point["n"])]
        value = values.pop(0) if len(values) > 1 else values[0]
        return Trial(point, Status.OK if value is not None else Status.CRASH, value, reason="fell")

    return cast(SweepMeasurer, SimpleNamespace(objective=None, measure=measure))


def chosen(
    searched: Mapping[int, float], runs: Mapping[int, Sequence[float | None]], base: bool = True
) -> SweepConfirmation:
    trials = [Trial(Config(n=n), value=value) for n, value in searched.items()]
    baseline = BASE if base else None
    return confirm(ranked(trials), baseline, measurer(runs), 3, at_a_time=None, stop=lambda: False)


def point(verdict: SweepConfirmation) -> Config | None:
    return verdict.best.point if verdict.best else None


def test_a_point_that_holds_beats_the_base_config() -> None:
    verdict = chosen({1: 50.0, 2: 90.0}, {0: [100.0], 1: [52.0], 2: [90.0]})
    assert point(verdict) == Config(n=1)
    assert verdict.gain is not None and round(verdict.gain.ratio, 2) == 1.92


def test_near_points_are_chosen_by_the_median_of_their_confirming_runs() -> None:
    runs = {0: [100.0], 1: [60.0, 60.0, 40.0], 2: [51.0], 3: [70.0]}
    assert point(chosen({1: 50.0, 2: 51.0, 3: 52.0}, runs)) == Config(n=2)


def test_where_the_base_config_is_faster_it_is_the_answer() -> None:
    verdict = chosen({1: 50.0}, {0: [100.0], 1: [101.0]})
    assert point(verdict) == BASE
    assert "nothing beats the base config" in verdict.sentence


def test_a_lucky_point_that_fails_again_gives_way_to_the_next() -> None:
    verdict = chosen({1: 50.0, 2: 80.0}, {0: [100.0], 1: [50.0, None], 2: [82.0]})
    assert point(verdict) == Config(n=2)
    assert "1 better in the search did not" in verdict.sentence


def test_where_nothing_holds_there_is_no_answer() -> None:
    verdict = chosen({1: 50.0}, {0: [100.0], 1: [None]})
    assert verdict.best is None and "no confirming run of 1 finalist held" in verdict.sentence


def test_without_confirming_runs_the_best_of_the_search_is_the_answer() -> None:
    field = [Finalist(Config(n=1), 50.0), Finalist(Config(n=2), 60.0)]
    verdict = confirm(field, None, measurer({}), 0, at_a_time=None, stop=lambda: False)
    assert point(verdict) == Config(n=1)
