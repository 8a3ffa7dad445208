"""What counts as faster or slower, and what a comparison says of many problems."""

from __future__ import annotations

import math

import pytest

from skipjack.errors import UsageError
from skipjack.fleet.release.compare import (
    CompareOptions,
    ComparisonOutcome,
    Gate,
    Margin,
    ProblemComparison,
    Side,
    WinnerTiming,
    compare,
    parse_percent,
)
from skipjack.fleet.release.compare.comparison import ComparedProblem, compare_timings
from skipjack.fleet.release.results import FoundProblem, RankedEntry

DEVICE = "gfx908/120"
SUBJECT = ComparedProblem("matmul:8x8x8:f32", None, DEVICE)


def judged(new_ns: float, old_ns: float, spread: float | None = 0.0) -> ProblemComparison:
    new, old = WinnerTiming("a", new_ns, spread, 9), WinnerTiming("b", old_ns, spread, 9)
    return compare_timings(SUBJECT, new, old, Margin())


def found(name: str, device: str = DEVICE, /, **times: float) -> FoundProblem:
    entries = (RankedEntry(solver, ns, spread=0.0, samples=9) for solver, ns in times.items())
    return FoundProblem(name, None, device, tuple(entries))


def side(*problems: FoundProblem, absent: dict[tuple[str, str], str] | None = None) -> Side:
    return Side("side", "file", {(one.problem, one.device): one for one in problems}, absent or {})


@pytest.mark.parametrize(
    ("new_ns", "old_ns", "spread", "verdict"),
    [
        (100.0, 102.0, 0.0, ComparisonOutcome.FASTER),
        (100.0, 100.9, 0.0, ComparisonOutcome.EQUAL),  # below the minimum effect
        (102.0, 100.0, 0.0, ComparisonOutcome.SLOWER),
        (100.0, 106.0, 0.05, ComparisonOutcome.EQUAL),  # both spreads together are 7 %
        (100.0, 108.0, 0.05, ComparisonOutcome.FASTER),
        (100.0, 104.0, None, ComparisonOutcome.EQUAL),  # a spread that is not known is assumed
        (105.0, 100.0, None, ComparisonOutcome.SLOWER),
        (100.0, 104.0, math.nan, ComparisonOutcome.EQUAL),
    ],
)
def test_a_difference_counts_beyond_both_spreads_and_a_minimum(
    new_ns: float, old_ns: float, spread: float | None, verdict: ComparisonOutcome
) -> None:
    assert judged(new_ns, old_ns, spread).verdict is verdict


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_are_excluded_with_a_reason(bad: float) -> None:
    assert judged(bad, 100.0).verdict is ComparisonOutcome.IMPOSSIBLE
    against = judged(100.0, bad)
    assert against.verdict is ComparisonOutcome.IMPOSSIBLE
    assert against.gain is None
    assert "baseline" in against.reason


def test_a_record_with_one_impossible_time_does_not_fall_back_to_its_second() -> None:
    new, old = side(found("p", a=50.0)), side(found("p", GemmFwd=0.0, b=100.0))
    (one,) = compare(new, old).problems
    assert one.verdict is ComparisonOutcome.IMPOSSIBLE


def test_winners_are_the_fastest_whatever_their_order() -> None:
    (one,) = compare(
        side(found("p", a=200.0, b=100.0)), side(found("p", b=300.0, a=100.0))
    ).problems
    assert one.new and one.old
    assert (one.new.solver, one.old.solver) == ("b", "a")
    assert one.winner_changed
    assert one.verdict is ComparisonOutcome.EQUAL


def test_means_of_same_and_changed_winners_are_separate() -> None:
    new = side(found("p", a=50.0), found("q", a=100.0), found("r", b=100.0))
    old = side(found("p", a=100.0), found("q", a=200.0), found("r", a=50.0))
    comparison = compare(new, old)
    assert comparison.mean_same.gain == pytest.approx(2.0)
    assert comparison.mean_changed.gain == pytest.approx(0.5)
    assert comparison.mean.gain == pytest.approx(2 ** (1 / 3))
    assert [one.problem for one in comparison.worst(5)] == ["r"]
    assert [one.problem for one in comparison.best(1)] == ["p"]
    assert comparison.changes() == [(("a", "b"), 1)]


def test_missing_problems_say_why() -> None:
    reasons = {("p", DEVICE): "failed: no memory", ("x", DEVICE): "not applicable: f64"}
    new = side(found("q", a=1.0), absent=reasons)
    old = side(found("p", a=1.0), found("r", a=1.0))
    said = {one.problem: (one.verdict, one.reason) for one in compare(new, old).problems}
    assert said == {
        "p": (ComparisonOutcome.MISSING, "failed: no memory"),
        "q": (ComparisonOutcome.ADDED, "not in side"),
        "r": (ComparisonOutcome.MISSING, "not in side"),
        "x": (ComparisonOutcome.NEITHER, "not applicable: f64"),
    }


def test_different_devices_are_compared_only_on_request() -> None:
    new, old = side(found("p", a=1.0)), side(found("p", "gfx90a/104", a=2.0))
    with pytest.raises(UsageError, match=r"gfx908/120 and side for gfx90a/104.*--across-devices"):
        compare(new, old)
    (one,) = compare(new, old, CompareOptions(across_devices=True)).problems
    assert one.gain == 2.0


