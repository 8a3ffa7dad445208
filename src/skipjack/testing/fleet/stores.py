"""A conformance kit for databases of the fleet's store. In a test file of yours::

from skipjack.testing.fleet.stores import StoreConformance

class TestMyDatabase(StoreConformance):
    def url(self):
        return "mydatabase://host/empty"

It works on a store as coordinators and people do, so a `Dialect` that passes it can hold a fleet's.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, inspect, text

from skipjack.core.device import Device
from skipjack.fleet.engines import Host, Plan, Stage
from skipjack.fleet.store import (
    Built,
    Claim,
    Failed,
    Label,
    NewProblem,
    Settlement,
    State,
    Store,
    Told,
    Want,
    open_store,
)
from skipjack.processes import ProcessIdentity

_DEVICE = Device("cpu", "znver4", 1, "made up", ("avx2",), 8, 32, memory_bytes=1 << 30)
_ODD = "süß ☃ 🐟 'quoted' \"twice\" %s %(name)s \\ ; -- {x} "
_RESULT = {"outcome": "better", "toolchain": "llvm 20"}


class StoreConformance:
    """What the store must keep to on every database.

    Subclass it, supply `url`, and let pytest collect it.
    """

    patience_s = 600.0
    """What has not happened by then never will."""
    claimers = 4
    """Coordinators that claim at once."""

    def url(self) -> str:
        """Of an empty database, another one for each test."""
        raise NotImplementedError("supply url(self) in your subclass")

    def open(self, url: str) -> Store:
        """The store there."""
        return open_store(url)

    # one owner for each job

    def test_a_store_that_is_opened_again_has_everything(self) -> None:
        url = self.url()
        with self.open(url) as store:
            _load(store, 3)
            before = store.jobs.find()
        with self.open(url) as store:
            assert store.jobs.find() == before, "jobs are others when the store is opened again"
            added = store.problems.add(_problems(4), "again")
        found = (added.imported, added.known, added.tagged)
        assert found == (1, 3, 4), (
            "of 4 problems 1 is new and 4 get the tag; the store counted (new, known, tagged) "
            f"{found}"
        )

    def test_a_job_is_claimed_by_one_owner_only(self) -> None:
        url = self.url()
        taken: list[int] = []
        errors: list[Exception] = []

        def work(number: int) -> None:
            try:
                with self.open(url) as own:
                    us = _Crew(own, f"host{number}")
                    while claims := us.claim(Stage.BUILD, 4):
                        taken.extend(claim.job for claim in claims)
            except Exception as error:
                errors.append(error)

        with self.open(url) as store:
            jobs = _load(store, 48)
            threads = [threading.Thread(target=work, args=(n,)) for n in range(self.claimers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not errors, f"claiming while others claim raised {errors[0]!r}"
            # One that found the rest locked by others may have left too early.
            taken += [claim.job for claim in _Crew(store, "last").claim(Stage.BUILD, 48)]
            attempts = {job.id: job.attempt for job in store.jobs.find()}
        twice = [job for job, times in Counter(taken).items() if times > 1]
        assert not twice, f"job {twice[0]} was claimed by two owners"
        assert sorted(taken) == jobs, "jobs that wait were not claimed"
        assert set(attempts.values()) == {1}, "a claim was counted more than once"

    def test_urgent_jobs_come_first_and_those_that_failed_last(self) -> None:
        with self.open(self.url()) as store:
            usual = _load(store, 2)
            urgent = _load(store, 1, label="urgent", priority=7)
            us = _Crew(store)
            first, second = us.claim(Stage.BUILD, 2)
            order = [first.job, second.job]
            us.settle(second, Failed("out of memory"))
            later = [claim.job for claim in us.claim(Stage.BUILD, 2)]
        assert order == [*urgent, usual[0]], "jobs of higher priority are not claimed first"
        assert later == [usual[1], usual[0]], "a job that failed is not claimed after the others"

    # leases

    def test_a_lease_that_expires_gives_jobs_back(self) -> None:
        with self.open(self.url()) as store:
            _load(store, 2)
            us, they = _Crew(store, "us", lease_s=0.2), _Crew(store, "them")
            (late,) = us.claim(Stage.BUILD)
            (kept,) = they.claim(Stage.BUILD)
            began, freed = time.monotonic(), 0
            while not freed and time.monotonic() < began + self.patience_s:
                time.sleep(0.05)
                freed = store.queue.sweep()
            assert freed == 1, f"a lease of 0.2 s did not expire; sweep gave back {freed} jobs"
            assert store.queue.renew(us.owner) is None, "a lease that was swept can be renewed"
            still = store.queue.renew(they.owner)
            assert still == {kept.job: 1}, f"a lease that is good holds {still}"
            (again,) = they.claim(Stage.BUILD)
            assert (again.job, again.attempt) == (late.job, 2), "a lost job cannot be claimed again"
            assert us.settle(late, Built()) == [late], (
                "a settlement is accepted from an owner whose lease was swept"
            )
            state = store.jobs.get(late.job).standing.state
            assert state is State.BUILDING, f"a settlement that was refused left its job {state}"

    def test_a_settlement_of_an_earlier_claim_is_refused(self) -> None:
        with self.open(self.url()) as store:
            _load(store, 1)
            us = _Crew(store)
            (first,) = us.claim(Stage.BUILD)
            store.queue.release(us.owner, [first.job], "later")
            (second,) = us.claim(Stage.BUILD)
            assert us.settle(first, Built()) == [first], (
                "a settlement of attempt 1 is accepted after attempt 2 has begun"
            )
            assert us.settle(second, Built()) == [], "the settlement of the last claim is refused"
            store.jobs.abort(label="conformance")
            store.jobs.resume(label="conformance")
            (third,) = us.claim(Stage.EVALUATE)
            store.jobs.abort(label="conformance")
            assert us.settle(third, Told(True), result=_RESULT) == [third], (
                "a settlement is accepted of a job that was aborted meanwhile"
            )

    def test_a_result_counts_once(self) -> None:
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Crew(store)
            us.build()
            (claim,) = us.claim(Stage.EVALUATE)
            for _ in range(2):
                refused = us.settle(claim, Told(True), trials=3, result=_RESULT)
                assert not refused, "a settlement that is repeated is refused"
            found = store.jobs.get(job)
            results = [one.job.id for one in store.results.jobs("conformance")]
        assert found.trials == 3, f"3 trials that were told twice are counted as {found.trials}"
        assert found.result == _RESULT, f"the result came back as {found.result}"
        assert results == [job], "a job that is evaluated is not among the results exactly once"

    # what people do

    def test_jobs_are_aborted_resumed_and_reset(self) -> None:
        with self.open(self.url()) as store:
            _load(store, 2)
            us = _Crew(store)
            us.build()
            (claim,) = us.claim(Stage.EVALUATE)
            store.jobs.abort(label="conformance", reason="stop")
            self._expect_states(store, {State.ABORTED: 2}, "an abort")
            store.jobs.resume(label="conformance")
            self._expect_states(store, {State.BUILT: 1, State.NEW: 1}, "a resume")
            (claim,) = us.claim(Stage.EVALUATE)
            us.settle(claim, Told(True), trials=1, result=_RESULT)
            store.jobs.reset("conformance", State.EVALUATED, State.NEW)
            self._expect_states(store, {State.NEW: 2}, "a reset")
            epochs = sorted(job.standing.epoch for job in store.jobs.find())
        assert epochs == [0, 1], f"a job that was reset begins no new epoch: they are in {epochs}"

    def test_the_story_of_a_job_is_complete(self) -> None:
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Crew(store)
            us.build()
            (claim,) = us.claim(Stage.EVALUATE)
            us.settle(claim, Failed(_ODD))
            (claim,) = us.claim(Stage.EVALUATE)
            us.settle(claim, Told(True), result=_RESULT)
            story = store.jobs.story(job)
        events = [line.event for line in story]
        wanted = ["claimed", "built", "claimed", "failed", "claimed", "told"]
        assert events == wanted, f"the story of a job is {events}"
        for line, following in pairwise(story):
            assert line.after == following.before, (
                f"the story has a gap: {line.event} led to {line.after}, then came "
                f"{following.event} from {following.before}"
            )
            assert line.at <= following.at, "the story is not in the order of its times"
        assert story[3].reason == _ODD, f"the reason {_ODD!r} came back as {story[3].reason!r}"

    # what a database holds

    def test_odd_texts_and_large_ones_survive(self) -> None:
        log, code = (_ODD * 2000)[:60_000], bytes(range(256)) * (1 << 12)
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Crew(store)
            digest = hashlib.sha256(code).hexdigest()
            (claim,) = us.claim(Stage.BUILD)
            more = {"digests": (digest,), "artifacts": {digest: code}, "log": log}
            us.settle(claim, Built(), **more)
            (kept,) = store.jobs.log(job)
            same = kept.text == log
            assert same, (
                f"a log of {len(log)} characters came back with {len(kept.text)}, or changed"
            )
            task = us.tasks(Stage.EVALUATE)[0]
            assert dict(task.artifacts) == {digest: code}, (
                f"machine code of {len(code)} bytes did not come back as it was"
            )
            for name in ("Name", "name", "näme", "name%"):
                store.jobs.add(Label(name, "me", ticket=_ODD), [Plan("matmul:1x8x8", _DEVICE.name)])
            for name in ("Name", "name", "näme", "name%"):
                label = store.labels.get(name)
                assert label.name == name, f"label {name!r} is the same as {label.name!r}"
                assert label.ticket == _ODD, f"{_ODD!r} came back as {label.ticket!r}"

    def test_times_are_those_of_the_databases_clock(self) -> None:
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Crew(store)
            (claim,) = us.claim(Stage.BUILD)
            time.sleep(0.05)
            us.settle(claim, Built())
            first, second = (datetime.fromisoformat(line.at) for line in store.jobs.story(job))
        assert first < second, f"50 ms passed, and the clock says {first} and then {second}"
        off = abs(datetime.now(UTC) - first)
        assert off < timedelta(days=1), f"the database's clock is off by {off}: is it in UTC?"

    def test_a_transaction_that_is_interrupted_leaves_nothing(self) -> None:
        class InterruptedWorkError(Exception):
            pass

        def half(connection: Connection) -> None:
            connection.execute(text("UPDATE jobs SET priority = 99"))
            raise InterruptedWorkError

        with self.open(self.url()) as store:
            _load(store, 2)
            try:
                store.database.transaction(half)
            except InterruptedWorkError:
                changed = [job.id for job in store.jobs.find() if job.priority == 99]
            else:
                raise AssertionError("a transaction hides the exception that ended it")
            assert not changed, "what an interrupted transaction wrote is there"
            assert _Crew(store).claim(Stage.BUILD, 2), "it left rows locked"

    def test_views_answer(self) -> None:
        def counted(connection: Connection) -> dict[str, int]:
            names = inspect(connection).get_view_names()
            return {
                name: connection.execute(text(f"SELECT COUNT(*) FROM {name}")).scalar_one()
                for name in names
            }

        with self.open(self.url()) as store:
            _load(store, 2)
            _Crew(store).build()
            rows = store.database.read(counted)
        for view, wanted in (("job_list", 2), ("job_story", 2), ("problem_list", 2)):
            found = rows.get(view)
            assert found == wanted, f"the view {view} has {found} rows and should have {wanted}"

    def _expect_states(self, store: Store, wanted: dict[State, int], after: str) -> None:
        found = {state: count for state, count in store.queue.live("conformance").items() if count}
        assert found == wanted, f"after {after} jobs are {_words(found)}, not {_words(wanted)}"


class _Crew:
    """A coordinator that has signed in, with one machine."""

    def __init__(self, store: Store, name: str = "host", lease_s: float = 600.0) -> None:
        self._store = store
        self._machine = store.queue.register(Host(name, 8, 1 << 30, (_DEVICE,)), "local").id
        self.owner = store.queue.sign_in(ProcessIdentity(name, 1), lease_s)

    def _taken(self, stage: Stage, count: int) -> Sequence[Any]:
        devices = (_DEVICE,) if stage is Stage.EVALUATE else ()
        wants = [Want(self._machine, "0", devices, count)]
        return self._store.queue.claim(self.owner, stage, wants)

    def claim(self, stage: Stage, count: int = 1) -> list[Claim]:
        return [claim for claim, _ in self._taken(stage, count)]

    def tasks(self, stage: Stage) -> list[Any]:
        return [task for _, task in self._taken(stage, 1)]

    def settle(self, claim: Claim, event: Any, **more: Any) -> list[Claim]:
        return self._store.queue.settle(self.owner, [Settlement(claim, event, **more)])

    def build(self) -> None:
        (claim,) = self.claim(Stage.BUILD)
        assert not self.settle(claim, Built()), "the settlement of a claim is refused"


def _problems(count: int) -> list[NewProblem]:
    return [NewProblem(f"matmul:{n}x8x8", "matmul", "", "f32") for n in range(1, count + 1)]


def _load(store: Store, count: int, *, label: str = "conformance", priority: int = 0) -> list[int]:
    """Jobs of a label, one for each of so many problems; their numbers."""
    problems = _problems(count)
    store.problems.add(problems, "tag")
    plans = [Plan(one.key, _DEVICE.name) for one in problems]
    store.jobs.add(Label(label, "me"), plans, priority=priority)
    return [job.id for job in store.jobs.find(label=label)]


def _words(states: dict[State, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items()) or "gone"
