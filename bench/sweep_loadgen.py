"""LoadGen tests of the sleeping service, each in a process of its own with a deadline."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sweep_service import Draw, Service

_TRIAL = Path(__file__).with_name("sweep_trial.py")
_DEADLINE_S = 60.0
_PEAK = re.compile(r"Found peak performance field: ([0-9.]+)")
_MOST_TESTS = 64


@dataclass(frozen=True)
class Test:
    """What LoadGen says about one test."""

    valid: bool
    latency_held: bool
    late: int
    mean_latency_ms: float
    overshoot_ms: float
    """How much longer than they should workers were busy with a query, on average."""


@dataclass(frozen=True)
class Peak:
    """What FindPeakPerformance says; None if it refused to start."""

    load: float | None
    tests: int


def run_test(service: Service, load: float, draw: Draw) -> Test:
    """One test at a load; a process that hangs or dies is an error of the benchmark."""
    with tempfile.TemporaryDirectory(prefix="skipjack-loadgen-") as folder:
        _run(service, load, draw, Path(folder), find_peak=False)
        said, counted = _detail(Path(folder)), _counted(Path(folder))
    return Test(
        valid=said["result_validity"] == "VALID",
        latency_held=bool(said["result_perf_constraints_met"]),
        late=int(said["result_overlatency_query_count"]),
        mean_latency_ms=said["result_mean_latency_ns"] / 1e6,
        overshoot_ms=counted["overshoot_ms"],
    )


def find_peak(service: Service, start: float, rng: np.random.Generator) -> Peak:
    """LoadGen's own search from a load that should hold."""
    draw = service.draw(rng, _MOST_TESTS)
    with tempfile.TemporaryDirectory(prefix="skipjack-loadgen-") as folder:
        _run(service, start, draw, Path(folder), find_peak=True)
        tests = _counted(Path(folder))["tests"]
        found = _PEAK.search(_log(Path(folder)))
    return Peak(float(found[1]) if found else None, tests)


def _run(service: Service, load: float, draw: Draw, folder: Path, *, find_peak: bool) -> None:
    span_s = float(service.arrivals[-1]) / load
    request: dict[str, Any] = {
        **service.to_json(),
        "load": load,
        "find_peak": find_peak,
        "decimals": 1,
        "folder": str(folder),
        "stall_s": service.stall_ms / 1e3,
        "times_s": (draw.times / 1e3).round(6).tolist(),
        "stalls_s": [share * span_s if share < 1.0 else None for share in draw.stall_share],
    }
    subprocess.run(
        [sys.executable, str(_TRIAL)],
        input=json.dumps(request),
        text=True,
        timeout=_DEADLINE_S,
        check=True,
        capture_output=True,
    )


def _log(folder: Path) -> str:
    return (folder / "mlperf_log_detail.txt").read_text(encoding="utf-8")


def _detail(folder: Path) -> dict[str, Any]:
    lines = [line for line in _log(folder).splitlines() if line.startswith(":::MLLOG ")]
    parsed = [json.loads(line.split(" ", 1)[1]) for line in lines]
    return {line["key"]: line["value"] for line in parsed}


def _counted(folder: Path) -> dict[str, Any]:
    counted: dict[str, Any] = json.loads((folder / "counted.json").read_text(encoding="utf-8"))
    return counted


def calibrated(service: Service, rng: np.random.Generator, tests: int = 4) -> Service:
    """The service with what sleeps and messages really take here on top."""
    busy, idle = [], []
    for _ in range(tests):
        draw = replace(service.draw(rng, 1), stall_share=np.array([np.inf]))
        busy.append(run_test(service, service.capacity * 0.9, draw).overshoot_ms)
        calm = run_test(service, service.capacity / 4, draw)
        idle.append(calm.mean_latency_ms - float(draw.times.mean()) - calm.overshoot_ms)
    overshoot, delay = float(np.median(busy)), float(np.median(idle))
    return replace(service, overshoot_ms=round(overshoot, 4), delay_ms=round(delay, 4))
