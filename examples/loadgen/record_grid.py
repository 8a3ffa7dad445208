"""Record which loads every setting of the Server scenario holds, to compare searches on it.

For every combination of the parameters: the throughput of the Offline scenario, then Server tests
at loads that lie 3 % apart. First the largest load that holds is bracketed, then the loads around
it are tried again and again, so that the file has the chance of VALID at each. ::

    python examples/loadgen/record_grid.py bench/results/sweep-grid-server.json --minutes 3

It writes after every setting and goes on where it was when it is called again.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import harness
import numpy as np
from build import MANIFEST, build
from loadgen_settings import settings_of
from network import MODEL, Network
from quiet import Sentinel
from samples import make_samples

from skipjack.interop.loadgen import DETAIL_LOG, LoadgenLog, RunValidity, judge, read_detail_log

BASE = Path(__file__).with_name("server-base.json")
PARAMETERS: dict[str, tuple[int | str, ...]] = {
    "batch_size": (1, 2, 4, 8, 16),
    "workers": (1, 2),
    "precision": ("fp32", "int8"),
}
BUILD_PARAMETERS = ("precision",)
SHORT = {
    # 90 % of queries rather than 99 %: early stopping is then content with 44 queries if none is
    # late, so that a second is enough at nearly every load.
    "server_target_latency_percentile": 0.9,
    # A tight bound, so that large batches have a price.
    "server_target_latency_ns": 30_000_000,
    "min_duration_ms": 500,
    "min_query_count": 60,
}
MOST_QUERIES = 100
"""Of a test that is made again because it was too short."""
STEP = 1.03
LOWEST = 20.0
AROUND = 3
"""So many loads above and below the limit are tried in each round."""
ROUNDS, MOST_ROUNDS = 2, 5
"""There are more than two rounds while the limit turns out to be elsewhere."""
FIRST_STRIDE = 6
MOST_DISTURBED = 3
"""A test is made so often at most."""
PATIENCE_S = 2.0
"""So long a quiet moment is waited for."""


def load_at(rung: int) -> float:
    """The loads that are tried, on a ladder that all settings share."""
    return round(LOWEST * STEP**rung, 2)


def rung_of(load: float) -> int:
    """The last rung that is not above a load."""
    return max(0, math.floor(math.log(load / LOWEST) / math.log(STEP) + 1e-9))


@dataclass
class Setting:
    """One combination of parameters, ready to be tested; remembers what its tests said."""

    config: Mapping[str, Any]
    network: Network
    sentinel: Sentinel
    held: dict[int, list[int]] = field(default_factory=dict)
    latencies_ms: dict[int, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    tests: int = 0
    disturbed: int = 0

    def test(self, scenario: str, **fields: Any) -> LoadgenLog:
        """One LoadGen test, made again if the machine was slow before or after; its detail log."""
        config = {**self.config, "scenario": scenario, **fields}
        for _ in range(MOST_DISTURBED):
            quiet = self.sentinel.wait(PATIENCE_S)
            log = self._test_once(config)
            if quiet and not self.sentinel.disturbed():
                break
            self.disturbed += 1
        return log

    def _test_once(self, config: Mapping[str, Any]) -> LoadgenLog:
        with tempfile.TemporaryDirectory() as logs:
            settings = settings_of(config, None, user_conf_only=False, mode="PerformanceOnly")
            started = time.perf_counter()
            error = harness.run(self.network, make_samples(), config, settings, Path(logs))
            self.seconds += time.perf_counter() - started
            self.tests += 1
            if error:
                raise SystemExit(f"the network failed at {config}: {error}")
            return read_detail_log(Path(logs) / DETAIL_LOG)

    def throughput(self) -> float:
        """Samples per second of the Offline scenario."""
        log = self.test("Offline", offline_expected_qps=250, min_duration_ms=500, min_query_count=1)
        return float(log.values["result_samples_per_second"])

    def try_rung(self, rung: int) -> bool:
        """Whether one Server test at this load is VALID; measured once more if it was too short."""
        fields = {**SHORT, "server_target_qps": load_at(rung)}
        for _ in range(2):
            log = self.test("Server", **fields)
            judgement = judge(log)
            if judgement.verdict is not RunValidity.TOO_LITTLE:
                break
            wanted = judgement.repair.get("min_query_count", 0)
            fields["min_query_count"] = min(int(wanted), MOST_QUERIES)
        self.held.setdefault(rung, []).append(int(log.valid))
        latency = float(log.values["result_90.00_percentile_latency_ns"]) / 1e6
        self.latencies_ms.setdefault(rung, []).append(round(latency, 2))
        return log.valid

    def bracket(self, start: int) -> None:
        """Strides up or down until it turns, then smaller ones: the limit is among these rungs."""
        rung, stride = start, FIRST_STRIDE
        held = self.try_rung(rung)
        while stride:
            following = max(0, rung + (stride if held else -stride))
            if following == rung:
                break
            turned = self.try_rung(following) != held
            rung = following
            if turned:
                held, stride = not held, stride // 2

    def limit(self) -> int:
        """The rung that splits tests best into those that held and those above that did not."""

        def contradictions(rung: int) -> int:
            return sum(
                runs.count(0) if tried <= rung else runs.count(1)
                for tried, runs in self.held.items()
            )

        return min(sorted(self.held), key=contradictions)

    def measure(self) -> dict[str, Any]:
        """All tests of this setting."""
        offline = [self.throughput()]
        self.bracket(rung_of(0.75 * offline[0]))
        for done in range(1, MOST_ROUNDS + 1):
            limit = self.limit()
            bottom, top = max(0, limit - AROUND), limit + AROUND
            for rung in range(bottom, top + 1):
                self.try_rung(rung)
            offline.append(self.throughput())
            if done >= ROUNDS and self.held[bottom][-1] and not self.held[top][-1]:
                break
        return {
            "held": {f"{load_at(rung):g}": runs for rung, runs in sorted(self.held.items())},
            "latency_ms": {
                f"{load_at(rung):g}": runs for rung, runs in sorted(self.latencies_ms.items())
            },
            "metrics": {
                "samples_per_second": [round(value, 1) for value in offline],
                "tests": self.tests,
                "disturbed": self.disturbed,
                "seconds": round(self.seconds, 1),
            },
        }


def pin(cores: int) -> None:
    """Use the last cores of those this process may use: the first one has interrupts to serve."""
    allowed = sorted(_ALLOWED)
    os.sched_setaffinity(0, allowed[-cores:])


_ALLOWED = os.sched_getaffinity(0)


def header() -> dict[str, Any]:
    """What the file says before its points."""
    base = json.loads(BASE.read_text())
    return {
        "format": 1,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": f"{platform.machine()}, {os.cpu_count()} cores, as many used as workers",
        "versions": {
            name: version(name) for name in ("mlcommons-loadgen", "onnxruntime", "onnx", "numpy")
        },
        "scenario": "Server",
        "settings": {**base, **SHORT},
        "parameters": {name: list(values) for name, values in PARAMETERS.items()},
        "build_parameters": list(BUILD_PARAMETERS),
        "build_seconds": {},
        "sentinel_seconds": {},
        "loads": [],
        "points": [],
    }


def combinations() -> list[dict[str, Any]]:
    """All points, in the order of the file."""
    return [
        dict(zip(PARAMETERS, values, strict=True))
        for values in itertools.product(*PARAMETERS.values())
    ]


def built(config: Mapping[str, Any], root: Path) -> Path:
    """The directory with the network of a config, built if it is not there."""
    directory = root / "-".join(str(config[name]) for name in BUILD_PARAMETERS)
    if not (directory / MANIFEST).exists():
        build(config, directory)
    return directory


def write(path: Path, record: Mapping[str, Any]) -> None:
    """All of the record, at once."""
    scratch = path.with_suffix(".part")
    points = ",\n".join(f"  {json.dumps(point)}" for point in record["points"])
    head = json.dumps({**record, "points": []}, indent=1)
    scratch.write_text(head.replace('"points": []', f'"points": [\n{points}\n ]') + "\n")
    scratch.replace(path)


def todo(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Points that are not in the record, shuffled: a slow minute of the machine hits no region."""
    order = np.random.default_rng(0).permutation(len(combinations()))
    points = [combinations()[place] for place in order]
    done = [point["point"] for point in record["points"]]
    return [point for point in points if point not in done]


