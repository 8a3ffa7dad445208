"""SQLite files, ours and others', with bytes changed; and rows that travel as text."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mutations import altered
from reader import Reader, of_bytes, of_file

if TYPE_CHECKING:
    from skipjack.core import Study
    from skipjack.fleet.model import Task
    from skipjack.ledger import Ledger

KEY = bytes(range(32))
CODE = b"machine code" * 9
_PAGE_BYTES = 512
_HEADER_BYTES = 100


def spoilt(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed with a few bytes changed in their places, rarely cut off: pages stay in theirs."""
    data = bytearray(source.choice(seeds))
    for _ in range(source.choice((1, 1, 1, 2, 4, 16))):
        ranges = (_HEADER_BYTES, len(data) // 2, len(data), len(data), len(data))
        at = source.randrange(source.choice(ranges))
        data[at] = source.choice((0xFF, 0, 0x7F, 0x80, source.randrange(256), data[at] ^ 1))
    if source.random() < 0.05:
        del data[source.randrange(len(data)) :]
    return bytes(data)


def _small(make: Callable[[Path], object]) -> Callable[[], Sequence[bytes]]:
    """A file as bytes, with pages so small that few of its bytes mean nothing."""

    @cache
    def seeds() -> Sequence[bytes]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "seed"
            make(path)
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
                connection.execute("VACUUM")
            return [path.read_bytes()]

    return seeds


# MIOpen's


def _make_perf(path: Path) -> object:
    from skipjack.interop.miopen import DatabaseRecord, RecordItem, write_perf_sqlite

    key = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32x"
    items = [RecordItem("ConvA", "8,8"), RecordItem("ConvB", "")]
    return write_perf_sqlite(
        path, [DatabaseRecord(f"{key}F", items), DatabaseRecord(f"{key}B", items)]
    )


def _make_kernels(path: Path) -> object:
    from skipjack.interop.miopen import KernelRow, write_kernel_db

    return write_kernel_db(path, [KernelRow("a.o", "", CODE), KernelRow("b.o", "-mcpu", b"\0")])


def _check(path: Path) -> object:
    from skipjack.interop.miopen import check_paths

    return check_paths([path])


def _convert(path: Path) -> object:
    from skipjack.interop.miopen import convert

    return convert(path, path.with_name("out.jsonl"))


# Ours


def _study() -> Study:
    from skipjack.core import Study
    from skipjack.operations import parse

    return Study(parse("matmul:8x8x8:f32"), "loops", "cpu:znver4/1", "random", 7)


def _fill(ledger: Ledger) -> None:
    from skipjack.core import Config, Device, Status, Trial
    from skipjack.ledger import (
        BuildRecord,
        CandidateKey,
        DecisionRecord,
        MarkKind,
        MarkRecord,
        MeasurementRecord,
        MetricSamples,
    )

    study, config = _study(), Config(tile=8)
    timed = {"time_ns": MetricSamples("ns", (1.0, 2.5))}
    candidate = CandidateKey("matmul:8x8x8:f32", "loops", 1, config.key)
    ledger.add_device(Device("cpu", "znver4", 1, caches=(("L1", 32768),)))
    ledger.start_study(study, 1)
    ledger.log_ask(study.id, config)
    ledger.log_tells(study.id, [Trial(config, value=2.5, metrics={"rate": 1.5, "w": "x"})])
    ledger.add_build(BuildRecord("source", "c", Status.OK, "artifact"), candidate)
    ledger.add_measurements(
        [MeasurementRecord(candidate, None, "i", "c", study.protocol.key, "s", 0, timed)]
    )
    ledger.add_mark(
        MarkRecord(MarkKind.FORGET, "failures", candidate.problem, "loops", 1, None, "i", "c", "s")
    )
    ledger.add_decision(
        DecisionRecord(study.id, candidate.problem, "c", "loops", config, "banked", {"a": 1})
    )


def _make_ledger(path: Path) -> object:
    from skipjack.ledger import Ledger

    with Ledger.open(path.parent / "made") as ledger:
        _fill(ledger)
    return shutil.copyfile(ledger.path, path)


def _use_ledger(ledger: Ledger) -> object:
    from skipjack.core import Config, Trial

    study = _study()
    record = ledger.start_study(study, 1)
    ledger.log_tells(study.id, [Trial(Config(tile=9), value=1.0)])
    found = (ledger.studies(), ledger.log(study.id), ledger.devices(), ledger.decisions())
    key = "matmul:8x8x8:f32"
    measured = (ledger.measurements(key), ledger.marks(key))
    more = (ledger.banked("matmul"), ledger.summary(), ledger.find_source("source", "c"))
    return record, found, measured, more


def _emptied(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


def _own_ledger(data: bytes, directory: Path) -> object:
    from skipjack.ledger import Ledger

    place = _emptied(directory / "own")
    (place / "ledger.sqlite").write_bytes(data)
    with Ledger.open(place) as ledger:
        return _use_ledger(ledger)


def _merged_ledger(data: bytes, directory: Path) -> object:
    from skipjack.ledger import Ledger

    place = _emptied(directory / "mine")
    (place / "other.sqlite").write_bytes(data)
    with Ledger.open(place) as ledger:
        return ledger.merge(place / "other.sqlite"), _use_ledger(ledger)


def _facts(data: bytes) -> object:
    from skipjack.ledger import Ledger

    with Ledger.in_memory() as ledger:
        return ledger.add_facts(data.decode(errors="replace")), _use_ledger(ledger)


@cache
def _some_facts() -> Sequence[bytes]:
    from skipjack.ledger import Ledger

    with Ledger.in_memory() as ledger:
        before = ledger.snapshot()
        _fill(ledger)
        return [ledger.facts_since(before).encode()]


def _make_our_kernels(path: Path) -> object:
    from skipjack.bank import KernelRecord, write_kernel_db

    digest = hashlib.sha256(CODE).hexdigest()
    words = ("add:8", "cpu/1", "c", "nest", 1, {"tile": 8}, digest, "kernel", "abi")
    return write_kernel_db(path, [(KernelRecord(*words, slots=(1, "a"), time_ns=5.0), CODE)])


def _our_kernels(path: Path) -> object:
    from skipjack.bank import KernelDb

    with KernelDb.open(path) as database:
        found = database.find("add:8", "cpu/1", "c"), database.devices("add:8")
        return found, [database.code(record) for record in database.records()]


def _make_store(path: Path) -> object:
    from skipjack.fleet.store import open_store

    with open_store(f"sqlite:///{path}") as store:
        return store.machines.all()


def _own_store(data: bytes, directory: Path) -> object:
    from skipjack.fleet.store import open_store

    path = _emptied(directory / "store") / "fleet.sqlite"
    path.write_bytes(data)
    with open_store(f"sqlite:///{path}") as store:
        return store.labels.all(), store.machines.all()


# Bundles


def _task() -> Task:
    from skipjack.core import Device
    from skipjack.fleet.model import JobPlan, JobStage, PriorResult, Task

    device = Device("cpu", "znver4", 1, features=("avx2",), caches=(("L1", 32768),))
    digest = hashlib.sha256(CODE).hexdigest()
    plan = JobPlan("matmul:8x8x8:f32", device.name)
    known = (PriorResult("nest", {"tile": 8}, 1),)
    return Task(1, JobStage.EVALUATE, plan, device, 0, 0, ("{}",), {digest: CODE}, 2, known)


class _Sealed:
    """A bundle that holds one entry and its machine code, as if it were sealed with the key."""

    path = Path("x.skj")

    def __init__(self, body: bytes) -> None:
        self._body = body

    def names(self, kind: str) -> list[str]:
        """Of the only entry."""
        return ["1"]

    def body(self, kind: str, name: str) -> bytes:
        """What it holds."""
        from skipjack.errors import StorageError

        if kind != "artifact":
            return self._body
        found = _task().artifacts.get(name)
        if found is None:
            raise StorageError("missing")
        return found


def _task_entry() -> bytes:
    from skipjack.fleet.bundle.format import BundledTask

    return BundledTask(_task(), 3).entry().body


def _outcome_entry() -> bytes:
    from skipjack.fleet.bundle.format import BundledOutcome
    from skipjack.fleet.model import Host, TaskOutcome

    task = _task()
    outcome = TaskOutcome(1, task.stage, True, facts="{}", trials=3, best_ns=1.5, result={"a": 1})
    host = Host("bench7", 8, 1 << 30, (task.device,))
    return BundledOutcome(outcome, 0, 0, 1, host, "", "2025", 1.0).entries()[-1].body


def _make_bundle(path: Path) -> object:
    from skipjack.fleet.bundle.format import (
        Bundle,
        BundledTask,
        BundleKind,
        BundleManifest,
        artifact_entries,
    )
    from skipjack.fleet.signature import fingerprint

    task = _task()
    manifest = BundleManifest(BundleKind.JOBS, "l", "s", fingerprint(KEY))
    with Bundle.create(path, manifest, KEY) as bundle:
        bundle.append([*artifact_entries(task.artifacts.items()), BundledTask(task, 3).entry()])
        return bundle


def _sealed_bundle(path: Path) -> object:
    from skipjack.fleet.bundle.format import Bundle, read_task, task_summaries

    with Bundle.open(path, KEY) as bundle:
        return [read_task(bundle, one.job) for one in task_summaries(bundle)]


def _task_body(data: bytes) -> object:
    from skipjack.fleet.bundle.format import read_task, task_summaries

    bundle: Any = _Sealed(data)
    return [read_task(bundle, one.job) for one in task_summaries(bundle)]


def _outcome_body(data: bytes) -> object:
    from skipjack.fleet.bundle.format import EntryKind, jobs_with, read_outcome

    bundle: Any = _Sealed(data)
    return [read_outcome(bundle, job) for job in jobs_with(bundle, EntryKind.OUTCOME)]


def odd_facts(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Rows of ledgers with values exchanged."""
    value: Any = json.loads(source.choice(seeds))
    for _ in range(source.choice((1, 1, 2))):
        value = altered(source, value)
    return json.dumps(value).encode()


READERS = (
    Reader("perf-db", of_file("x.db", _check), _small(_make_perf), 200, spoilt),
    Reader("perf-db, converted", of_file("x.db", _convert), _small(_make_perf), 100, spoilt),
    Reader("kernel-db", of_file("gfx908.kdb", _check), _small(_make_kernels), 200, spoilt),
    Reader(
        "kernel-db, converted", of_file("gfx908.kdb", _convert), _small(_make_kernels), 100, spoilt
    ),
    Reader("own ledger", _own_ledger, _small(_make_ledger), 60, spoilt),
    Reader("merged ledger", _merged_ledger, _small(_make_ledger), 60, spoilt),
    Reader("facts", of_bytes(_facts), _some_facts, 150),
    Reader("facts with odd values", of_bytes(_facts), _some_facts, 150, odd_facts),
    Reader("kernel file", of_file("x.skk", _our_kernels), _small(_make_our_kernels), 300, spoilt),
    Reader("store", _own_store, _small(_make_store), 20, spoilt),
    Reader("bundle", of_file("x.skj", _sealed_bundle), _small(_make_bundle), 300, spoilt),
    Reader("task of a bundle", of_bytes(_task_body), lambda: [_task_entry()], 500),
    Reader("outcome of a bundle", of_bytes(_outcome_body), lambda: [_outcome_entry()], 500),
)
