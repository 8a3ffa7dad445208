"""The table of a tuning names the library of the times next to ours."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from skipjack.core import Config, Status, Trial
from skipjack.execute import Ratio
from skipjack.ledger import decision_word
from skipjack.operations import parse
from skipjack.report.tuning.results import print_find, print_results
from skipjack.tuning import FindResult, FindStatus
from skipjack.tuning.study import Speedup, TuneOutcome, TuneResult

NAN = float("nan")
GAIN, CUT = Ratio(2.0, 1.9, 2.1, pairs=10), Ratio(8.0, NAN, NAN)
LESS, NOISY = Ratio(1.5, 1.4, 1.6, pairs=10), Ratio(NAN, NAN, NAN, pairs=0, left_out=40)


def tuned(
    problem: str,
    vendors: dict[str, Ratio],
    default: Ratio = GAIN,
    trials: Sequence[Trial] = (),
    **more: Ratio,
) -> TuneResult:
    times = {name: 1e3 * ratio.ratio for name, ratio in vendors.items()}
    speedup = Speedup(default, vendors, **more)
    return TuneResult(
        parse(problem), "znver4/1", "nest", TuneOutcome.BANKED, Config(), [*trials], speedup, 1e3,
        0.01, 2e3, 1, 1, 1.0, 0.0, times, 0.5,
        untuned_ns=1e3 * speedup.untuned.ratio if speedup.untuned else None,
    )  # fmt: skip


def printed(*results: TuneResult) -> list[str]:
    stream = io.StringIO()
    print_results(results, Console(file=stream, width=240))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [240, 40])
def test_results_of_several_devices_name_them(width: int) -> None:
    one = tuned("add:8", {})
    stream = io.StringIO()
    print_results([one, replace(one, device="znver4/2")], Console(file=stream, width=width))
    assert stream.getvalue().count("add:8:f32 on znver4/2") == 2
    assert "on znver4/1" not in "".join(printed(one))
    ways = [replace(one, deployed=way) for way in ("native/hot", "eager/hot")]
    assert "\n".join(printed(*ways)).count("add:8:f32 (eager/hot)") == 2


def test_a_result_is_one_line_in_a_notebook() -> None:
    result = tuned("add:8", {"numpy": GAIN})
    told = f"1,000 ns, {GAIN.ratio:.3g} times as fast as numpy>"
    assert repr(result) == f"<TuneResult add:8:f32 on znver4/1: banked, nest, {told}"
    failed = replace(result, status=TuneOutcome.FAILED, reason="no config ran")
    assert repr(failed) == "<TuneResult add:8:f32 on znver4/1: failed, no config ran>"


@pytest.mark.parametrize(
    ("vendors", "name"),
    [({"numpy": GAIN, "mkl": GAIN}, "numpy"), ({"onednn": GAIN}, "onednn"), ({}, "")],
)
def test_a_result_is_compared_with_its_first_library(vendors: dict[str, Ratio], name: str) -> None:
    result = tuned("add:8", vendors)
    assert result.vendor == name
    assert result.to_json()["vendor"] == name
    assert result.speedup.vendor == (GAIN if name else None)


def test_the_headline_is_the_gain_over_the_fastest_library_and_others_have_a_line() -> None:
    result = tuned("add:8", {"numpy": GAIN, "mkl": LESS, "onednn": GAIN})
    lines = printed(result)
    assert "x mkl" in lines[0]
    assert "  2.00 [1.90, 2.10] over NumPy" in lines
    record = result.to_json()
    assert (record["baseline"], record["speedup"], record["baseline_ns"]) == ("mkl", 1.5, 1500.0)
    assert record["vendor"] == "numpy", "the library that is asked first keeps its place"


def test_without_a_library_the_headline_is_the_gain_over_the_default() -> None:
    result = tuned("add:8", {})
    assert result.baseline == "default"
    assert printed(result)[0].split().count("default") == 2, "its time, and x default once"
    assert result.to_json()["speedup"] == 2.0


def test_a_library_whose_gain_is_noisy_is_named_and_has_no_number() -> None:
    result = tuned("add:8", {"numpy": NOISY})
    assert result.baseline == "numpy"
    assert " noisy " in printed(result)[2]
    assert result.to_json()["speedup"] is None


def test_plain_loops_and_calls_from_python_have_columns_where_they_were_timed() -> None:
    plain = printed(tuned("add:8", {"numpy": GAIN}))[0]
    assert "untuned" not in plain
    assert "as called" not in plain
    lines = printed(tuned("add:8", {"numpy": GAIN}, untuned=CUT, as_called=LESS))
    assert {"untuned", "called"} <= set(lines[0].split())
    assert "1.50 [1.40, 1.60]" in lines[2]


def test_what_failed_is_counted_with_the_most_frequent_reason() -> None:
    crash = Trial(Config(n=1), Status.CRASH, reason="the kernel's process ended by SIGILL")
    wrong = Trial(Config(n=2), Status.WRONG, reason="3 of 8 elements are wrong")
    fine = Trial(Config(n=3), Status.OK, 1.0)
    result = tuned("add:8", {}, trials=[crash, wrong, crash, fine])
    lines = printed(result)
    assert "failed" in lines[0]
    assert "3 of 4" in lines[2]
    told = "crash: the kernel's process ended by SIGILL"
    assert f"  3 of 4 configs failed (2 crash, 1 wrong), 2 of them because of {told}" in lines
    record = result.to_json()
    assert record["failures"][0] == {"reason": told, "count": 2}
    assert record["failed_by_status"] == {"crash": 2, "wrong": 1}
    found = FindResult(result.problem, result.device, FindStatus.OK, (), result)
    assert found.to_json()["failed_by_status"] == {"crash": 2, "wrong": 1}
    stream = io.StringIO()
    print_find(found, Console(file=stream, width=240))
    assert "3 of 4 configs failed (2 crash, 1 wrong)" in stream.getvalue()
    unharmed = tuned("add:8", {}, trials=[fine])
    assert "failed" not in "".join(printed(unharmed))
    assert unharmed.to_json()["failed_by_status"] == {}


@pytest.mark.parametrize(
    ("time_ns", "rate"), [(1e3, "524.3 GFLOP/s"), (4e2, "1.3 TFLOP/s"), (1.0, "524.3 TFLOP/s")]
)
def test_high_rates_are_in_trillions(time_ns: float, rate: str) -> None:
    result = replace(tuned("matmul:64x64x64", {}), time_ns=time_ns)
    assert rate in printed(result)[2]
    assert result.to_json()["rate_unit"] == "GFLOP/s"


def test_where_libraries_differ_each_cell_names_its_own() -> None:
    lines = printed(tuned("add:8", {"numpy": GAIN}), tuned("add:9", {"onednn": GAIN}))
    assert "x library" in lines[0]
    assert "2 µs NumPy" in lines[2]
    assert "2 µs onednn" in lines[3]


def test_a_gain_known_from_one_call_has_no_interval() -> None:
    assert " 8.00  " in printed(tuned("add:8", {"numpy": GAIN}, CUT))[2]


@pytest.mark.parametrize("outcome", TuneOutcome)
def test_a_verdict_is_shown_in_the_words_that_the_page_explains(outcome: TuneOutcome) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-it-works.md").read_text()
    assert f"| `{outcome.word}` | `{outcome}` |" in page
    (row,) = [
        line
        for line in printed(replace(tuned("add:8", {}), status=outcome, reason="so"))
        if line.rstrip().endswith(outcome.word)
    ]
    assert row.startswith("add:8:f32 ")
    assert replace(tuned("add:8", {}), status=outcome).to_json()["status"] == outcome.value


def test_no_verdict_is_called_a_vendor_or_reserved() -> None:
    words = {outcome.word for outcome in TuneOutcome} | {decision_word("found")}
    assert words == {
        "banked",
        "entry stays",
        "default stays",
        "library",
        "noisy",
        "failed",
        "found",
    }


@pytest.mark.parametrize(("count", "said"), [(1, "tied with 1 other"), (2, "tied with 2 others")])
def test_ties_are_counted(count: int, said: str) -> None:
    ties = tuple(Config(n=n) for n in range(count))
    assert any(line.endswith(said) for line in printed(replace(tuned("add:8", {}), ties=ties)))
