"""The peer of `bench/fleet.py`: the same flow on Celery with Redis, as Tuna has it.

An enqueuer claims jobs from the database and sends a Celery task for each; a worker runs it and
leaves its result in Redis; a collector finds results there and commits them to the database.
Enqueuer, worker, collector, Redis and the database are processes of their own.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fleet_flow import Flow
from peers.celery_tables import PREFIX, Row, keep, load, open_database
from skipjack.errors import SkipjackError
from skipjack.testing.servers import free_port

_PEERS = Path(__file__).resolve().parent / "peers"
_PATIENCE_S = 60.0
_NAP_S = 0.002
"""Between two looks at Redis that found nothing. Tuna sleeps for a second after each."""


def missing() -> str:
    """What the peer needs and is not here; empty if all is."""
    lacking = [name for name in ("celery", "redis") if importlib.util.find_spec(name) is None]
    if lacking:
        return f"{' and '.join(lacking)} cannot be imported; pip install celery redis"
    return "" if shutil.which("redis-server") else "redis-server is not installed"


@dataclass(frozen=True, slots=True)
class Way:
    """How results come back, and which pool the worker has."""

    scanning: bool
    """Tuna looks for results with SCAN, GET and DELETE; otherwise Celery's own `get` waits."""
    pool: str
    """``prefork`` is what Tuna has; ``solo`` saves a pipe between two processes."""


WAYS = {"tuna": Way(True, "prefork"), "get": Way(False, "solo")}


class CeleryFlow:
    """Redis, a worker and an enqueuer, ready for jobs; a context manager."""

    def __init__(self, url: str, way: Way) -> None:
        self._url, self._way = url, way
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> CeleryFlow:
        try:
            self._begin()
        except BaseException:
            self._opened.close()
            raise
        return self

    def __exit__(self, *about: object) -> None:
        self._opened.close()

    def _begin(self) -> None:
        folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="celery-")))
        port = free_port()
        where = f"redis://127.0.0.1:{port}"
        self._variables = {"BENCH_REDIS": where, "PYTHONPATH": str(_PEERS)}
        no_files = ("--save", "", "--appendonly", "no", "--dir", str(folder))
        redis_server = ("redis-server", "--port", str(port), "--bind", "127.0.0.1", *no_files)
        self._start(redis_server, folder / "redis.log")
        celery: Any = importlib.import_module("celery")
        redis: Any = importlib.import_module("redis")
        self._redis = redis.Redis(port=port, db=15)
        self._celery = celery.Celery("collector", broker=f"{where}/0", backend=f"{where}/15")
        _until(self._redis.ping, "Redis")
        pool = ("--pool", self._way.pool, "--concurrency", "1")
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "warning")
        worker = ("-m", "celery", "-A", "celery_app", "worker", *pool, *quiet)
        self._start((sys.executable, *worker), folder / "worker.log")
        enqueuer = (sys.executable, str(_PEERS / "celery_enqueue.py"), self._url)
        self._enqueuer = self._start(enqueuer, folder / "enqueuer.log")
        self._answer()
        self._engine = open_database(self._url)
        self._opened.callback(self._engine.dispose)
        self.flow(20, 1)

    def _start(self, command: Iterable[str], log: Path) -> subprocess.Popen[str]:
        said: IO[str] = self._opened.enter_context(log.open("w"))
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if "enqueue" in log.name else said,
            stderr=said,
            text=True,
            env=os.environ | self._variables,
        )
        self._opened.callback(_end, process)
        return process

    def _answer(self) -> str:
        assert self._enqueuer.stdout
        line = self._enqueuer.stdout.readline()
        if not line:
            raise SkipjackError("the enqueuer of the Celery flow ended")
        return line

    def _tell(self, line: str) -> None:
        assert self._enqueuer.stdin
        self._enqueuer.stdin.write(line)
        self._enqueuer.stdin.flush()

    def flow(self, jobs: int, batch: int, ahead: int = 0) -> Flow:
        """Evaluate so many jobs; at most `ahead` under way at once, 0: any number."""
        with self._engine.begin() as connection:
            label = load(connection, jobs)
        first = int(label.rpartition("_")[2])
        self._tell(f"{label} {batch} {ahead}\n")
        found = self._scanned() if self._way.scanning else self._waited(range(first, first + jobs))
        kept = 0
        for some in _batches(found, batch, jobs):
            with self._engine.begin() as connection:
                keep(connection, some)
            kept += len(some)
            if ahead:
                self._tell(f"{len(some)}\n")
        ended = time.perf_counter()
        return Flow(kept, ended - float(self._answer()))

    def _scanned(self) -> Iterator[Row | None]:
        """Results as they are found in Redis; None where there are no more for now."""
        prefix = f"celery-task-meta-{PREFIX}*"
        while True:
            for key in self._redis.scan_iter(match=prefix, count=1000):
                meta = json.loads(self._redis.get(key))
                self._redis.delete(key)
                yield meta["result"]
            yield None

    def _waited(self, ids: Iterable[int]) -> Iterator[Row | None]:
        """Results in the order of their jobs, each waited for."""
        for id in ids:
            result = self._celery.AsyncResult(f"{PREFIX}{id}")
            if not result.ready():
                yield None
            yield result.get(timeout=_PATIENCE_S)
            result.forget()


def _batches(found: Iterator[Row | None], most: int, jobs: int) -> Iterator[list[Row]]:
    """Results as they are to be committed: full batches, and what there is before a pause."""
    some: list[Row] = []
    done = 0
    deadline = time.monotonic() + _PATIENCE_S
    while done < jobs:
        one = next(found, None)
        if one is not None:
            some.append(one)
        elif not some:
            time.sleep(_NAP_S)
        if len(some) == most or (one is None and some):
            done += len(some)
            deadline = time.monotonic() + _PATIENCE_S
            yield some
            some = []
        if time.monotonic() > deadline:
            raise SkipjackError(f"the Celery flow stands still with {done} of {jobs} jobs done")


def _until(answers: Any, name: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            answers()
        except Exception:
            if time.monotonic() > deadline:
                raise SkipjackError(f"{name} did not start within {_PATIENCE_S:g} s") from None
            time.sleep(0.05)
        else:
            return


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
