"""Stronger evidence wins, a slower incumbent is replaced, and clocks decide nothing."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.bank import (
    BASELINE,
    FIND,
    REPLACED,
    Bank,
    BankEntry,
    ReplacementReason,
    lower_bound,
    merge_entries,
    replacing,
    stronger,
)
from skipjack.bank.entry import LARGEST_SCORE, LONGEST_CHAIN
from skipjack.bank.strength import MOST_KEPT, strength, sure_gain

MakeEntry = Any

EARLY, LATE = "2025-01-01T00:00:00.000000Z", "2090-06-01T00:00:00.000000Z"


def gain(low: float | None, ratio: float = 9.0) -> dict[str, float | None]:
    return {"ratio": ratio, "low": low, "high": 9.0}


def over_library(low: float | None) -> dict[str, Any]:
    return {"default": gain(2.0), "vendor": gain(low)}


def library(entry: BankEntry, **changes: Any) -> BankEntry:
    """A library won where the entry's kernel was timed."""
    evidence = {"samples": 8, "artifact": ""}
    fields = {"solver": entry.vendor, "config": {}, "time_ns": entry.vendor_ns or 1.0}
    return replace(entry, **{**fields, "evidence": evidence, **changes})


def after(
    incumbent: BankEntry, entry: BankEntry, met: ReplacementReason = ReplacementReason.SLOWER
) -> BankEntry:
    """The entry with the evidence of having replaced the incumbent."""
    return replace(entry, evidence={**entry.evidence, REPLACED: replacing(incumbent, met)})


def test_a_confirmed_gain_over_the_library_outweighs_dates_and_samples(entry: MakeEntry) -> None:
    good = entry(speedup=over_library(6.0), created=EARLY, evidence={"samples": 20})
    for weaker in (
        entry(speedup=over_library(5.9), created=LATE, evidence={"samples": 500}),
        entry(speedup=over_library(None), time_ns=1.0, created=LATE, vendor_ns=None, vendor=""),
        library(entry(), created=LATE),
        entry(speedup=over_library(0.0), time_ns=1.0, created=LATE),
    ):
        assert stronger(good, weaker) is stronger(weaker, good) is good


def test_a_library_outweighs_a_kernel_that_is_slower_than_it(entry: MakeEntry) -> None:
    slow, won = entry(speedup=over_library(0.7)), library(entry(), created=EARLY)
    assert stronger(slow, won) is won


def test_who_beat_the_default_does_not_give_way_to_it_for_a_library_was_slow_another_day(
    entry: MakeEntry,
) -> None:
    def told(default: float, library: float, samples: int) -> BankEntry:
        speedup = {"default": gain(default), "vendor": gain(library)}
        evidence = {BASELINE: {"name": "numpy"}, "artifact": "a", "samples": samples}
        return entry(speedup=speedup, created=LATE, evidence=evidence)

    tuned, untuned = told(1.03, 3.82, 40), told(1.0, 4.32, 400)
    assert stronger(tuned, untuned) is stronger(untuned, tuned) is tuned


def test_without_a_library_the_gain_over_the_default_counts_and_then_times(
    entry: MakeEntry,
) -> None:
    def alone(time_ns: float, low: float, created: str = EARLY, **evidence: Any) -> BankEntry:
        changes = {"vendor": "", "vendor_ns": None, "speedup": {"default": gain(low)}}
        evidence = evidence or {BASELINE: {"name": "default"}}
        return entry(time_ns=time_ns, created=created, evidence=evidence, **changes)  # type: ignore[no-any-return]

    confirmed = alone(10.0, 1.5)
    assert stronger(confirmed, alone(9.0, 0.9, LATE)) is confirmed
    assert stronger(confirmed, alone(9.0, 1.4, LATE)) is confirmed
    # Defaults of older entries differ from solver to solver.
    older = alone(8.0, 7.0, samples=3)
    assert stronger(older, alone(9.0, 0.9, LATE)) is not older
    assert stronger(older, alone(9.0, 9.0, LATE, samples=3)) is older


def test_among_equals_samples_count_before_dates(entry: MakeEntry) -> None:
    few, many = (entry(created=c, evidence={"samples": n}) for c, n in ((LATE, 8), (EARLY, 80)))
    assert stronger(few, many) is many


def told(entry: MakeEntry, low: float, spread: float | None, **changes: Any) -> BankEntry:
    """An entry by its sure gain over the default, and by the spread of its samples."""
    evidence = {BASELINE: {"name": "default"}, "samples": 40, "spread": spread}
    config = {"tile": round(1000 * low)}
    fields = {"speedup": {"default": gain(low)}, "evidence": evidence, "config": config}
    return entry(**{**fields, **changes})  # type: ignore[no-any-return]


