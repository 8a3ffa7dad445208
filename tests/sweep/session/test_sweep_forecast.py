"""Plans: what is known, what is left, what it may cost."""

from pathlib import Path
from typing import Any

import pytest

from skipjack.core import Config, Status
from skipjack.ledger import Ledger
from skipjack.sweep.bench import RunOutcome, Workload
from skipjack.sweep.engine import RunHistory, SweepContext
from skipjack.sweep.session import forecast_sweep, set_up


@pytest.fixture
def history(tmp_path: Path) -> Any:
    with Ledger.open(tmp_path / "user") as ledger:
        yield RunHistory(ledger, SweepContext(Workload("x", "0"), "cpu", "cpu:1"))


def made(tmp_path: Path, name: str, text: str, **given: Any) -> Any:
    (tmp_path / name).write_text(text)
    return set_up(tmp_path / name, given)


def test_what_is_known_costs_nothing(tmp_path: Path, history: RunHistory) -> None:
    setup = made(tmp_path, "a.json", '{"a": [1, 2, 3]}', repeats=1, confirm=0)
    assert forecast_sweep(setup, history).seconds is None, "nothing ran yet"
    for a in (1, 2):
        history.add(Config(a=a), {}, RunOutcome(Status.OK, {}, seconds=10.0, build_seconds=100.0))
    # A second session reads them again.
    again = RunHistory(history._ledger, SweepContext(Workload("x", "0"), "cpu", "cpu:1"))
    seen = forecast_sweep(setup, again)
    assert (seen.known, seen.plan.runs, seen.builds_left) == (2, 3, 1)
    assert seen.seconds == 110.0
    again.add(Config(a=3), {}, RunOutcome(Status.OK, {}, seconds=10.0))
    last = RunHistory(history._ledger, SweepContext(Workload("x", "0"), "cpu", "cpu:1"))
    assert forecast_sweep(setup, last).seconds == 0.0


def test_a_search_is_followed_as_far_as_results_are_known(
    tmp_path: Path, history: RunHistory
) -> None:
    text = (
        "from library import Bisect\n"
        "def META_search_callback():\n"
        "    return Bisect('q', 500, 2500, 100, lambda r: r['speed'] <= 1700)\n"
    )
    setup = made(tmp_path, "search.py", text)
    first = forecast_sweep(setup, history)
    assert first.open_end and [dict(point) for point in first.plan.points] == [{"q": 1500}]
    history.add(Config(q=1500), {}, RunOutcome(Status.OK, {"speed": 1500.0}, seconds=1.0))
    again = RunHistory(history._ledger, SweepContext(Workload("x", "0"), "cpu", "cpu:1"))
    then = forecast_sweep(setup, again)
    assert [dict(point) for point in then.plan.points] == [{"q": 1500}, {"q": 2000}]


def test_synthetic_results_play_a_search_to_its_end(tmp_path: Path) -> None:
    text = (
        "from library import Bisect\n"
        "def META_search_callback():\n"
        "    return Bisect('q', 500, 2500, 100, lambda r: r['result_validity'] == 'VALID')\n"
        "def META_get_synthetic(point):\n"
        "    return {'result_validity': 'VALID' if point['q'] <= 1700 else 'INVALID'}\n"
    )
    seen = forecast_sweep(made(tmp_path, "search.py", text), None)
    assert seen.simulated and not seen.open_end
    assert [point["q"] for point in seen.plan.points] == [1500, 2000, 1700, 1800]


def test_a_budget_cuts_the_plan(tmp_path: Path) -> None:
    setup = made(tmp_path, "a.json", '{"a": [1, 2, 3]}', budget=2, no_rebuild=["a"])
    seen = forecast_sweep(setup, None)
    assert (seen.plan.product, seen.plan.runs, seen.plan.builds) == (3, 2, 1)
