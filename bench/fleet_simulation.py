"""A thousand virtual devices on a real PostgreSQL: which share of the time are they busy?

Coordinators and the store are the real ones; devices only wait, as long as recorded jobs of 100
trials took (`fleet_durations`). Every job's facts and log are those of a real job
(`fleet_template`): its build is in the store before, its evaluation is written. Machine code is
left out, and so are builders. Writes ``bench/results/fleet_simulation_<arch>.json``. Part of ``make
bench-fleet``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fleet_durations
from fleet_engine import PER_HOST, VirtualDevices, Window
from fleet_flow import built_jobs
from fleet_record import Record, write
from fleet_template import Template, real_job
from skipjack.fleet.model import JobStage
from skipjack.fleet.run import Coordinator, RunRequest
from skipjack.fleet.store import open_store
from skipjack.interrupt import Interrupt
from skipjack.native import cpu
from skipjack.testing.servers import PostgreSQL

_WARM_UP_S = 9.0
_BUILT_AT_ONCE = 100
GOAL = 0.95


@dataclass(frozen=True, slots=True)
class Share:
    """What one coordinator has to do."""

    url: str
    label: str
    template: str
    """The file of the outcomes."""
    first_device: int
    devices: int
    begins: float
    ends: float


def coordinate(share: Share) -> Record:
    """Be a coordinator with virtual devices until the window is over."""
    interrupt = Interrupt()
    engine = VirtualDevices(
        share.first_device // PER_HOST,
        share.devices,
        cpu.detect(1),
        Template.load(Path(share.template)).told,
        Window(share.begins, share.ends),
        interrupt,
        np.random.default_rng(share.first_device),
    )
    with open_store(share.url) as store:
        request = RunRequest(share.label, (JobStage.EVALUATE,), wait=True)
        summary = Coordinator(store.queue, engine, request).run(interrupt)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "busy_s": engine.busy_s,
        "jobs": engine.done,
        "refused": summary.refused,
        "processor_s": used.ru_utime + used.ru_stime,
    }


class Simulation:
    """A server with enough built jobs, and as many coordinators as wanted."""

    def __init__(self, home: Path, template: Template) -> None:
        self._home, self._template = home, home / "template.json"
        template.save(self._template)
        self._built = template.built
        self._server = PostgreSQL(durable=True)

    def run(self, devices: int, coordinators: int, seconds: float) -> Record:
        """The share of the time that so many devices are busy."""
        url = self._server.fresh()
        watched_s = _WARM_UP_S + seconds
        mean_s = float(np.mean(fleet_durations.load()))
        jobs = round(1.05 * devices * watched_s / mean_s + 3 * devices)
        print(f"building {jobs} jobs for {devices} devices", flush=True)
        with open_store(url) as store:
            label = built_jobs(store, jobs, cpu.detect(1), self._built, _BUILT_AT_ONCE)
        before = self._server_s()
        shares = self._shares(url, label, devices, coordinators, watched_s)
        found = self._coordinate(shares)
        busy = sum(one["busy_s"] for one in found) / (devices * seconds)
        done = sum(one["jobs"] for one in found)
        ran_s = watched_s + _WARM_UP_S / 3
        return {
            "devices": devices,
            "coordinators": coordinators,
            "seconds": seconds,
            "busy": round(busy, 4),
            "jobs_per_s": round(done / seconds, 1),
            "coordinator_cores": [round(one["processor_s"] / ran_s, 2) for one in found],
            "server_cores": round((self._server_s() - before) / ran_s, 2),
            "refused": sum(one["refused"] for one in found),
        }

    def _shares(
        self, url: str, label: str, devices: int, coordinators: int, watched_s: float
    ) -> list[Share]:
        ends = time.monotonic() + _WARM_UP_S / 3 + watched_s
        begins = ends - watched_s + _WARM_UP_S
        hosts = -(-devices // PER_HOST)
        borders = [PER_HOST * (hosts * at // coordinators) for at in range(coordinators)]
        sizes = np.diff([*borders, devices])
        return [
            Share(url, label, str(self._template), first, int(size), begins, ends)
            for first, size in zip(borders, sizes, strict=True)
        ]

    def _coordinate(self, shares: list[Share]) -> list[Record]:
        started = [
            subprocess.Popen(
                [sys.executable, __file__, "--share", json.dumps(_fields(share))],
                stdout=subprocess.PIPE,
                text=True,
            )
            for share in shares
        ]
        said = [process.communicate()[0] for process in started]
        return [json.loads(text) for text in said]

    def _server_s(self) -> float:
        return self._server.processor_s()

    def close(self) -> None:
        """End the server."""
        self._server.close()


def _fields(share: Share) -> Record:
    return {name: getattr(share, name) for name in Share.__slots__}


def main() -> None:
    """Simulate, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="+", default=[1000])
    parser.add_argument("--coordinators", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--template", type=Path, help="a file to keep the real job in")
    parser.add_argument("--name", default="fleet_simulation", help="of the result; empty: none")
    parser.add_argument("--share", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.share:
        print(json.dumps(coordinate(Share(**json.loads(options.share)))))
        return
    with tempfile.TemporaryDirectory(prefix="simulation-") as directory:
        template = _template(options.template)
        os.environ["SKIPJACK_USER_DB_PATH"] = directory  # whose key coordinators share
        print(json.dumps(template.sizes()))
        simulation = Simulation(Path(directory), template)
        runs = []
        try:
            for devices in options.devices:
                runs.append(simulation.run(devices, options.coordinators, options.seconds))
                print(json.dumps(runs[-1]), flush=True)
        finally:
            simulation.close()
    if options.name:
        write(options.name, {"goal": GOAL, "template": template.sizes(), "runs": runs})


def _template(file: Path | None) -> Template:
    if file is not None and file.exists():
        return Template.load(file)
    made = real_job()
    if file is not None:
        made.save(file)
    return made


if __name__ == "__main__":
    main()
