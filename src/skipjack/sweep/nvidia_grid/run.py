"""Running the sweep of ``grid.py``: its commands, its directories and its table."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from skipjack.core import Config, Status
from skipjack.errors import SkipjackError
from skipjack.interop.loadgen import read_detail_log, scenario_metrics, write_meta
from skipjack.ledger import Ledger
from skipjack.reading import numbered
from skipjack.settings import Settings
from skipjack.storage import ensure_directory
from skipjack.sweep.bench import RunOutcome, SimulatedBench, Thermal, synthetic_run
from skipjack.sweep.commands import CommandBench, CommandSpec, CommandTemplate, ResultReader
from skipjack.sweep.configs import scenario_name
from skipjack.sweep.engine import (
    SweepContext,
    SweepObserver,
    SweepOptions,
    SweepRequest,
    SweepResult,
    loadgen_objective,
    run_sweep,
)
from skipjack.sweep.nvidia_grid.request import GridRequest, GridStatistics
from skipjack.sweep.session import directory_lock

_SCENARIO_METRICS = (
    "result_samples_per_second",
    "result_scheduled_samples_per_sec",
    "result_90.00_percentile_latency_ns",
    "result_99.00_percentile_per_query_latency_ns",
    "requested_multi_stream_samples_per_query",
    "result_validity",
    "start_temp",
)
_LATENCIES = (
    *("result_min_latency_ns", "result_max_latency_ns", "result_mean_latency_ns"),
    *(f"result_{p}_percentile_latency_ns" for p in ("50.00", "90.00", "95.00", "97.00", "99.00")),
    "result_99.90_percentile_latency_ns",
)
"""Columns that ``--verbose_stats`` adds to the table."""
_NOT_RUN = RunOutcome(Status.NO_RESULT, reason="it has no result, and --norun prevents running it")


class _GridFiles:
    """The files and directories that the harness uses."""

    names: tuple[str, ...] = ("grid_config", "log_dir", "build_args", "run_args")

    def __init__(self, request: GridRequest) -> None:
        self._request = request

    def values(self, point: Config, config: Mapping[str, Any], directory: Path) -> dict[str, str]:
        """Write a config file in the harness's format; also the directory for logs."""
        path = directory / "grid.json"
        path.write_text(json.dumps(self._request.config_file(config), indent=1))
        logs = self._request.result_directory(point).absolute()
        ensure_directory(logs)
        return {
            "grid_config": str(path),
            "log_dir": str(logs),
            "build_args": shlex.join(self._request.build_words(str(path))),
            "run_args": shlex.join(self._request.run_words(str(path))),
        }


