"""From ``PARAMETER:LOW:HIGH`` to loads that are worth confirming."""

from pathlib import Path

import pytest

from skipjack.core import Status, Trial
from skipjack.errors import UsageError
from skipjack.search.load import LoadRange
from skipjack.search.scripted import ScriptedSearcher
from skipjack.sweep.configs import BaseConfig
from skipjack.sweep.engine import LoadSearch, load_search, parse_load
from skipjack.sweep.engine.options import load_candidates
from skipjack.sweep.files import SweepFile

FILE = SweepFile(Path("load.toml"), {"batch": (1, 2)})
BASE = BaseConfig({"qps": 5, "batch": 1}, "base.json")


def play(search: LoadSearch, limit: float) -> None:
    """Run the search against a service that holds up to a limit, whatever the setting."""
    searcher = ScriptedSearcher(search)
    while batch := searcher.ask(1):
        held = float(batch[0]["qps"] or 0) <= limit
        searcher.tell(Trial(batch[0], Status.OK if held else Status.INVALID))


def test_a_load_is_a_parameter_with_bounds() -> None:
    assert parse_load("qps:10:900", FILE, BASE, checked=True) == LoadRange("qps", 10, 900)
    table = {"parameter": "qps", "from": 0.5, "to": 2}
    assert parse_load(table, FILE, BASE, checked=True) == LoadRange("qps", 0.5, 2, False)
    assert parse_load(None, FILE, BASE, checked=True) is None


@pytest.mark.parametrize(
    "text", ["qps", "qps:1", "qps:a:b", "qps:9:1", "qps:0:5", "qps:1:inf", "qqs:1:9"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--load"):
        parse_load(text, FILE, BASE, checked=True)


def test_a_name_that_the_base_lacks_passes_unchecked() -> None:
    assert parse_load("qqs:1:9", FILE, BASE, checked=False) is not None


def test_what_should_hold_comes_first_then_a_little_less() -> None:
    search = load_search(LoadRange("qps", 100, 9000), SweepFile(Path("x"), {}), BASE, None, {})
    play(search, 3000)
    points, said = load_candidates(search)
    loads = [float(point["qps"] or 0) for point in points]
    assert 0.9 * 3000 <= loads[0] <= 3000 and loads == sorted(loads, reverse=True)
    assert "limit" in said


def test_settings_that_the_rule_forbids_are_not_searched() -> None:
    file = SweepFile(Path("x"), {"batch": (1, 2, 3)}, is_valid=lambda config: config["batch"] != 2)
    search = load_search(LoadRange("qps", 100, 9000), file, BASE, None, {})
    assert [dict(setting) for setting in search.settings] == [{"batch": 1}, {"batch": 3}]  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="forbids all 2 combinations"):
        load_search(
            LoadRange("qps", 1, 9),
            SweepFile(Path("x"), {"batch": (1, 2)}, is_valid=lambda config: False),
            BASE,
            None,
            {},
        )


def test_nothing_to_confirm_where_nothing_holds() -> None:
    search = load_search(LoadRange("qps", 100, 9000), SweepFile(Path("x"), {}), BASE, 12, {})
    play(search, 1)
    points, said = load_candidates(search)
    assert not points and "no feasible value" in said


def test_a_range_of_which_everything_holds_is_said_to(tmp_path: Path) -> None:
    search = load_search(LoadRange("qps", 500, 1000), FILE, BASE, None, {})
    play(search, 2500)
    points, said = load_candidates(search)
    assert points[0]["qps"] == 1000 and "every load up to 1000 holds" in said
