"""Checks that a store's rows are a possible history with each result exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, create_engine, text

from skipjack.fleet.model import JobStage, JobState, JobStatus, advance, states

_EVENTS: dict[str, type] = {
    kind.__name__.lower(): kind
    for kind in (
        *(states.Claimed, states.Built, states.Inapplicable, states.Failed, states.Lost),
        *(states.Released, states.ArtifactLost, states.Aborted, states.Resumed),
    )
}


def complaints(url: str) -> list[str]:
    """Everything that is wrong once all jobs are over; nothing if all is well."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return list(_complaints(connection))
    finally:
        engine.dispose()


def events(url: str) -> Counter[str]:
    """How often each thing happened to any job."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            rows = _rows(connection, "SELECT event, count(*) AS n FROM story GROUP BY event")
            return Counter({row.event: row.n for row in rows})
    finally:
        engine.dispose()


def _rows(connection: Connection, query: str) -> list[Any]:
    return list(connection.execute(text(query)).all())


def _complaints(connection: Connection) -> Iterator[str]:
    yield from _unfinished(connection)
    yield from _ended_more_than_once(connection)
    yield from _rounds(connection)
    yield from _trials(connection)
    yield from _stories(connection)


def _unfinished(connection: Connection) -> Iterator[str]:
    for row in _rows(
        connection,
        "SELECT id, state, stage, reason, owner FROM jobs "
        "WHERE state <> 'evaluated' OR owner IS NOT NULL OR result IS NULL",
    ):
        yield f"job {row.id} is {row.state} {row.stage or ''}, owner {row.owner}: {row.reason}"
    for row in _rows(connection, "SELECT pid, host FROM owners"):
        yield f"the lease of coordinator {row.pid} on {row.host} is left"


def _ended_more_than_once(connection: Connection) -> Iterator[str]:
    for row in _rows(
        connection,
        "SELECT j.id, count(s.id) AS n FROM jobs j LEFT JOIN story s ON s.job = j.id "
        "AND s.epoch = j.epoch AND s.after = 'evaluated' GROUP BY j.id HAVING count(s.id) <> 1",
    ):
        yield f"job {row.id} was evaluated {row.n} times"


def _rounds(connection: Connection) -> Iterator[str]:
    """One row for each stage of each round, written by the attempt in the history."""
    there: dict[int, Counter[tuple[int, int, str]]] = {}
    attempts = {}
    for row in _rows(connection, "SELECT job, epoch, round, stage, attempt FROM rounds"):
        there.setdefault(row.job, Counter())[row.epoch, row.round, row.stage] += 1
        attempts[row.job, row.epoch, row.round, row.stage] = row.attempt
    for job in _rows(connection, "SELECT id, epoch, round FROM jobs"):
        wanted = Counter(
            (job.epoch, number, str(stage)) for number in range(job.round + 1) for stage in JobStage
        )
        found = Counter(
            {key: n for key, n in there.get(job.id, Counter()).items() if key[0] == job.epoch}
        )
        if found != wanted:
            yield f"job {job.id} has rounds {sorted(found)} instead of {sorted(wanted)}"
    written = {}
    lines = "SELECT id, job, epoch, round, event, attempt FROM story ORDER BY id"
    for line in _rows(connection, lines):
        if line.event in ("built", "told"):
            stage = JobStage.BUILD if line.event == "built" else JobStage.EVALUATE
            written[line.job, line.epoch, line.round, str(stage)] = line.attempt
    for key in sorted(written.keys() | attempts.keys()):
        if written.get(key) != attempts.get(key):
            yield f"round {key} is of attempt {attempts.get(key)}, its story {written.get(key)}"


def _trials(connection: Connection) -> Iterator[str]:
    """As many trials as the budget, with equal counts everywhere, and none twice."""
    told: Counter[int] = Counter()
    configs: Counter[tuple[int, int, str, str]] = Counter()
    for row in _rows(connection, "SELECT job, epoch, study, config FROM trials"):
        told[row.job] += 1
        configs[row.job, row.epoch, row.study, row.config] += 1
    for key, times in configs.items():
        if times > 1:
            yield f"job {key[0]} was told {times} times of {key[3]}"
    by_rounds = {
        row.job: row.n
        for row in _rows(connection, "SELECT job, sum(trials) AS n FROM rounds GROUP BY job")
    }
    for job in _rows(connection, "SELECT id, budget, trials FROM jobs"):
        counted = {int(job.trials), int(by_rounds.get(job.id, 0)), told[job.id]}
        if counted != {int(job.budget)}:
            yield f"job {job.id} has trials {sorted(counted)} and a budget of {job.budget}"


def _stories(connection: Connection) -> Iterator[str]:
    """Each history is a path that `advance` accepts, from the start to the current state."""
    lines: dict[int, list[Any]] = {}
    for line in connection.execute(text("SELECT * FROM story ORDER BY id")).mappings():
        lines.setdefault(line["job"], []).append(line)
    for job in _rows(
        connection, "SELECT id, state, epoch, round, failures, losses, attempt FROM jobs"
    ):
        yield from _story(job, lines.get(job.id, []))


def _story(job: Any, lines: list[Any]) -> Iterator[str]:
    status, attempt = JobStatus(), 0
    for line in lines:
        attempt += line["event"] == "claimed"
        where = (line["before"], line["epoch"], line["round"])
        if where != (status.state, status.epoch, status.round):
            yield f"job {job.id} was {status}, then its story says {dict(line)}"
            return
        if line["attempt"] != attempt:
            yield f"job {job.id} was claimed {attempt} times, its story says {dict(line)}"
        try:
            status = advance(status, _event(line))
        except states.IllegalStepError as error:
            yield f"job {job.id}: {error}"
            return
        if line["after"] != status.state:
            yield f"job {job.id} should be {status.state}, its story says {dict(line)}"
            return
    ended = (status.state, status.epoch, status.round, status.failures, status.losses)
    stands = (JobState(job.state), job.epoch, job.round, job.failures, job.losses)
    if (*ended, attempt) != (*stands, job.attempt):
        yield f"job {job.id} stands at {(*stands, job.attempt)}, its story ends {(*ended, attempt)}"


def _event(line: Any) -> states.Event:
    if line["event"] == "told":
        return states.Told(finished=line["after"] == JobState.EVALUATED)
    kind = _EVENTS[line["event"]]
    reason = (line["reason"],) if "reason" in kind.__dataclass_fields__ else ()
    event: states.Event = kind(*reason)
    return event