def main(arguments: Sequence[str] | None = None) -> None:
    """Record for some minutes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--minutes", type=float, default=60, help="stop after about so long")
    parser.add_argument("--builds", type=Path, default=Path("build/loadgen-grid"))
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + 60 * options.minutes
    record = json.loads(options.path.read_text()) if options.path.exists() else header()
    base = json.loads(BASE.read_text())
    for point in todo(record):
        if time.monotonic() > deadline:
            break
        config = {**base, **point}
        directory = built(config, options.builds)
        manifest = json.loads((directory / MANIFEST).read_text())
        pin(int(config["workers"]))
        network = Network(
            directory / MODEL, int(config["workers"]), int(config["threads"]), spin=False
        )
        network.warm_up(make_samples(), int(config["batch_size"]))
        kind = f"{directory.name}, {config['workers']} workers"
        sentinel = Sentinel(network, int(config["workers"]), make_samples(4))
        sentinel.best = record["sentinel_seconds"].get(kind, sentinel.best)
        for _ in range(20):
            sentinel.disturbed()
        measured = Setting(config, network, sentinel).measure()
        record["sentinel_seconds"][kind] = sentinel.best
        record["points"].append({"point": point, **measured})
        record["build_seconds"][directory.name] = manifest["seconds"]
        loads = {float(load) for entry in record["points"] for load in entry["held"]}
        record["loads"] = sorted(loads)
        write(options.path, record)
        print(point, measured["held"], measured["metrics"], flush=True)
    print(f"{len(record['points'])} of {len(combinations())} settings are recorded")


if __name__ == "__main__":
    main()
