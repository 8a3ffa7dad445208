"""One process of LoadGen against the sleeping service: a test, or FindPeakPerformance's many.

Run by `sweep_loadgen`, which sends the request as JSON and reads the answer as JSON. The luck of
every test (what each query takes, when workers stall) comes with the request.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import mlperf_loadgen as loadgen

_SAMPLES = 64


class Sleepers:
    """Workers that sleep as long as each query takes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._times: list[list[float]] = request["times_s"]
        self._stalls: list[float | None] = request["stalls_s"]
        self._stall_s: float = request["stall_s"]
        self._queries: int = request["queries"]
        self._queue: SimpleQueue[tuple[int, float]] = SimpleQueue()
        self._query = 0
        self._begun = 0.0
        self.late_s: list[float] = []
        for _ in range(request["workers"]):
            threading.Thread(target=self._work, daemon=True).start()

    @property
    def tests(self) -> int:
        """How many were begun: all have the same number of queries."""
        return -(-self._query // self._queries)

    def issue(self, samples: list[Any]) -> None:
        """Take queries from LoadGen."""
        for sample in samples:
            test, query = divmod(self._query, self._queries)
            if not query:
                self._begun = time.perf_counter()
            self._query += 1
            self._queue.put((sample.id, self._times[test % len(self._times)][query]))

    def _work(self) -> None:
        while True:
            query, seconds = self._queue.get()
            begin = time.perf_counter()
            asleep = self._stalled(begin) + seconds
            time.sleep(asleep)
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(query, 0, 0)])
            self.late_s.append(time.perf_counter() - begin - asleep)

    def _stalled(self, now: float) -> float:
        """Seconds until a stall that is on now is over."""
        begin = self._stalls[(self.tests - 1) % len(self._stalls)]
        if begin is None:
            return 0.0
        since = now - self._begun - begin
        return self._stall_s - since if 0.0 <= since < self._stall_s else 0.0


def _settings(request: dict[str, Any]) -> Any:
    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.Server
    mode = "FindPeakPerformance" if request["find_peak"] else "PerformanceOnly"
    settings.mode = getattr(loadgen.TestMode, mode)
    settings.server_target_qps = request["load"]
    settings.server_target_latency_ns = int(request["bound_ms"] * 1e6)
    settings.server_target_latency_percentile = request["percentile"]
    settings.min_duration_ms = 1
    settings.min_query_count = request["queries"]
    settings.schedule_rng_seed = request["schedule_seed"]
    settings.server_find_peak_qps_decimals_of_precision = request["decimals"]
    return settings


def main() -> None:
    """Read the request, run, answer."""
    request = json.load(sys.stdin)
    sleepers = Sleepers(request)
    log = loadgen.LogSettings()
    log.log_output.outdir = request["folder"]
    log.enable_trace = False
    sut = loadgen.ConstructSUT(sleepers.issue, lambda: None)
    qsl = loadgen.ConstructQSL(_SAMPLES, _SAMPLES, lambda _samples: None, lambda _samples: None)
    loadgen.StartTestWithLogSettings(sut, qsl, _settings(request), log, "")
    late_s = sum(sleepers.late_s) / len(sleepers.late_s)
    counted = {"tests": sleepers.tests, "overshoot_ms": late_s * 1e3}
    (Path(request["folder"]) / "counted.json").write_text(json.dumps(counted), encoding="utf-8")


if __name__ == "__main__":
    main()
