"""Without a confirmed gain, what was used before stays: in any order of tunings, fleets and merges.

Two users tune one problem, take in results of fleets, merge each other's banks and ledgers, and
make their banks anew, with clocks that say anything. Kernels have made-up true times; verdicts are
written as `skipjack tune` writes them.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.bank import Bank, BankEntry, Met, replacing, stronger
from skipjack.bank.evidence import REPLACED, digest
from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.study import Study
from skipjack.fleet.projecting import project
from skipjack.fleet.records import Job, Plan
from skipjack.fleet.states import Standing, State
from skipjack.fleet.store.jobs import JobResult
from skipjack.ledger import Ledger, VerdictRecord

PROBLEM = Problem("matmul", (8, 8, 8))
CLASS, LIBRARY_NS, MIN_EFFECT = "cpu:a", 100.0, 0.01


@dataclass(frozen=True)
class Found:
    """A kernel by its true time, how much of its gain was confirmed, and what the clock said."""

    time_ns: float
    confirmed: float
    year: int

    @property
    def entry(self) -> BankEntry:
        ratio = LIBRARY_NS / self.time_ns
        gain = {"ratio": ratio, "low": ratio * self.confirmed, "high": ratio}
        return BankEntry(
            PROBLEM.key, CLASS, "a/1", "nest", 1, {"tile": round(self.time_ns)}, self.time_ns,
            LIBRARY_NS, LIBRARY_NS, "numpy", {"vendor": gain}, {"artifact": "a"},
            f"{self.year}-01-01T00:00:00.000000Z",
        )  # fmt: skip


def write(ledger: Ledger, entry: BankEntry) -> None:
    study = Study(PROBLEM, entry.solver, CLASS, "random", 0)
    ledger.start_study(study, 1)
    config = Config(dict(entry.config))
    ledger.add_verdict(
        VerdictRecord(
            study.id, entry.problem, CLASS, entry.solver, config, "banked", entry.record(),
            entry.created,
        )
    )  # fmt: skip


@dataclass(frozen=True)
class Fleet:
    """A store with one finished job for each."""

    entries: tuple[BankEntry, ...]

    def results(self, label: str) -> Iterator[JobResult]:
        for number, entry in enumerate(self.entries):
            with Ledger.in_memory() as ledger:
                before = ledger.snapshot()
                write(ledger, entry)
                facts = ledger.facts_beyond(before)
            plan = Plan(PROBLEM.key, "a/1", entry.solver)
            yield JobResult(Job(number, label, plan, Standing(State.EVALUATED)), [facts])


class User:
    """A directory with a ledger and a bank."""

    def __init__(self, place: Path) -> None:
        self.ledger, self.bank = Ledger.open(place), Bank.open(place)

    @property
    def used(self) -> BankEntry | None:
        return self.bank.lookup(PROBLEM.key, CLASS)

    def tune(self, found: Found, how: str) -> None:
        held, new = self.used, found.entry
        met = {"tune": Met.SLOWER, "broken": Met.FAILED, "unmet": None}[how]
        if held is not None and met is None and stronger(held, new) is held:
            return  # its plug-in was not there, and its evidence is stronger
        slower = held is not None and held.time_ns > new.time_ns * (1.0 + MIN_EFFECT)
        if held is not None and met is Met.SLOWER and not slower:
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


def founds(confirmed: st.SearchStrategy[float]) -> st.SearchStrategy[Found]:
    times = st.floats(5.0, 200.0).map(lambda time: round(time, 1))
    return st.builds(Found, times, confirmed, st.sampled_from([1990, 2026, 2090]))


def steps(confirmed: st.SearchStrategy[float], *ways: str) -> st.SearchStrategy[list[object]]:
    who, found = st.integers(0, 1), founds(confirmed)
    return st.lists(
        st.tuples(who, found, st.sampled_from(ways))
        | st.tuples(who, st.lists(found, min_size=1, max_size=2).map(tuple))
        | st.tuples(who, st.sampled_from(["merge the bank", "merge the ledger", "rebuild"])),
        min_size=1,
        max_size=7,
    )


def take(users: list[User], step: object) -> User:
    """One step of a history; gives who took it."""
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


@quick
@given(steps(st.just(1.0), "tune", "unmet"))
def test_what_is_used_never_gets_slower(history: list[object]) -> None:
    with two_users() as users:
        for step in history:
            before = [user.used for user in users]
            take(users, step)
            for was, user in zip(before, users, strict=True):
                assert was is None or (user.used is not None and user.used.time_ns <= was.time_ns)


@quick
@given(steps(st.sampled_from([0.5, 0.8, 0.99]), "tune", "unmet", "broken"))
def test_what_is_used_gives_way_to_who_met_it_or_to_stronger_evidence(
    history: list[object],
) -> None:
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
                    own = float(now.speedup["vendor"]["low"])
                    sure[digest(now)] = max(own, sure.get(met, 0.0))
                if now is not None and was is not None and now != was:
                    met = now.evidence.get(REPLACED, {}).get("entry")
                    assert met == digest(was) or sure[digest(now)] >= sure[digest(was)]


@quick
@given(steps(st.sampled_from([0.5, 0.99]), "tune", "unmet", "broken"))
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
                put = user.bank.path.read_bytes()
                user.bank.path.unlink()
                user.bank.rebuild(user.ledger)
                assert user.bank.path.read_bytes() == put
