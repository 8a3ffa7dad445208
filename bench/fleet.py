"""Jobs per second through claim, run (an empty kernel) and result, on each store and on Celery.

Everything is committed before it is acknowledged: fsync is on, SQLite is ``synchronous = FULL``. A
batch is what is claimed, and committed, at once. Stores take turns with the same flow on Celery and
Redis as Tuna has it (`fleet_celery`), whose database is PostgreSQL too. Our coordinator has two
batches under way; Tuna's enqueuer sends all there is, which is kinder to it; ``in turn`` it waits.
Writes ``bench/results/fleet_<arch>.json``. Part of ``make bench-fleet``.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fleet_celery
from fleet_flow import Fleet, Flow
from fleet_record import Record, in_words, spread, write
from fleet_stand_in import importable_in_workers, make_empty
from skipjack.fleet.engines import LocalEngine
from skipjack.settings import Settings
from skipjack.testing.servers import MariaDB, NotInstalledError, PostgreSQL, Server

_BATCHES = (1, 32)
_GOALS = {1: 1.0, 32: 5.0}
_PEER = "celery as tuna"


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that jobs flow through."""

    name: str
    flow: Callable[[int, int], Flow]
    jobs: dict[int, int]
    """How many of them in a run, by batch: about a second's work."""


class Stand:
    """Servers and workers of all contenders, each as it is wanted, all ended together."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._opened = contextlib.ExitStack()
        self._servers: dict[type[Server], Server] = {}
        self._peers: dict[str, fleet_celery.CeleryFlow] = {}
        self.skipped: dict[str, str] = {}

    def contenders(self) -> list[Contender]:
        """All that can be had here; why others cannot is in `skipped`."""
        makers: dict[str, Callable[[str], Contender]] = {
            "sqlite": self._on_sqlite,
            "postgresql": lambda name: self._ours(name, self._server(PostgreSQL).fresh()),
            _PEER: lambda name: self._celery(name, "tuna"),
            "celery in turn": self._celery_in_turn,
            "celery, get": lambda name: self._celery(name, "get"),
            "mariadb": lambda name: self._ours(name, self._server(MariaDB).fresh()),
        }
        found = []
        for name, make in makers.items():
            try:
                found.append(make(name))
            except NotInstalledError as error:
                self.skipped[name] = str(error)
                print(f"{name} is left out: {error}")
        return found

    def close(self) -> None:
        """End everything."""
        self._opened.close()

    def _server(self, kind: type[Server]) -> Server:
        if kind not in self._servers:
            self._servers[kind] = kind(durable=True)
            self._opened.callback(self._servers[kind].close)
        return self._servers[kind]

    def _on_sqlite(self, name: str) -> Contender:
        return self._ours(name, f"sqlite:///{self._home / 'fleet.sqlite'}")

    def _ours(self, name: str, url: str) -> Contender:
        settings = Settings(self._home)
        engine = self._opened.enter_context(LocalEngine(settings, 0, 1, make_worker=make_empty))
        fleet = Fleet(url, engine, settings)
        self._opened.callback(fleet.close)
        return Contender(name, fleet.flow, {1: 120, 32: 960})

    def _celery(self, name: str, way: str) -> Contender:
        return Contender(name, self._peer(way).flow, {1: 120, 32: 320})

    def _celery_in_turn(self, name: str) -> Contender:
        flow = self._peer("tuna").flow
        return Contender(name, lambda jobs, batch: flow(jobs, batch, batch), {1: 120, 32: 320})

    def _peer(self, way: str) -> fleet_celery.CeleryFlow:
        if lacking := fleet_celery.missing():
            raise NotInstalledError(lacking)
        if way not in self._peers:
            url = self._server(PostgreSQL).fresh()
            flow = fleet_celery.CeleryFlow(url, fleet_celery.WAYS[way])
            self._peers[way] = self._opened.enter_context(flow)
        return self._peers[way]


def measure(contenders: list[Contender], repeats: int, share: float) -> Record:
    """Jobs per second of each contender and batch, in turns."""
    speeds: dict[str, dict[int, list[float]]] = {
        one.name: {batch: [] for batch in _BATCHES} for one in contenders
    }
    for one in contenders:
        one.flow(64, 32)  # workers are there, statements are known
    for _ in range(repeats):
        for batch in _BATCHES:
            for one in contenders:
                flow = one.flow(max(batch, round(share * one.jobs[batch])), batch)
                speeds[one.name][batch].append(flow.jobs_per_s)
                print(f"{one.name:16} batch {batch:2}: {flow.jobs_per_s:8.1f} jobs/s", flush=True)
    return {
        "jobs_per_s": {
            name: {str(batch): spread(values, 1) for batch, values in of.items()}
            for name, of in speeds.items()
        },
        "ratios": _ratios(speeds),
    }


def _ratios(speeds: dict[str, dict[int, list[float]]]) -> Record:
    """Each store beside each way of Celery, run by run."""
    peers = [name for name in speeds if name.startswith("celery")]
    return {
        f"{name} / {peer}": {
            str(batch): spread(
                [a / b for a, b in zip(speeds[name][batch], speeds[peer][batch], strict=True)]
            )
            for batch in _BATCHES
        }
        for peer in peers
        for name in speeds
        if name not in peers
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="an impression, nothing is kept")
    options = parser.parse_args()
    importable_in_workers()
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        stand = Stand(Path(directory))
        try:
            share, repeats = (0.2, 1) if options.quick else (1.0, options.repeats)
            found = measure(stand.contenders(), repeats, share)
        finally:
            stand.close()
    for pair, ratios in found["ratios"].items():
        print(f"{pair:32}", *(f"batch {batch}: {in_words(ratios[batch])}" for batch in ratios))
    goal = f"postgresql / {_PEER}"
    for batch, least in _GOALS.items():
        if goal in found["ratios"]:
            median = found["ratios"][goal][str(batch)]["median"]
            met = "met" if median >= least else "NOT met"
            print(f"goal at batch {batch}: at least {least:g}, {met}")
    if not options.quick:
        write("fleet", found | {"skipped": stand.skipped})


if __name__ == "__main__":
    main()
