"""A fleet's database, a ledger and a bank with plausible data, made by inserts in bulk.

Every table that pages read has the rows that real work would leave: histories of jobs, rounds,
studies with what was asked and told, candidates, blocks of timings, logs and verdicts.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine

from lookup_stored import entry
from skipjack.bank import FILE_NAME as BANK
from skipjack.core import TimingProtocol
from skipjack.fleet.store import NewProblem, Store
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.schema.ledger_tables import TABLES
from skipjack.ledger import FILE_NAME as LEDGER
from skipjack.ledger import Ledger
from skipjack.storage import timestamp

DEVICES = ("znver4/1", "znver4/8", "sm_90/132", "gfx942/304", "emeraldrapids/1", "gfx90a/104")
SOLVERS = ("micro_kernel", "nest", "packed_products", "triton_matmul")
REASONS = (
    "the worker died: out of memory",
    "the compiler did not finish within 60 s",
    "no space left on device",
    "the driver does not answer",
    "the artifact is not signed with the fleet's key",
)
STATES = {
    "evaluated": 0.72,
    "new": 0.18,
    "built": 0.04,
    "error": 0.03,
    "not_applicable": 0.015,
    "aborted": 0.01,
    "evaluating": 0.003,
    "building": 0.002,
}
_MONTH_S = 30 * 86400.0
_GAIN = {"ratio": 1.51, "low": 1.41, "high": 1.61}
_PROTOCOL = TimingProtocol().key
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class DataSize:
    """How much of everything."""

    jobs: int = 100_000
    trials: int = 1_000_000
    problems: int = 20_000
    labels: int = 20
    machines: int = 60
    entries: int = 20_000

    @property
    def per_job(self) -> int:
        """Trials of an evaluated job."""
        return max(1, round(self.trials / (self.jobs * STATES["evaluated"])))


def problem_key(number: int) -> str:
    """A problem of its own for each number."""
    return f"matmul:{number % 97 + 1}x{number // 97 + 1}x512:f32"


def config(number: int) -> str:
    """A config in the canonical form of the ledger."""
    settings = {
        "block_k": 64 << (number % 4),
        "pack": bool(number % 2),
        "tile_m": 4 * (number % 5 + 1),
        "tile_n": 8 * (number // 5 % 6 + 1),
        "unroll": number // 30 % 4 + 1,
    }
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def fill_store(store: Store, size: DataSize, now: float) -> None:
    """Fill an empty store."""
    rng = np.random.default_rng(1)
    keys = [problem_key(number) for number in range(size.problems)]
    store.problems.add(
        [NewProblem(key, "matmul", "", "f32") for key in keys[: size.problems // 2]],
        "resnet50",
        source="dump",
        model="resnet50",
    )
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "all")
    known = {row.id: row.key for row in store.problems.find()}
    insert = _inserter(store)
    insert(tables.labels, _labels(size, now))
    insert(tables.devices, ({"name": name, "aborted": False, "created": now} for name in DEVICES))
    insert(tables.machines, _machines(size, now))
    insert(tables.owners, [_owner(now)])
    jobs = list(_jobs(size, now, rng, list(known)))
    insert(tables.jobs, jobs)
    insert(tables.history, _history(jobs, rng))
    insert(tables.rounds, _rounds(jobs, size))
    insert(tables.logs, _logs(jobs))
    done = [one for one in jobs if one["state"] == "evaluated"]
    for name, make in (
        ("protocols", _protocol_rows),
        ("studies", _study_rows),
        ("epochs", _epoch_rows),
        ("candidates", _candidate_rows),
        ("study_log", _log_rows),
        ("measurements", _measurement_rows),
    ):
        insert(TABLES[name], _placed(done, make, size, known))
    _settle(store.database.engine)


def _settle(engine: Engine) -> None:
    """Bring statistics up to date, and keys that were inserted."""
    if engine.dialect.name != "postgresql":
        with closing(sqlite3.connect(str(engine.url.database))) as file:
            file.execute("ANALYZE")
        return
    import psycopg

    with psycopg.connect(_address(engine), autocommit=True) as connection:
        for table in ("labels", "machines", "jobs", "story", "logs"):
            key = f"pg_get_serial_sequence('{table}', 'id')"
            connection.execute(f"SELECT setval({key}, (SELECT max(id) FROM {table}))")
        connection.execute("VACUUM ANALYZE")  # as its own daemon would have done by then


def _address(engine: Engine) -> str:
    """The address of a PostgreSQL without the part that only SQLAlchemy knows."""
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


Insert = Callable[[Any, Iterable[Mapping[str, Any]]], None]


def _inserter(store: Store) -> Insert:
    """The fastest way of the database: COPY, or one statement for many rows."""
    engine = store.database.engine

    def insert(table: Any, rows: Iterable[Mapping[str, Any]]) -> None:
        rest = iter(rows)
        first = next(rest, None)
        if first is None:
            return
        names = list(first)
        listed = ", ".join(f'"{name}"' for name in names)
        values = (tuple(row[name] for name in names) for row in _with_first(first, rest))
        if engine.dialect.name == "postgresql":
            import psycopg

            copying = f"COPY {table.name} ({listed}) FROM STDIN"
            with (
                psycopg.connect(_address(engine)) as straight,
                straight.cursor().copy(copying) as copy,
            ):
                for row in values:
                    copy.write_row(row)
            return
        marks = ", ".join("?" * len(names))
        with closing(sqlite3.connect(str(engine.url.database), isolation_level=None)) as file:
            file.execute("PRAGMA synchronous = OFF")
            file.execute("BEGIN IMMEDIATE")
            file.executemany(f"INSERT INTO {table.name} ({listed}) VALUES ({marks})", values)
            file.execute("COMMIT")

    return insert


def _with_first(
    first: Mapping[str, Any], rest: Iterator[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    yield first
    yield from rest


def _labels(size: DataSize, now: float) -> Iterator[Mapping[str, Any]]:
    for number in range(1, size.labels + 1):
        yield {
            "id": number,
            "name": f"label_{number:02}",
            "owner": f"user{number % 5}",
            "toolchain": "llvm-20",
            "versions": "skipjack 0.9, rocm 6.4",
            "image": "registry/tuning:9",
            "ticket": f"PERF-{1000 + number}",
            "created": _begin(number, size, now),
        }


def _begin(label: int, size: DataSize, now: float) -> float:
    """When a label was created: one after the other over a month."""
    return now - _MONTH_S * (size.labels + 1 - label) / (size.labels + 1)


def _machines(size: DataSize, now: float) -> Iterator[Mapping[str, Any]]:
    for number in range(1, size.machines + 1):
        yield {
            "id": number,
            "name": f"node{number:03}",
            "engine": "ray",
            "cores": 64,
            "memory_bytes": 512 << 30,
            "devices": json.dumps([DEVICES[number % len(DEVICES)]]),
            "set_aside": "5 jobs in a row failed" if number % 29 == 0 else "",
            "failures": number % 3,
            "seen": now - (number % 7) ** 4,
        }


def _owner(now: float) -> Mapping[str, Any]:
    fixed = {"host": "node001", "pid": 4242, "lease_s": 60.0}
    return {"id": "f" * 32, **fixed, "expires": now + 60.0, "created": now}


def _jobs(
    size: DataSize, now: float, rng: Any, problems: Sequence[int]
) -> Iterator[dict[str, Any]]:
    names = list(STATES)
    drawn = rng.choice(len(names), size=size.jobs, p=np.array(list(STATES.values())))
    each = size.jobs // size.labels
    for index in range(size.jobs):
        id, state = index + 1, names[drawn[index]]
        label = min(index // each + 1, size.labels)
        problem = problems[index % size.problems]
        begin = _begin(label, size, now)
        over = state in ("evaluated", "error", "not_applicable", "aborted")
        share = index % each / each
        updated = min(now - 1.0, begin + share * _MONTH_S / size.labels) if over else begin
        if state in ("building", "evaluating"):
            updated = now - 20.0
        done = state == "evaluated"
        measured = state in ("evaluated", "evaluating")
        best = 1e5 * (1.0 + rng.random())
        yield {
            "id": id,
            "label": label,
            "problem": problem,
            "device": DEVICES[index // size.problems % len(DEVICES)],
            "solver": "auto",
            "searcher": "auto",
            "budget": max(size.per_job, 1),
            "round_size": max(size.per_job, 1),
            "priority": index % 3,
            "state": state,
            "round": int(done),
            "failures": 3 if state == "error" else 0,
            "stage": "evaluate" if state == "error" else None,
            "reason": REASONS[index % len(REASONS)] if state in ("error", "not_applicable") else "",
            "resume": "new" if state == "aborted" else None,
            "owner": "f" * 32 if state in ("building", "evaluating") else None,
            "attempt": 2 if done else 0,
            "device_record": "{" + '"x":"' + "r" * 500 + '"}' if done else None,
            "build_machine": index % size.machines + 1 if state != "new" else None,
            "eval_machine": index * 7 % size.machines + 1 if measured else None,
            "gpu": str(index % 8) if measured else "",
            "trials": size.per_job if done else 0,
            "failed_trials": size.per_job // 10 if done else 0,
            "best_ns": best if done else None,
            "first_ns": best * (1.2 + rng.random()) if done else None,
            "result": _verdict(index, best) if done else None,
            "toolchain": "llvm-20" if done else "",
            "created": begin,
            "updated": updated,
            "device_seconds": 5.0 if done else 0.0,
            "calls": float(index % 100),
        }


def _verdict(index: int, best: float) -> str:
    record = {
        "status": "banked",
        "solver": SOLVERS[index % len(SOLVERS)],
        "config": json.loads(config(index)),
        "time_ns": best,
        "speedup": 1.5,
        "vendor": "numpy",
        "vendor_ns": best * 1.4,
        "gains": {"default": _GAIN, "vendor": _GAIN},
        "evidence": {"alpha": 0.01, "samples": 120, "ties": [json.loads(config(index + 1))] * 4},
    }
    return json.dumps(record)


_EVENTS = (
    ("claimed", "new", "building", 0.6),
    ("built", "building", "built", 0.5),
    ("claimed", "built", "evaluating", 0.2),
    ("told", "evaluating", "evaluated", 0.0),
)


def _history(jobs: Sequence[Mapping[str, Any]], rng: Any) -> Iterator[Mapping[str, Any]]:
    lines = []
    for job in jobs:
        over = job["state"] in ("evaluated", "error")
        steps: Sequence[tuple[str, str, str, float]]
        steps = _EVENTS if over else _EVENTS[:2] if job["state"] == "built" else ()
        if job["state"] == "error":
            steps = (*_EVENTS[:3], ("failed", "evaluating", "error", 0.0))
        if job["state"] in ("building", "evaluating"):
            steps = _EVENTS[:1] if job["state"] == "building" else _EVENTS[:3]
        took = 30.0 + 600.0 * rng.random()
        for event, before, after, share in steps:
            at = max(job["created"], job["updated"] - share * took)
            lines.append((at, job, event, before, after))
    lines.sort(key=lambda line: line[0])
    for number, (at, job, event, before, after) in enumerate(lines, 1):
        yield {
            "id": number,
            "job": job["id"],
            "at": at,
            "event": event,
            "before": before,
            "after": after,
            "epoch": 0,
            "round": 0,
            "attempt": 1,
            "machine": job["build_machine"],
            "gpu": "",
            "reason": job["reason"] if event == "failed" else "",
        }


def _rounds(jobs: Sequence[Mapping[str, Any]], size: DataSize) -> Iterator[Mapping[str, Any]]:
    for job in jobs:
        for stage in ("build", "evaluate") if job["state"] == "evaluated" else ():
            told = stage == "evaluate"
            yield {
                "job": job["id"],
                "epoch": 0,
                "round": 0,
                "stage": stage,
                "digests": json.dumps(["ab" * 32] * 3),
                "trials": size.per_job if told else 0,
                "failed_trials": size.per_job // 10 if told else 0,
                "best_ns": job["best_ns"] if told else None,
                "attempt": 1,
                "machine": job["build_machine"],
                "created": job["updated"],
                "device_seconds": 5.0 if told else 0.0,
            }


def _logs(jobs: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    text = "".join(f"{number:04} built a candidate in 0.21 s\n" for number in range(40))
    for job in islice((one for one in jobs if one["state"] == "evaluated"), 0, None, 5):
        yield {
            "job": job["id"],
            "stage": "evaluate",
            "epoch": 0,
            "round": 0,
            "attempt": 1,
            "machine": job["eval_machine"],
            "text": text,
            "created": job["updated"],
        }


# The rows of the ledger, for jobs and for a ledger of its own.


@dataclass(frozen=True, slots=True)
class _Search:
    number: int
    problem: str
    device: str
    created: str
    trials: int

    @property
    def study(self) -> str:
        return f"{self.number:032x}"

    @property
    def device_class(self) -> str:
        return f"cpu:{self.device}:0123456789ab"


Make = Callable[[_Search], Iterator[dict[str, Any]]]


def _placed(
    jobs: Sequence[Mapping[str, Any]],
    make: Make,
    size: DataSize,
    keys: Mapping[int, str],
) -> Iterator[Mapping[str, Any]]:
    for job in jobs:
        key = keys[job["problem"]]
        created = timestamp(datetime.fromtimestamp(job["updated"], UTC))
        search = _Search(job["id"], key, job["device"], created, size.per_job)
        place = {"job": job["id"], "job_epoch": 0, "round": 0, "stage": "evaluate"}
        for number, row in enumerate(make(search)):
            yield {**place, "place": number, **row}


def _protocol_rows(search: _Search) -> Iterator[dict[str, Any]]:
    yield {"id": "0" * 32, "text": _PROTOCOL, "created": search.created}


def _study_rows(search: _Search) -> Iterator[dict[str, Any]]:
    yield {
        "id": search.study,
        "problem": search.problem,
        "solver": SOLVERS[search.number % len(SOLVERS)],
        "device": search.device_class,
        "searcher": "genetic",
        "seed": "0",
        "space": f"parameters:{search.number % 7}:{search.number % 3}",
        "objective": "time_ns:min",
        "protocol": "0" * 32,
        "created": search.created,
    }


def _epoch_rows(search: _Search) -> Iterator[dict[str, Any]]:
    fixed = {"study": search.study, "solver_version": 1, "number": 0}
    yield {**fixed, "created": search.created}


def _candidate_rows(search: _Search) -> Iterator[dict[str, Any]]:
    for number in range(search.trials):
        yield {
            "id": f"{search.number:024x}{number:08x}",
            "problem": search.problem,
            "solver": SOLVERS[search.number % len(SOLVERS)],
            "solver_version": search.number,
            "config": config(search.number * 7 + number),
            "created": search.created,
        }


def _log_rows(search: _Search) -> Iterator[dict[str, Any]]:
    for number in range(2 * search.trials):
        told, trial = number % 2 == 1, number // 2
        failed = (search.number + trial) % 10 == 0
        value = 1e5 + (search.number * 7919 + trial * 104729) % 100_000
        yield {
            "id": f"{search.number:024x}{number:08x}",
            "study": search.study,
            "solver_version": 1,
            "epoch": 0,
            "seq": number + 1,
            "kind": "tell" if told else "ask",
            "config": config(search.number * 7 + trial),
            "status": ("build_error" if failed else "ok") if told else None,
            "value": None if failed or not told else value,
            "spread": 0.01 if told else None,
            "reason": "the register tile does not fit" if told and failed else "" if told else None,
            "metrics": f'{{"time_ns":{value}}}' if told and not failed else "{}" if told else None,
            "created": search.created,
        }


def _measurement_rows(search: _Search) -> Iterator[dict[str, Any]]:
    for number in range(search.trials):
        value = 1e5 + (search.number * 7919 + number * 104729) % 100_000
        samples = [value * (1.0 + 0.01 * (place % 5)) for place in range(7)]
        yield {
            "id": f"{search.number:024x}{number:08x}",
            "candidate": f"{search.number:024x}{number:08x}",
            "source_digest": "cd" * 32,
            "device_instance": f"{search.device_class}:serial",
            "device_class": search.device_class,
            "protocol": "0" * 32,
            "session": f"s{search.number}",
            "block": number,
            "metrics": json.dumps({"time_ns": {"samples": samples, "unit": "ns"}}),
            "sentinel_ns": 1e4,
            "disturbed": number % 4,
            "details": None,
            "status": "ok",
            "created": search.created,
            "reason": "",
            "seq": search.number * 100_000 + number,
        }


def fill_ledger(directory: Path, size: DataSize, now: float) -> None:
    """Fill an empty ledger: searches of 32 trials."""
    with Ledger.open(directory):
        pass
    count = max(1, size.trials // 32)
    searches = [
        _Search(
            number + 1,
            problem_key(number % size.problems),
            DEVICES[number % len(DEVICES)],
            timestamp(datetime.fromtimestamp(now - _MONTH_S * (count - number) / count, UTC)),
            32,
        )
        for number in range(count)
    ]
    with closing(sqlite3.connect(directory / LEDGER, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for name, make in (
            ("protocols", None),
            ("studies", _study_rows),
            ("epochs", _epoch_rows),
            ("candidates", _candidate_rows),
            ("study_log", _log_rows),
            ("measurements", _measurement_rows),
            ("builds", _build_rows),
        ):
            made = searches[:1] if make is None else searches
            rows = (row for one in made for row in (make or _protocol_rows)(one))
            _into(connection, name, rows)
        connection.execute("COMMIT")
        connection.execute("ANALYZE")


def _build_rows(search: _Search) -> Iterator[dict[str, Any]]:
    for number in range(8):
        failed = (search.number + number) % 10 == 0
        yield {
            "id": f"{search.number:024x}{number:08x}",
            "source_digest": f"{search.number:056x}{number:08x}",
            "compat": "cpu:v4",
            "status": "build_error" if failed else "ok",
            "artifact_digest": None if failed else f"{search.number:056x}{number:08x}",
            "symbol": "kernel",
            "abi": "slots",
            "reason": REASONS[search.number % 2] if failed else "",
            "seconds": 0.2,
            "resources": "{}",
            "compiler": "llvm-20",
            "target": "znver4",
            "created": search.created,
        }


def _into(connection: sqlite3.Connection, table: str, rows: Iterator[dict[str, Any]]) -> None:
    first = next(rows)
    marks = ", ".join("?" * len(first))
    connection.executemany(
        f"INSERT INTO {table} ({', '.join(first)}) VALUES ({marks})",
        (tuple(row.values()) for row in _with_first(first, rows)),
    )


def fill_bank(directory: Path, size: DataSize) -> None:
    """Write a bank with an entry for each of the first problems."""
    lines = [
        replace(entry(number), problem=problem_key(number)).line for number in range(size.entries)
    ]
    (directory / BANK).write_text("".join(f"{line}\n" for line in sorted(lines)))
