"""``sweep``: the best setting of a benchmark that has a build and a run command."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from skipjack.app.configuration import configured
from skipjack.interrupt import Interrupt
from skipjack.ledger import Ledger
from skipjack.settings import Settings
from skipjack.sweep.engine import SweepObserver, SweepResult
from skipjack.sweep.session import (
    SweepForecast,
    SweepSetup,
    forecast_sweep,
    past_runs,
    run_commands,
    set_up,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """Settings of a sweep; None for those of the sweep's file, or the default."""

    base: Path | None = None
    """The config that points are merged into: a JSON object."""
    system_id: str | None = None
    build_cmd: str | None = None
    run_cmd: str | None = None
    result: str | None = None
    """``json:PATH``, ``regex:PATTERN``, ``loadgen:DIR`` or ``exit``."""
    metric: list[str] | None = None
    """Such as ``samples_per_second:max``."""
    require: list[str] | None = None
    load: str | None = None
    """Such as ``server_target_qps:500:9000``."""
    searcher: str | None = None
    budget: int | None = None
    seconds: float | None = None
    seed: int | None = None
    repeats: int | None = None
    confirm: int | None = None
    screen: list[str] | None = None
    baseline: bool | None = None
    order: str | None = None
    run_timeout: float | None = None
    build_timeout: float | None = None
    build_jobs: int | None = None
    run_cores: str | None = None
    build_output: list[Path] | None = None
    quota: float | None = None
    """Space for kept builds, in GiB."""
    nested: bool | None = None
    no_check_keys: bool | None = None
    cool_temp: float | None = None
    cool_timeout: float | None = None
    warm_up: int | None = None
    power_log: Path | None = None
    state: Path | None = None
    no_rebuild: list[str] | None = None
    """Parameters whose change needs no new build."""


@dataclass(frozen=True, slots=True)
class SweepFileRequest:
    """A file of parameters and their values, and how to run the benchmark."""

    file: Path
    settings: SweepSettings = SweepSettings()
    outputs: tuple[Path, ...] = ()
    """Files that the caller writes at the end, which are not outputs of the benchmark."""
    restart: bool = False
    """Build and measure everything again."""
    retry_failed: bool = False

    def set_up(self) -> SweepSetup:
        """Read and check the files before anything is started."""
        given: dict[str, Any] = {
            one.name: getattr(self.settings, one.name) for one in fields(self.settings)
        }
        return set_up(self.file, given, tuple(path.absolute() for path in self.outputs))


def sweep(
    request: SweepFileRequest,
    observe: SweepObserver = lambda _: None,
    *,
    settings: Settings | None = None,
    interrupt: Interrupt | None = None,
) -> SweepResult:
    """Find the best setting of a benchmark; calling it again continues.

    `observe` is called after each run. A request of `interrupt` ends the sweep with the results so
    far.
    """
    stop = interrupt or Interrupt()
    return run_commands(
        request.set_up(),
        configured(settings),
        observe,
        lambda: stop.requested,
        start_over=request.restart,
        retry_failed=request.retry_failed,
    )


def forecast(request: SweepFileRequest, *, settings: Settings | None = None) -> SweepForecast:
    """Forecast what `sweep` would build and run, as far as possible; nothing is started."""
    setup, chosen = request.set_up(), configured(settings)
    with Ledger.open(chosen.user_dir) as ledger:
        return forecast_sweep(setup, past_runs(setup, chosen, ledger))
