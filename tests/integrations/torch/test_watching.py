"""Searches in the background: the calls that cost the program most are searched first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from skipjack.integrations.torch.outcomes import TorchDecision, TorchStatus
from skipjack.integrations.torch.selection import SearchMonitor, search_monitor
from skipjack.runtime.online import SearchAnswer
from skipjack.runtime.process import TuningPolicy, current_policy

BACKGROUND = TuningPolicy("incremental", background=True)


@dataclass
class FakeEntry:
    torch_calls: int
    asked: int = 0

    def ask_again(self) -> None:
        self.asked += 1


@dataclass
class FakeSearches:
    """Banks and searches of a program; `end` is what the tuning process does."""

    asked: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def lookup(self, problem: str, **_: object) -> object | None:
        if current_policy().measures and problem not in self.asked:
            self.asked.append(problem)
        return self.known if problem in self.known else None

    def end(self, problem: str, *, banked: bool = True) -> None:
        self.ended.add(problem)
        if banked:
            self.known.add(problem)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSearches]:
    fake = FakeSearches()
    monkeypatch.setattr(search_monitor, "lookup", fake.lookup)
    monkeypatch.setattr(search_monitor, "is_asked_for", lambda problem, _: problem in fake.asked)
    monkeypatch.setattr(search_monitor, "failure_of", lambda *_: "")
    monkeypatch.setattr(
        search_monitor,
        "search_of",
        lambda problem, _: SearchAnswer("kept") if problem in fake.ended else None,
    )
    yield fake


def decision(problem: str, before_ns: float) -> TorchDecision:
    facts = ("aten::mm", problem, problem, "cpu/1", False, "", TorchStatus.VENDOR)
    return TorchDecision(*facts, before_ns=before_ns, is_final=False)


class Watch:
    """A watcher whose pauses are steps of a test."""

    def __init__(self, **calls: tuple[int, float]) -> None:
        self.watcher = SearchMonitor(lambda: 0.0)
        self.watcher._thread = object()  # type: ignore[assignment]
        self.entries = {}
        for number, (name, (count, before_ns)) in enumerate(calls.items()):
            self.entries[name] = entry = FakeEntry(count)
            self.watcher.watch((number,), entry, decision(name, before_ns), BACKGROUND)  # type: ignore[arg-type]

    def look(self) -> None:
        self.watcher.look()

    @property
    def decided_again(self) -> list[str]:
        return [name for name, entry in self.entries.items() if entry.asked]


def test_the_dearest_call_is_searched_first(searches: FakeSearches) -> None:
    watch = Watch(cheap=(1000, 2.0), dear=(10, 1e6), often=(1000, 500.0))
    watch.look()
    assert searches.asked == ["dear"]
    watch.look()
    assert searches.asked == ["dear"], "one at a time"
    searches.end("dear")
    watch.look()
    assert (searches.asked, watch.decided_again) == (["dear", "often"], ["dear"])


def test_a_search_that_found_nothing_makes_room_for_the_next(searches: FakeSearches) -> None:
    watch = Watch(first=(5, 9.0), second=(5, 3.0))
    watch.look()
    searches.end("first", banked=False)
    watch.look()
    assert watch.decided_again == ["first"]
    assert searches.asked == ["first", "second"]


def test_a_call_of_several_problems_asks_for_all_of_them(searches: FakeSearches) -> None:
    watch = Watch(**{"dx dw": (5, 9.0)})
    watch.look()
    assert searches.asked == ["dx", "dw"]
    searches.end("dx")
    watch.look()
    assert watch.decided_again == []
    searches.end("dw")
    watch.look()
    assert watch.decided_again == ["dx dw"]


def test_calls_that_share_a_problem_are_both_searched(searches: FakeSearches) -> None:
    watch = Watch(wrw=(5, 9.0), **{"bwd wrw": (5, 3.0)})
    watch.look()
    assert searches.asked == ["wrw"]
    searches.end("wrw")
    watch.look()
    assert (searches.asked, watch.decided_again) == (["wrw", "bwd"], ["wrw"])
    searches.end("bwd")
    watch.look()
    assert watch.decided_again == ["wrw", "bwd wrw"]


def test_what_was_computed_before_is_not_counted(searches: FakeSearches) -> None:
    """As in a forked child, whose parent has told of it."""
    assert SearchMonitor(lambda: 7.0)._counted_ns == 7.0


def test_the_account_is_told_what_was_added(
    searches: FakeSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    class Account:
        def add(self, kernel_ns: int) -> None:
            told.append(kernel_ns)

    monkeypatch.setattr(search_monitor, "account_of_program", lambda _: Account())
    sums = iter([100.0, 100.0, 250.0])
    watch = Watch(one=(1, 1.0))
    watch.watcher._kernel_ns = lambda: next(sums)
    for _ in range(3):
        watch.look()
    assert told == [100, 150]