def test_gains_that_differ_by_less_than_the_noise_are_equal_and_the_one_that_was_there_stays(
    entry: MakeEntry,
) -> None:
    first, later = told(entry, 2.10, 0.05, created=EARLY), told(entry, 2.12, 0.05, created=LATE)
    assert strength(first).score == strength(later).score
    assert stronger(first, later) is stronger(later, first) is first
    noisy, steady = told(entry, 2.12, 0.2), told(entry, 2.10, 0.001)
    assert stronger(noisy, steady) is steady, "what is sure of a noisy gain is less"
    more = told(entry, 2.10, 0.05, evidence={**first.evidence, "samples": 80}, created=LATE)
    assert stronger(first, more) is more


@pytest.mark.parametrize("spread", [None, 0.0, 0.004, 0.01, 0.05, 0.3, 5.0])
def test_a_newer_result_that_is_slower_never_displaces_a_faster_one(
    entry: MakeEntry, spread: float | None
) -> None:
    for faster in (1.01, 1.3, 2.0, 7.7):
        fast = told(entry, faster, spread, created=EARLY)
        for slower in (0.5, 0.74, 0.9, 0.99, 0.9999):
            slow = told(entry, faster * slower, spread, created=LATE)
            assert stronger(fast, slow) is stronger(slow, fast) is fast


def test_who_met_the_incumbent_replaces_it_whatever_its_own_evidence(entry: MakeEntry) -> None:
    incumbent = entry(speedup=over_library(6.0), created=LATE, evidence={"samples": 900})
    for met in ReplacementReason:
        winner = after(incumbent, library(entry(), created=EARLY), met)
        assert stronger(incumbent, winner) is stronger(winner, incumbent) is winner


def test_a_chain_of_replacements_is_followed_to_its_end(entry: MakeEntry) -> None:
    chain = [entry(speedup=over_library(6.0), created=LATE)]
    for tile in range(5):
        new = entry(config={"tile": tile}, speedup=over_library(6.1 - tile), created=EARLY)
        chain.append(after(chain[-1], new))
    for one, two in pairwise(chain):
        assert strength(one) < strength(two)
    (kept,) = merge_entries(reversed(chain)).values()
    assert kept[0] is chain[-1]
    assert kept[0].evidence.replaced.config == {"tile": 3}


def test_who_did_not_meet_the_end_of_a_chain_must_be_stronger_than_all_of_it(
    entry: MakeEntry,
) -> None:
    first = entry(speedup=over_library(3.0))
    last = after(first, entry(config={"tile": 1}, speedup=over_library(2.9)))
    weaker, better = (entry(config={"tile": 2}, speedup=over_library(g)) for g in (2.95, 3.1))
    assert stronger(last, weaker) is last
    assert stronger(last, better) is better


def test_one_long_call_says_a_little_less_than_its_ratio(entry: MakeEntry) -> None:
    assert lower_bound(gain(None, 10.0)) == 8.0
    assert sure_gain(entry(speedup={"vendor": gain(None, 10.0)})) == 8.0
    assert lower_bound(gain(0.0)) is None, "too few pairs for an interval"


def test_rankings_compare_by_how_far_the_library_is_behind_their_first(entry: MakeEntry) -> None:
    def ranking(low: float, created: str, solver: str = "loops") -> BankEntry:
        rows = [{"solver": solver}, {"solver": "openblas", "behind": gain(low)}]
        evidence = {"ranking": rows, "artifact": "a"}
        changes = {"kind": FIND, "speedup": {}, "solver": solver}
        return entry(created=created, evidence=evidence, **changes)  # type: ignore[no-any-return]

    good, weak = ranking(3.0, EARLY), ranking(1.2, LATE)
    assert stronger(good, weak) is good
    assert stronger(good, after(good, weak, ReplacementReason.AGAIN)) is not good
    assert stronger(weak, ranking(0.0, LATE, "openblas")) is weak


anywhere = settings(deadline=None)
"""However busy the machine is."""
numbers = st.none() | st.floats(0.1, 9.0).map(lambda x: round(x, 1))
gains = st.fixed_dictionaries({"ratio": numbers, "low": numbers, "high": numbers})
odd = st.none() | st.booleans() | st.text(max_size=2) | st.integers() | st.lists(st.integers())
over = st.none() | gains.map(lambda one: {"name": "default", **one})
replaced = st.fixed_dictionaries(
    {
        "grade": st.integers(0, 2),
        "score": st.floats(-9, 9),
        "generation": st.integers(0, 3) | st.just(LONGEST_CHAIN - 1),
    }
)
entries = st.builds(
    BankEntry,
    problem=st.sampled_from(["add:4:f32", "add:5:f32"]),
    device=st.just("cpu:a"),
    device_name=st.just("a/1"),
    solver=st.sampled_from(["nest", "numpy"]),
    solver_version=st.just(1),
    config=st.sampled_from([{}, {"tile": 1}, {"tile": 2}]),
    time_ns=st.sampled_from([0.0, 1.0, 2.0]),
    default_ns=st.just(2.0),
    vendor_ns=st.sampled_from([None, 2.0]),
    vendor=st.sampled_from(["", "numpy", "mkl"]),
    speedup=st.dictionaries(st.sampled_from(["default", "vendor"]), gains),
    evidence=st.fixed_dictionaries(
        {},
        optional={
            "samples": odd,
            "spread": odd | st.sampled_from([0.0, 0.01, 0.05, 0.4]),
            REPLACED: replaced | odd,
            "artifact": odd,
            BASELINE: over,
        },
    ),
    created=st.sampled_from([EARLY, LATE, ""]),
    kind=st.sampled_from(["perf", FIND]),
    protocol=st.sampled_from(["", "eager/hot", "native/hot"]),
    toolchain=st.sampled_from(["", "llvm 19", "llvm 20"]),
)


