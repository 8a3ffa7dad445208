"""Without a confirmed gain, what was used before stays: in any order of tunings, fleets and merges.

Two users tune one problem, take in results of fleets, merge each other's banks and ledgers, and
make their banks anew, with clocks that say anything. Kernels have made-up true times; verdicts are
written as `skipjack tune` writes them. Those of today compare with the default, which is the same
in all sessions, and with a library that takes another time in each; those of earlier versions know
the library alone.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skipjack.bank import (
    BASELINE,
    REPLACED,
    Bank,
    BankEntry,
    ReplacementReason,
    replacing,
    stronger,
)
from skipjack.bank.strength import digest
from skipjack.core import Config, Problem, Study
from skipjack.fleet.labels import project
from skipjack.fleet.model import Job, JobPlan, JobState, JobStatus
from skipjack.fleet.store import JobResult
from skipjack.ledger import DecisionRecord, Ledger

PROBLEM = Problem("matmul", (8, 8, 8))
CLASS, LIBRARY_NS, DEFAULT_NS, MIN_EFFECT = "cpu:a", 100.0, 300.0, 0.01


@dataclass(frozen=True)
class Found:
    """A kernel by its true time, how much of its gain was confirmed, and what the clock said."""

    time_ns: float
    confirmed: float
    year: int
    library_ns: float | None = None
    """What the library took in that session; None in verdicts of earlier versions."""

    @property
    def entry(self) -> BankEntry:
        library_ns = self.library_ns or LIBRARY_NS
        speedup = {"vendor": self._gain(library_ns)}
        evidence: dict[str, Any] = {"artifact": "a"}
        if self.library_ns is not None:
            speedup["default"] = self._gain(DEFAULT_NS)
            evidence[BASELINE] = {"name": "numpy", **speedup["vendor"]}
        return BankEntry(
            PROBLEM.key, CLASS, "a/1", "nest", 1, {"tile": round(self.time_ns)}, self.time_ns,
            DEFAULT_NS, library_ns, "numpy", speedup, evidence,
            f"{self.year}-01-01T00:00:00.000000Z",
        )  # fmt: skip

    def _gain(self, competitor_ns: float) -> dict[str, float]:
        ratio = competitor_ns / self.time_ns
        return {"ratio": ratio, "low": ratio * self.confirmed, "high": ratio}


def write(ledger: Ledger, entry: BankEntry) -> None:
    study = Study(PROBLEM, entry.solver, CLASS, "random", 0)
    ledger.start_study(study, 1)
    config = Config(dict(entry.config))
    ledger.add_decision(
        DecisionRecord(
            study.id, entry.problem, CLASS, entry.solver, config, "banked", entry.record(),
            entry.created,
        )
    )  # fmt: skip


@dataclass(frozen=True)
class Fleet:
    """A store with one finished job for each."""

    entries: tuple[BankEntry, ...]

    def jobs(self, label: str) -> Iterator[JobResult]:
        for number, entry in enumerate(self.entries):
            with Ledger.in_memory() as ledger:
                before = ledger.snapshot()
                write(ledger, entry)
                facts = ledger.facts_since(before)
            plan = JobPlan(PROBLEM.key, "a/1", entry.solver)
            yield JobResult(Job(number, label, plan, JobStatus(JobState.EVALUATED)), [facts])


class User:
    """A directory with a ledger and a bank."""

    def __init__(self, place: Path) -> None:
        self.ledger, self.bank = Ledger.open(place), Bank.open(place)

    @property
    def used(self) -> BankEntry | None:
        return self.bank.lookup(PROBLEM.key, CLASS)

    def tune(self, found: Found, how: str) -> None:
        held, new = self.used, found.entry
        met = {"tune": ReplacementReason.SLOWER, "broken": ReplacementReason.FAILED, "unmet": None}[
            how
        ]
        if held is not None and met is None and stronger(held, new) is held:
            return  # its plug-in was not there, and its evidence is stronger
        slower = held is not None and held.time_ns > new.time_ns * (1.0 + MIN_EFFECT)
        if held is not None and met is ReplacementReason.SLOWER and not slower:
            return  # no gain is confirmed, side by side
        if held is not None and met is not None:
            new = replace(new, evidence={**new.evidence, REPLACED: replacing(held, met)})
        write(self.ledger, new)
        self.bank.put(new)
        assert met is None or self.used == new, "who met the incumbent is what is used"

    def run_fleet(self, found: tuple[Found, ...]) -> None:
        project(Fleet(tuple(one.entry for one in found)), "L", self.ledger, self.bank)

    def take_in(self, other: User, how: str) -> None:
        if how == "merge the bank":
            if other.bank.path.exists():
                self.bank.merge(other.bank.path)
        else:
            self.ledger.merge(other.ledger.path)
            self.bank.rebuild(self.ledger)


@contextmanager
def two_users() -> Iterator[list[User]]:
    with tempfile.TemporaryDirectory() as folder:
        users = [User(Path(folder) / name) for name in "ab"]
        yield users
        for user in users:
            user.ledger.close()


Libraries = st.SearchStrategy[float | None]
EARLIER: Libraries = st.none()
TODAY: Libraries = st.sampled_from([2.0, 100.0, 5000.0])


def founds(confirmed: st.SearchStrategy[float], libraries: Libraries) -> st.SearchStrategy[Found]:
    times = st.floats(5.0, 200.0).map(lambda time: round(time, 1))
    return st.builds(Found, times, confirmed, st.sampled_from([1990, 2026, 2090]), libraries)


def steps(
    libraries: Libraries, confirmed: st.SearchStrategy[float], *ways: str
) -> st.SearchStrategy[list[object]]:
    who, found = st.integers(0, 1), founds(confirmed, libraries)
    return st.lists(
        st.tuples(who, found, st.sampled_from(ways))
        | st.tuples(who, st.lists(found, min_size=1, max_size=2).map(tuple))
        | st.tuples(who, st.sampled_from(["merge the bank", "merge the ledger", "rebuild"])),
        min_size=1,
        max_size=7,
    )


def take(users: list[User], step: object) -> User:
    """One step of a history; returns the user who took it."""
    match step:
        case (int(who), Found() as found, str(how)):
            users[who].tune(found, how)
        case (int(who), tuple(found)):
            users[who].run_fleet(found)
        case (int(who), "rebuild"):
            users[who].bank.rebuild(users[who].ledger)
        case (int(who), str(how)):
            users[who].take_in(users[1 - who], how)
        case _:
            raise AssertionError(step)
    return users[who]


quick = settings(max_examples=12, deadline=None)


def never_slower(history: list[object]) -> None:
    with two_users() as users:
        for step in history:
            before = [user.used for user in users]
            take(users, step)
            for was, user in zip(before, users, strict=True):
                assert was is None or (user.used is not None and user.used.time_ns <= was.time_ns)


@quick
@given(steps(EARLIER, st.just(1.0), "tune", "unmet"))
def test_what_earlier_versions_banked_never_gets_slower(history: list[object]) -> None:
    never_slower(history)


FAST, SLOW = Found(10.0, 1.0, 1990, 100.0), Found(20.0, 1.0, 2090, 5000.0)
"""The library took a fiftieth of the time next to the fast one."""
FAST_LIBRARY = Found(40.0, 1.0, 2026, 2.0)


@quick
@given(steps(TODAY, st.just(1.0), "tune", "unmet"))
@example([(0, FAST, "unmet"), (0, SLOW, "unmet")])
@example([(0, FAST, "tune"), (1, SLOW, "tune"), (0, "merge the bank"), (1, "merge the ledger")])
@example([(0, FAST, "tune"), (0, (SLOW, FAST_LIBRARY)), (0, "rebuild")])
@example([(0, SLOW, "tune"), (1, FAST_LIBRARY, "tune"), (0, "merge the bank")])
def test_what_is_used_never_gets_slower_however_slow_libraries_were(history: list[object]) -> None:
    never_slower(history)


def shared_gain(entry: BankEntry) -> float:
    """What is sure of the gain over what is the same in all sessions."""
    competitor = "default" if BASELINE in entry.evidence else "vendor"
    return float(entry.speedup[competitor]["low"])


@pytest.mark.parametrize("libraries", [EARLIER, TODAY], ids=["earlier", "today"])
def test_what_is_used_gives_way_to_who_met_it_or_to_stronger_evidence(
    libraries: Libraries,
) -> None:
    ways = steps(libraries, st.sampled_from([0.5, 0.8, 0.99]), "tune", "unmet", "broken")
    quick(given(ways)(gives_way_to_stronger_evidence))()


def gives_way_to_stronger_evidence(history: list[object]) -> None:
    with two_users() as users:
        sure: dict[str, float] = {}
        """The largest gain that is confirmed of an entry, or of one that gave way to it."""
        for step in history:
            before = [user.used for user in users]
            take(users, step)
            for was, user in zip(before, users, strict=True):
                now = user.used
                assert now is not None or was is None
                if now is not None and digest(now) not in sure:
                    met = now.evidence.get(REPLACED, {}).get("entry", "")
                    sure[digest(now)] = max(shared_gain(now), sure.get(met, 0.0))
                if now is not None and was is not None and now != was:
                    met = now.evidence.get(REPLACED, {}).get("entry")
                    assert met == digest(was) or sure[digest(now)] >= sure[digest(was)]


@quick
@given(steps(EARLIER | TODAY, st.sampled_from([0.5, 0.99]), "tune", "unmet", "broken"))
def test_banks_merge_alike_in_any_order_and_are_what_their_ledgers_say(
    history: list[object],
) -> None:
    with two_users() as users:
        own, folder = set(users), users[0].bank.path.parent
        for step in history:
            user = take(users, step)
            if step[-1] == "merge the bank":  # type: ignore[index]
                own.discard(user)
        paths = [user.bank.path for user in users if user.bank.path.exists()]
        unions = set()
        for number, order in enumerate(itertools.permutations([*paths, *paths[:1]])):
            union = Bank.open(folder / str(number))
            for path in order:
                union.merge(path)
            unions.add(union.path.read_bytes() if union.path.exists() else b"")
        assert len(unions) <= 1
        for user in own:
            if user.bank.path.exists():
                user.bank.join({})
                put = user.bank.path.read_bytes()
                user.bank.path.unlink()
                user.bank.rebuild(user.ledger)
                assert user.bank.path.read_bytes() == put
