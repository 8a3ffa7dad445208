"""A conformance kit for databases of the fleet's store. In a test file of yours::

from skipjack.testing.fleet.stores import StoreConformance

class TestMyDatabase(StoreConformance):
    def url(self):
        return "mydatabase://host/empty"

It uses a store as coordinators and users do, so that a `Dialect` that passes it supports a fleet.
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

from skipjack.core import Device
from skipjack.fleet.model import (
    Built,
    Claim,
    ClaimResult,
    Failed,
    Host,
    JobPlan,
    JobStage,
    JobState,
    Label,
    Told,
    WorkRequest,
)
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.processes import ProcessIdentity

_DEVICE = Device("cpu", "znver4", 1, "made up", ("avx2",), 8, 32, memory_bytes=1 << 30)
_ODD = "süß ☃ 🐟 'quoted' \"twice\" %s %(name)s \\ ; -- {x} "
_RESULT = {"outcome": "better", "toolchain": "llvm 20"}


class StoreConformance:
    """The contract of the store, for every database.

    Subclass it, supply `url`, and let pytest collect it.
    """

    patience_s = 600.0
    """Timeout of all waits."""
    claimers = 4
    """Number of coordinators that claim concurrently."""

    def url(self) -> str:
        """The URL of an empty database, a different one for each test."""
        raise NotImplementedError("supply url(self) in your subclass")

    def open(self, url: str) -> Store:
        """Open the store at a URL."""
        return open_store(url)

    # one owner for each job

    def test_a_store_that_is_opened_again_has_everything(self) -> None:
        url = self.url()
        with self.open(url) as store:
            _load(store, 3)
            before = store.jobs.find()
        with self.open(url) as store:
            assert store.jobs.find() == before, "jobs have changed after the store was opened again"
            added = store.problems.add(_problems(4), "again")
        found = (added.imported, added.known, added.tagged)
        assert found == (1, 3, 4), (
            "of 4 problems 1 is new and 4 are tagged, but the store counted (new, known, tagged) "
            f"{found}"
        )

    def test_a_job_is_claimed_by_one_owner_only(self) -> None:
        url = self.url()
        taken: list[int] = []
        errors: list[Exception] = []

        def work(number: int) -> None:
            try:
                with self.open(url) as own:
                    us = _Coordinator(own, f"host{number}")
                    while claims := us.claim(JobStage.BUILD, 4):
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
            # A coordinator that found the rest locked by others may have ended too early.
            taken += [claim.job for claim in _Coordinator(store, "last").claim(JobStage.BUILD, 48)]
            attempts = {job.id: job.attempt for job in store.jobs.find()}
        twice = [job for job, times in Counter(taken).items() if times > 1]
        assert not twice, f"job {twice[0]} was claimed by two owners"
        assert sorted(taken) == jobs, "waiting jobs were not claimed"
        assert set(attempts.values()) == {1}, "a claim was counted more than once"

    def test_urgent_jobs_come_first_and_those_that_failed_last(self) -> None:
        with self.open(self.url()) as store:
            usual = _load(store, 2)
            urgent = _load(store, 1, label="urgent", priority=7)
            us = _Coordinator(store)
            first, second = us.claim(JobStage.BUILD, 2)
            order = [first.job, second.job]
            us.finish(second, Failed("out of memory"))
            later = [claim.job for claim in us.claim(JobStage.BUILD, 2)]
        assert order == [*urgent, usual[0]], "jobs of higher priority are not claimed first"
        assert later == [usual[1], usual[0]], "a job that failed is not claimed after the others"

    # leases

    def test_a_lease_that_expires_gives_jobs_back(self) -> None:
        with self.open(self.url()) as store:
            _load(store, 2)
            us, they = _Coordinator(store, "us", lease_s=0.2), _Coordinator(store, "them")
            (late,) = us.claim(JobStage.BUILD)
            (kept,) = they.claim(JobStage.BUILD)
            began, freed = time.monotonic(), 0
            while not freed and time.monotonic() < began + self.patience_s:
                time.sleep(0.05)
                freed = store.queue.sweep()
            assert freed == 1, f"a lease of 0.2 s did not expire; sweep freed {freed} jobs"
            assert store.queue.renew(us.owner) is None, "a lease that was swept can be renewed"
            still = store.queue.renew(they.owner)
            assert still == {kept.job: 1}, f"a valid lease holds {still}"
            (again,) = they.claim(JobStage.BUILD)
            assert (again.job, again.attempt) == (late.job, 2), "a lost job cannot be claimed again"
            assert us.finish(late, Built()) == [late], (
                "a claim result is accepted from an owner whose lease was swept"
            )
            state = store.jobs.get(late.job).status.state
            assert state is JobState.BUILDING, f"a rejected claim result left its job {state}"

    def test_a_settlement_of_an_earlier_claim_is_refused(self) -> None:
        with self.open(self.url()) as store:
            _load(store, 1)
            us = _Coordinator(store)
            (first,) = us.claim(JobStage.BUILD)
            store.queue.release(us.owner, [first.job], "later")
            (second,) = us.claim(JobStage.BUILD)
            assert us.finish(first, Built()) == [first], (
                "a claim result of attempt 1 is accepted after attempt 2 has begun"
            )
            assert us.finish(second, Built()) == [], "the result of the last claim is rejected"
            store.jobs.abort(label="conformance")
            store.jobs.resume(label="conformance")
            (third,) = us.claim(JobStage.EVALUATE)
            store.jobs.abort(label="conformance")
            assert us.finish(third, Told(True), result=_RESULT) == [third], (
                "a claim result is accepted of a job that was aborted meanwhile"
            )

    def test_a_result_counts_once(self) -> None:
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Coordinator(store)
            us.build()
            (claim,) = us.claim(JobStage.EVALUATE)
            for _ in range(2):
                refused = us.finish(claim, Told(True), trials=3, result=_RESULT)
                assert not refused, "a repeated claim result is rejected"
            found = store.jobs.get(job)
            results = [one.job.id for one in store.results.jobs("conformance")]
        assert found.trials == 3, f"3 trials that were reported twice are counted as {found.trials}"
        assert found.result == _RESULT, f"the result came back as {found.result}"
        assert results == [job], "an evaluated job is not among the results exactly once"

    # what users do

    def test_jobs_are_aborted_resumed_and_reset(self) -> None:
        with self.open(self.url()) as store:
            _load(store, 2)
            us = _Coordinator(store)
            us.build()
            (claim,) = us.claim(JobStage.EVALUATE)
            store.jobs.abort(label="conformance", reason="stop")
            self._expect_states(store, {JobState.ABORTED: 2}, "an abort")
            store.jobs.resume(label="conformance")
            self._expect_states(store, {JobState.BUILT: 1, JobState.NEW: 1}, "a resume")
            (claim,) = us.claim(JobStage.EVALUATE)
            us.finish(claim, Told(True), trials=1, result=_RESULT)
            store.jobs.reset("conformance", JobState.EVALUATED, JobState.NEW)
            self._expect_states(store, {JobState.NEW: 2}, "a reset")
            epochs = sorted(job.status.epoch for job in store.jobs.find())
        assert epochs == [0, 1], (
            f"a job that was reset does not start a new epoch: epochs are {epochs}"
        )

    def test_the_story_of_a_job_is_complete(self) -> None:
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Coordinator(store)
            us.build()
            (claim,) = us.claim(JobStage.EVALUATE)
            us.finish(claim, Failed(_ODD))
            (claim,) = us.claim(JobStage.EVALUATE)
            us.finish(claim, Told(True), result=_RESULT)
            history = store.jobs.history(job)
        events = [line.event for line in history]
        wanted = ["claimed", "built", "claimed", "failed", "claimed", "told"]
        assert events == wanted, f"the events of a job are {events}"
        for line, following in pairwise(history):
            assert line.after == following.before, (
                f"the events have a gap: {line.event} led to {line.after}, followed by "
                f"{following.event} from {following.before}"
            )
            assert line.at <= following.at, "the events are not in chronological order"
        assert history[3].reason == _ODD, f"the reason {_ODD!r} came back as {history[3].reason!r}"

    # what a database holds

    def test_odd_texts_and_large_ones_survive(self) -> None:
        log, code = (_ODD * 2000)[:60_000], bytes(range(256)) * (1 << 12)
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Coordinator(store)
            digest = hashlib.sha256(code).hexdigest()
            (claim,) = us.claim(JobStage.BUILD)
            more = {"digests": (digest,), "artifacts": {digest: code}, "log": log}
            us.finish(claim, Built(), **more)
            (kept,) = store.jobs.log(job)
            same = kept.text == log
            assert same, (
                f"a log of {len(log)} characters came back with {len(kept.text)}, or changed"
            )
            task = us.tasks(JobStage.EVALUATE)[0]
            assert dict(task.artifacts) == {digest: code}, (
                f"machine code of {len(code)} bytes came back changed"
            )
            for name in ("Name", "name", "näme", "name%"):
                store.jobs.add(
                    Label(name, "me", ticket=_ODD), [JobPlan("matmul:1x8x8", _DEVICE.name)]
                )
            for name in ("Name", "name", "näme", "name%"):
                label = store.labels.get(name)
                assert label.name == name, (
                    f"label {name!r} is not distinguished from {label.name!r}"
                )
                assert label.ticket == _ODD, f"{_ODD!r} came back as {label.ticket!r}"

    def test_times_are_those_of_the_databases_clock(self) -> None:
        with self.open(self.url()) as store:
            (job,) = _load(store, 1)
            us = _Coordinator(store)
            (claim,) = us.claim(JobStage.BUILD)
            time.sleep(0.05)
            us.finish(claim, Built())
            first, second = (datetime.fromisoformat(line.at) for line in store.jobs.history(job))
        assert first < second, f"50 ms passed, but the clock reads {first} and then {second}"
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
            assert not changed, "what an interrupted transaction wrote was committed"
            assert _Coordinator(store).claim(JobStage.BUILD, 2), (
                "an interrupted transaction left rows locked"
            )

    def test_views_answer(self) -> None:
        def counted(connection: Connection) -> dict[str, int]:
            names = inspect(connection).get_view_names()
            return {
                name: connection.execute(text(f"SELECT COUNT(*) FROM {name}")).scalar_one()
                for name in names
            }

        with self.open(self.url()) as store:
            _load(store, 2)
            _Coordinator(store).build()
            rows = store.database.read(counted)
        for view, wanted in (("job_list", 2), ("job_story", 2), ("problem_list", 2)):
            found = rows.get(view)
            assert found == wanted, f"the view {view} has {found} rows and should have {wanted}"

    def _expect_states(self, store: Store, wanted: dict[JobState, int], after: str) -> None:
        found = {state: count for state, count in store.queue.live("conformance").items() if count}
        assert found == wanted, (
            f"after {after} jobs are {_state_counts(found)}, not {_state_counts(wanted)}"
        )


class _Coordinator:
    """A coordinator with a lease and one machine."""

    def __init__(self, store: Store, name: str = "host", lease_s: float = 600.0) -> None:
        self._store = store
        self._machine = store.queue.register(Host(name, 8, 1 << 30, (_DEVICE,)), "local").id
        self.owner = store.queue.start_lease(ProcessIdentity(name, 1), lease_s)

    def _taken(self, stage: JobStage, count: int) -> Sequence[Any]:
        devices = (_DEVICE,) if stage is JobStage.EVALUATE else ()
        wants = [WorkRequest(self._machine, "0", devices, count)]
        return self._store.queue.claim(self.owner, stage, wants)

    def claim(self, stage: JobStage, count: int = 1) -> list[Claim]:
        return [claim for claim, _ in self._taken(stage, count)]

    def tasks(self, stage: JobStage) -> list[Any]:
        return [task for _, task in self._taken(stage, 1)]

    def finish(self, claim: Claim, event: Any, **more: Any) -> list[Claim]:
        return self._store.queue.finish(self.owner, [ClaimResult(claim, event, **more)])

    def build(self) -> None:
        (claim,) = self.claim(JobStage.BUILD)
        assert not self.finish(claim, Built()), "the result of a claim is rejected"


def _problems(count: int) -> list[NewProblem]:
    return [NewProblem(f"matmul:{n}x8x8", "matmul", "", "f32") for n in range(1, count + 1)]


def _load(store: Store, count: int, *, label: str = "conformance", priority: int = 0) -> list[int]:
    """Add `count` jobs of a label, one for each problem, and return their ids."""
    problems = _problems(count)
    store.problems.add(problems, "tag")
    plans = [JobPlan(one.key, _DEVICE.name) for one in problems]
    store.jobs.add(Label(label, "me"), plans, priority=priority)
    return [job.id for job in store.jobs.find(label=label)]


def _state_counts(states: dict[JobState, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items()) or "gone"