class GridBench(CommandBench):
    """The commands of a grid, whose results are in directories named by the point's hash."""

    def __init__(
        self, request: GridRequest, spec: CommandSpec, stop: Callable[[], bool], thermal: Thermal
    ) -> None:
        super().__init__(spec, stop, thermal)
        self._request, self._workload = request, request.workload.digest
        self._answered: set[Config] = set()
        self.from_directories = 0
        """Runs whose results were read from directories of earlier sessions."""

    def prepare(self, points: Sequence[Config]) -> None:
        super().prepare([p for p in points if self._request.cached(p) is None])

    def measure(self, point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        """The result in the point's directory if it may be used, otherwise a run."""
        # A directory is used once: a search that repeats a point wants another run.
        new = point not in self._answered
        found = _cached(self._request, point) if new else None
        self._answered.add(point)
        if found is not None:
            self.from_directories += 1
            return found
        outcome = _with_scenario(self._request, super().measure(point, settings))
        if outcome.status in (Status.OK, Status.INVALID):
            start = outcome.metrics.get("start_temp")
            temperature = None if start is None or isinstance(start, str) else start
            place = self._request.result_directory(point)
            write_meta(place, point, temperature, self._workload)
        return outcome


def _cached(request: GridRequest, point: Config) -> RunOutcome | None:
    """The outcome of an old run."""
    found = request.cached(point)
    if found is None:
        return None
    metrics = scenario_metrics(read_detail_log(found.detail_log))
    if isinstance(start := found.stats.get("start_temp"), int | float):
        metrics["start_temp"] = float(start)
    valid = found.stats.get("result_validity") == "VALID"
    outcome = RunOutcome(Status.OK if valid else Status.INVALID, metrics, log=str(found.detail_log))
    return _with_scenario(request, outcome)


def _with_scenario(request: GridRequest, outcome: RunOutcome) -> RunOutcome:
    """Add the requested scenario, by which points are ranked, if the log does not name one.

    It is not added if the log lacks the metric of that scenario.
    """
    metrics = {"scenario": scenario_name(request.scenario), **outcome.metrics}
    objective = loadgen_objective(metrics, ())
    if objective is None or objective.metric not in metrics:
        return outcome
    return replace(outcome, metrics=metrics)


def run_grid(
    request: GridRequest, settings: Settings, observer: SweepObserver, stop: Callable[[], bool]
) -> tuple[SweepResult, GridStatistics]:
    """Build and run all points one after another, in the order of the list."""
    workload = request.workload
    bench = _bench(
        request, settings.user_dir / "sweeps" / f"{workload.name}-{workload.digest}", stop
    )
    options = SweepOptions(confirm=0, baseline=False, observer=observer)
    with (
        directory_lock(settings.user_dir, Path.cwd()),
        closing(bench),
        Ledger.open(settings.user_dir) as ledger,
    ):
        sweep = SweepRequest(
            request.file,
            request.base,
            bench,
            SweepContext(workload, request.base.system_id, request.base.system_id),
            options,
            in_order=True,
            as_grid=True,
            check_names=not request.options.no_check_keys,
            # Results are reused from the directories and not from the ledger.
            start_over=True,
        )
        result = run_sweep(sweep, ledger, stop)
    ran = sum(trial.status is not Status.INFEASIBLE for trial in result.trials)
    if isinstance(bench, SimulatedBench):
        missing = sum(trial.reason == _NOT_RUN.reason for trial in result.trials)
        return result, GridStatistics(cached_runs=ran - missing)
    runs = ran - bench.from_directories
    cached_builds = max(0, runs - bench.builds)
    return result, GridStatistics(bench.builds, cached_builds, runs, bench.from_directories)


def _bench(
    request: GridRequest, state: Path, stop: Callable[[], bool]
) -> GridBench | SimulatedBench:
    options = request.options
    if request.file.synthetic is not None and options.use_cached:
        answer = synthetic_run(request.file)
        return SimulatedBench(
            lambda point, said: _with_scenario(request, answer(point, said)), lambda point: ""
        )
    if options.norun:
        return SimulatedBench(
            lambda point, _: _cached(request, point) or _NOT_RUN, lambda point: ""
        )
    extra_placeholders = _GridFiles(request)
    spec = CommandSpec(
        run=_command(request.run_template(), extra_placeholders.names),
        build=_command(request.build_template(), extra_placeholders.names),
        result=ResultReader("loadgen", "{log_dir}"),
        workdir=Path.cwd(),
        state_dir=ensure_directory(state),
        base=request.base.config,
        no_rebuild=request.file.no_rebuild,
        nested=request.base.nested,
        run_timeout_s=options.run_timeout,
        build_timeout_s=options.build_timeout,
        not_sources=(request.file.path, *options.outputs),
        extra_placeholders=extra_placeholders,
    )
    thermal = Thermal(float(options.cool_temp), float(options.temp_timeout), stopped=stop)
    bench = GridBench(request, spec, stop, thermal)
    if options.use_existing_engine and bench.builder:
        bench.builder.adopt_first()
    return bench


def _command(argv: Sequence[str], names: Sequence[str]) -> CommandTemplate:
    """A command of these words, in which only `names` are placeholders."""
    words = []
    for word in argv:
        escaped = word.replace("{", "{{").replace("}", "}}")
        for name in names:
            escaped = escaped.replace(f"{{{{{name}}}}}", f"{{{name}}}")
        words.append(escaped)
    return CommandTemplate(" ".join(argv), tuple(words))


def grid_table(result: SweepResult, *, verbose: bool) -> str:
    """CSV with the same columns in every row: parameters and metrics of the scenario."""
    wanted = {*_SCENARIO_METRICS, *(_LATENCIES if verbose else ())}
    rows = [
        {**trial.point, **{k: v for k, v in trial.metrics.items() if k in wanted}}
        for trial in result.trials
        if trial.status in (Status.OK, Status.INVALID)
    ]
    columns = sorted({name for row in rows for name in row})
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def run_failures(result: SweepResult) -> list[str]:
    """A message for each point without a result."""
    return [
        f"{trial.point}: {trial.status.value}: {trial.reason} (see {trial.log})"
        for trial in result.trials
        if trial.status not in (Status.OK, Status.INVALID, Status.INFEASIBLE)
    ]


def nothing_ran(result: SweepResult) -> SkipjackError | None:
    """The error if points were run and none has a result."""
    bad = run_failures(result)
    good = any(trial.status in (Status.OK, Status.INVALID) for trial in result.trials)
    return (
        None
        if good or not bad
        else SkipjackError(f"{numbered(len(bad), 'point')} failed, and no point has a result")
    )