@anywhere
@given(entries, entries, entries)
def test_the_order_of_evidence_is_total(a: BankEntry, b: BankEntry, c: BankEntry) -> None:
    assert stronger(a, a) == a
    assert stronger(a, b) == stronger(b, a)
    assert stronger(stronger(a, b), c) == stronger(a, stronger(b, c))


@anywhere
@given(st.lists(entries, max_size=6))
def test_a_union_holds_the_strongest_of_each_key(several: list[BankEntry]) -> None:
    union = merge_entries(several)
    assert set(union) == {entry.key for entry in several}
    for entry in several:
        assert strength(union[entry.key][0]) >= strength(entry)
    assert (
        merge_entries([*reversed(several), *(one for kept in union.values() for one in kept)])
        == union
    )


many = st.integers(0, 60).flatmap(
    lambda count: st.lists(
        st.tuples(st.integers(0, 40), st.floats(0.5, 3.0), st.sampled_from([None, 0.0, 0.02, 0.1])),
        min_size=count,
        max_size=count,
    )
)


@anywhere
@given(many, st.randoms(use_true_random=False))
def test_any_order_grouping_or_repetition_gives_the_same_union_also_where_it_is_cut(
    drawn: list[tuple[int, float, float | None]], random: Any
) -> None:
    known = [
        BankEntry(
            "add:4:f32", "cpu:a", "a/1", "nest", 1, {"tile": tile}, 1.0, 2.0, None, "",
            {"default": gain(low)}, {BASELINE: {"name": "default"}, "spread": spread},
        )
        for tile, low, spread in drawn
    ]  # fmt: skip
    union = merge_entries(known)
    assert all(
        len(kept) == min(MOST_KEPT, len({tile for tile, *_ in drawn})) for kept in union.values()
    )
    parts: list[list[BankEntry]] = [[one] for one in [*known, *known[::3]]]
    while len(parts) > 1:
        random.shuffle(parts)
        both = [*parts.pop(), *parts.pop()]
        parts.append([one for kept in merge_entries(both).values() for one in kept])
    assert merge_entries(parts[0] if parts else []) == union


@anywhere
@given(entries, entries, st.sampled_from(list(ReplacementReason)))
def test_an_entry_that_was_met_gives_way(
    held: BankEntry, new: BankEntry, met: ReplacementReason
) -> None:
    same_key = replace(new, problem=held.problem, kind=held.kind, protocol=held.protocol)
    new = after(held, same_key, met)
    assert stronger(held, new) is new
    assert BankEntry.from_line(new.line) == new


@pytest.mark.parametrize("generation", [-1, 2**31, 1e300, "3", None, True])
def test_a_generation_that_cannot_be_is_not_believed(entry: MakeEntry, generation: Any) -> None:
    claimed = {"grade": 2, "score": 99.0, "generation": generation}
    assert strength(entry(evidence={REPLACED: claimed})).generation == 0
    assert strength(entry(evidence={REPLACED: claimed})).score < 99.0


@pytest.mark.parametrize("generation", [LONGEST_CHAIN - 1, LONGEST_CHAIN - 2])
@pytest.mark.parametrize("score", [99.0, -5.0, LARGEST_SCORE / 2])
def test_a_made_up_history_gives_way_to_who_met_its_entry(
    entry: MakeEntry, generation: int, score: float
) -> None:
    claimed = {"grade": 2, "score": score, "generation": generation}
    forged = entry(evidence={REPLACED: claimed, "samples": 10**9}, created=LATE)
    assert BankEntry.from_line(forged.line) == forged
    honest = after(forged, entry(speedup=over_library(1.1), created=EARLY))
    later = after(honest, entry(created=EARLY, time_ns=3.0))
    for one in (honest, later):
        assert BankEntry.from_line(one.line) == one
    assert strength(forged) < strength(honest) < strength(later)


@pytest.mark.parametrize(
    "claimed", [{"generation": 2**31 - 1}, {"generation": LONGEST_CHAIN}, {"score": 1e300}]
)
def test_a_history_that_cannot_be_believed_is_refused_and_said(
    entry: MakeEntry, claimed: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = {"grade": 2, "score": 99.0, "generation": 3, **claimed}
    forged, good = entry(evidence={REPLACED: history}), entry(problem="add:9:f32")
    (tmp_path / "theirs.jsonl").write_text(f"{forged.line}\n{good.line}\n")
    bank = Bank.open(tmp_path)
    assert bank.merge(tmp_path / "theirs.jsonl").new == 1
    assert bank.entries() == [good]
    (name,) = claimed
    assert f"field evidence.replaced.{name} is" in caplog.text
