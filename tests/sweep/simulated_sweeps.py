"""Sweeps on benchmarks that are functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skipjack.core import Config, Objective, Status
from skipjack.ledger import Ledger
from skipjack.search import SearcherInterface
from skipjack.sweep.bench import RunOutcome, SimulatedBench, Workload, build_part
from skipjack.sweep.configs import BaseConfig
from skipjack.sweep.engine import SweepContext, SweepOptions, SweepRequest, SweepResult, run_sweep
from skipjack.sweep.files import SweepFile

Speed = Callable[[Mapping[str, Any]], float]


class Machine:
    """A benchmark whose speed is a function of the point; counts its runs."""

    def __init__(self, speed: Speed, no_rebuild: tuple[str, ...] | None = None) -> None:
        self.runs: list[tuple[Config, dict[str, Any]]] = []
        self._speed = speed
        self.bench = SimulatedBench(self._answer, lambda p: build_part(p, no_rebuild).key)

    def _answer(self, point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        self.runs.append((point, dict(settings)))
        speed = self._speed(point)
        if speed < 0:
            return RunOutcome(Status.CRASH, reason="it fell over", seconds=0.1)
        return RunOutcome(Status.OK, {"speed": speed}, seconds=0.1)

    @property
    def points(self) -> list[dict[str, Any]]:
        return [dict(point) for point, _ in self.runs]


def sweep(
    ledger: Ledger,
    machine: Machine,
    parameters: Mapping[str, tuple[Any, ...]],
    base: Mapping[str, Any] | None = None,
    *,
    no_rebuild: tuple[str, ...] | None = None,
    is_valid: Any = None,
    search: Callable[[], SearcherInterface] | None = None,
    searcher: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    retry_failed: bool = False,
    start_over: bool = False,
    run_timeout_s: float = float("inf"),
    **options: Any,
) -> SweepResult:
    file = SweepFile(Path("knobs.json"), parameters, no_rebuild, is_valid, search)
    options.setdefault("objectives", (Objective("speed", "max"),))
    options.setdefault("confirm", 0)
    request = SweepRequest(
        file,
        BaseConfig(base, "base.json") if base else BaseConfig(),
        machine.bench,
        SweepContext(Workload("knobs", "0" * 16), "cpu", "cpu:1"),
        SweepOptions(**options),
        searcher,
        retry_failed=retry_failed,
        start_over=start_over,
        run_timeout_s=run_timeout_s,
    )
    return run_sweep(request, ledger, stop)