def test_across_devices_one_of_each_side_must_be_chosen() -> None:
    new = side(found("p", a=1.0), found("p", "gfx90a/104", a=2.0))
    with pytest.raises(UsageError, match="--device"):
        compare(new, side(found("p", a=1.0)), CompareOptions(across_devices=True))


def test_devices_of_one_side_alone_are_left_out() -> None:
    new = side(found("p", a=1.0), found("p", "gfx90a/104", a=2.0))
    comparison = compare(new, side(found("p", a=1.0)))
    assert len(comparison.problems) == 1
    assert comparison.left_out == ("gfx90a/104",)


def test_times_can_be_compared_as_multiples_of_a_library_beside_them() -> None:
    # The new session's machine is twice as slow; the kernel is not.
    new, old = side(found("p", a=100.0, cblas=200.0)), side(found("p", a=50.0, cblas=100.0))
    assert compare(new, old).count(ComparisonOutcome.SLOWER) == 1
    relative = CompareOptions(relative_to="cblas")
    assert compare(new, old, relative).count(ComparisonOutcome.EQUAL) == 1
    without = side(found("p", a=50.0))
    assert compare(new, without, relative).count(ComparisonOutcome.UNRELATED) == 1


def test_relative_times_need_the_library_on_both_sides() -> None:
    new, old = side(found("p", a=1.0)), side(found("p", a=50.0))
    relative = CompareOptions(relative_to="cblas")
    assert compare(new, old, relative).count(ComparisonOutcome.UNRELATED) == 1


def test_the_gate_asks_for_slowness_beyond_doubt() -> None:
    old = side(found("p", a=100.0), found("q", a=100.0))
    slower = compare(side(found("p", a=102.5), found("q", a=90.0)), old)
    assert Gate(slower=0.03).failure(slower) == ""
    said = Gate(slower=0.02).failure(slower)
    assert said.startswith("1 of 2 problems is slower by more than 2 % beyond doubt (worst: p, 2.5")
    doubtful = compare(
        side(FoundProblem("p", None, DEVICE, (RankedEntry("a", 102.5, spread=0.02, samples=9),))),
        old,
    )
    assert Gate(slower=0.02).failure(doubtful) == ""


def test_the_gate_on_the_mean_and_on_missing_problems() -> None:
    new = side(found("p", a=103.0))
    old = side(found("p", a=100.0), found("q", a=100.0))
    comparison = compare(new, old)
    assert Gate(mean_slower=0.04).failure(comparison) == ""
    assert "geometric mean is 3 % slower" in Gate(mean_slower=0.01).failure(comparison)
    assert "1 problem of the baseline is missing (first: q)" in Gate(missing=True).failure(
        comparison
    )


@pytest.mark.parametrize("gate", [Gate(slower=0.05), Gate(mean_slower=0.05)])
def test_what_is_at_the_limit_passes_and_what_is_just_above_shows_it(gate: Gate) -> None:
    for base in (0.7, 1.1, 3.3, 100.0):
        old = side(found("p", a=base))
        assert gate.failure(compare(side(found("p", a=base * 1.05)), old)) == ""
    failure = gate.failure(compare(side(found("p", a=105.0004)), side(found("p", a=100.0))))
    assert "5.0004 % slower" in failure


@pytest.mark.parametrize("gate", [Gate(slower=0.02), Gate(mean_slower=0.02), Gate(missing=True)])
@pytest.mark.parametrize("bad", [0.0, math.nan])
def test_no_gate_passes_a_new_time_that_cannot_be(gate: Gate, bad: float) -> None:
    old = side(found("p", a=100.0), found("q", a=100.0))
    failure = gate.failure(compare(side(found("p", a=bad), found("q", a=100.0)), old))
    assert failure.startswith("1 problem has an impossible new time (first: p, the new time")
    worse = side(found("p", a=bad), found("q", a=100.0))
    assert not gate.failure(compare(worse, worse))  # nothing was known before
    assert not Gate().failure(compare(worse, old))


def test_a_device_of_the_baseline_that_is_gone_is_missing() -> None:
    both = side(found("p", a=1.0), found("p", "gfx900/56", a=1.0))
    one = side(found("p", a=1.0))
    assert Gate(missing=True).failure(compare(one, both)) == (
        "1 device of the baseline is missing (first: gfx900/56)"
    )
    assert not Gate(missing=True).failure(compare(both, one))
    assert not Gate(slower=0.02).failure(compare(one, both))


def test_a_gate_does_not_pass_where_nothing_was_compared() -> None:
    nothing = compare(side(found("p", a=1.0)), side(found("q", a=1.0)))
    assert "no problem was compared" in Gate(slower=0.02).failure(nothing)
    assert Gate().failure(nothing) == ""


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), (" 0.5 %", 0.005), ("0%", 0.0)])
def test_percentages_are_understood(text: str, share: float) -> None:
    assert parse_percent(text, "--x") == pytest.approx(share)


@pytest.mark.parametrize("text", ["2", "0.02", "-2%", "2%%", "", "nan%", "1e1%", "2,5%", "9999%"])
def test_other_percentages_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-if-slower"):
        parse_percent(text, "--fail-if-slower")
