"""The table of a tuning names the library that the times beside ours are of."""

import io

import pytest
from rich.console import Console

from skipjack.core.config import Config
from skipjack.execute.statistics import Ratio
from skipjack.operations import parse
from skipjack.report.table import print_results
from skipjack.tuning import Outcome, Speedup, TuneResult

GAIN, CUT = Ratio(2.0, 1.9, 2.1, pairs=10), Ratio(8.0, float("nan"), float("nan"))


def tuned(problem: str, vendors: dict[str, Ratio], default: Ratio = GAIN) -> TuneResult:
    times = {name: 1e3 * ratio.ratio for name, ratio in vendors.items()}
    speedup = Speedup(default, vendors)
    return TuneResult(
        parse(problem), "znver4/1", "nest", Outcome.BANKED, Config(), [], speedup, 1e3, 0.01, 2e3,
        times.get(speedup.vendor_name), times, 1, 1, 1.0, 0.0, 100, 100, 0.5, "vector",
    )  # fmt: skip


def printed(*results: TuneResult) -> list[str]:
    stream = io.StringIO()
    print_results(results, Console(file=stream, width=190))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("vendors", "name"),
    [({"numpy": GAIN, "mkl": GAIN}, "numpy"), ({"onednn": GAIN}, "onednn"), ({}, "")],
)
def test_a_result_is_compared_with_its_first_library(vendors: dict[str, Ratio], name: str) -> None:
    result = tuned("add:8", vendors)
    assert result.vendor == name
    assert result.to_json()["vendor"] == name
    assert result.speedup.vendor == (GAIN if name else None)


def test_the_heading_is_its_name_and_others_have_a_line() -> None:
    lines = printed(tuned("add:8", {"onednn": GAIN, "mkl": GAIN}))
    assert "x onednn" in lines[0]
    assert "  2.00 [1.90, 2.10] over mkl" in lines


def test_where_libraries_differ_each_cell_names_its_own() -> None:
    lines = printed(tuned("add:8", {"numpy": GAIN}), tuned("add:9", {"onednn": GAIN}))
    assert "x library" in lines[0]
    assert "2 µs NumPy" in lines[2]
    assert "2 µs onednn" in lines[3]


def test_a_gain_known_from_one_call_has_no_interval() -> None:
    assert " 8.00  " in printed(tuned("add:8", {"numpy": GAIN}, CUT))[2]
