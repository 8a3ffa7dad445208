"""``skipjack sweep``: the best setting of a benchmark that has a build and a run command."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import JsonOption, examples
from skipjack.cli.parsing import Work, in_two_steps

if TYPE_CHECKING:
    from skipjack.app import SweepFileRequest

EXAMPLES = examples(
    "skipjack sweep rnnt.json --base base.json --build-cmd ./build.sh --run-cmd ./run.sh "
    "--metric samples_per_second:max --result json:out/result.json",
    "skipjack sweep tune_server.py --base base.json --build-cmd 'make generate_engines' "
    "--run-cmd 'make run_harness' --result loadgen:logs",
    "skipjack sweep tune_server.py --base base.json --dry-run",
    "skipjack sweep knobs.toml --searcher genetic --budget 40 --repeats 3 --report out",
    "skipjack sweep server.toml --load server_target_qps:500:9000 --confirm 5",
)


@in_two_steps
def sweep(
    file: Annotated[Path, typer.Argument(help="Parameters and their values: .json, .py or .toml.")],
    base: Annotated[
        Path | None,
        typer.Option(help="The config that points are laid over: a JSON object."),
    ] = None,
    system_id: Annotated[
        str | None,
        typer.Option(help="Which system's entry of a base file that has several."),
    ] = None,
    build_cmd: Annotated[
        str | None,
        typer.Option(help="Builds for a point; run when a build-time parameter changes."),
    ] = None,
    run_cmd: Annotated[str | None, typer.Option(help="Runs the benchmark once.")] = None,
    result: Annotated[
        str | None,
        typer.Option(
            help="Where the result is: json:PATH, regex:PATTERN, loadgen:DIR or exit (the time)."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="NAME:max or NAME:min; several give a front."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help="What a run must satisfy, as 'p99_ms <= 15'."),
    ] = None,
    no_rebuild: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter whose change needs no new build, for files that do not say."
        ),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(help="Find the largest load that holds: PARAMETER:LOW:HIGH."),
    ] = None,
    searcher: Annotated[
        str | None,
        typer.Option(
            help="all, genetic, simulated_annealing, hill_climbing or random, as "
            "genetic:population=30 with parameters; without it the file's own search, or all."
        ),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Most points to try.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Seconds for the search; confirming runs come after."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes a search repeatable (0).")] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of each point (1).")] = None,
    confirm: Annotated[
        int | None,
        typer.Option(help="Further runs of the best and the baseline, in turns (2); 0 for none."),
    ] = None,
    screen: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE of short runs to search with; confirmed without."),
    ] = None,
    baseline: Annotated[
        bool | None,
        typer.Option(help="Run the base config itself, to know the gain."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="fewest-builds, or listed: as the search names them."),
    ] = None,
    run_timeout: Annotated[float | None, typer.Option(help="Seconds for a run (3600).")] = None,
    build_timeout: Annotated[float | None, typer.Option(help="Seconds for a build (7200).")] = None,
    build_jobs: Annotated[
        int | None,
        typer.Option(help="Builds made side by side, ahead of their runs (1)."),
    ] = None,
    run_cores: Annotated[
        str | None,
        typer.Option(help="Cores for runs, as 0-3; builds then go on beside, on the others."),
    ] = None,
    build_output: Annotated[
        list[Path] | None,
        typer.Option(help="What a build writes in place, if it is not to be found out."),
    ] = None,
    quota: Annotated[float | None, typer.Option(help="GiB of builds to keep (20).")] = None,
    nested: Annotated[
        bool | None,
        typer.Option("--nested", help="Lay points over the base config at every depth."),
    ] = None,
    no_check_keys: Annotated[
        bool | None,
        typer.Option("--no-check-keys", help="Allow parameters that the base config lacks."),
    ] = None,
    cool_temp: Annotated[
        float | None,
        typer.Option(help="Wait for this temperature (°C) before runs."),
    ] = None,
    cool_timeout: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for it at most (60)."),
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(help="Runs before the first that counts."),
    ] = None,
    power_log: Annotated[
        Path | None,
        typer.Option(help="PTDaemon's spl.txt, for results per watt."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be done, and do nothing."),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Build and measure everything anew."),
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Run points again that failed."),
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="Where builds and logs of runs are kept."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write all runs as CSV.")] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write result.json, runs.csv, plots, report.html and user.conf here."),
    ] = None,
    json: JsonOption = False,
) -> Work:
    """Find the best setting of a benchmark.

    Parameters reach the commands as environment variables of their own names, as
    {placeholders}, and in the JSON files that SKIPJACK_CONFIG (base and point) and
    SKIPJACK_POINT name. Running again continues.
    """
    said = dict(locals())
    from skipjack.app import SweepFileRequest, SweepSettings

    settings = SweepSettings(**{one.name: said[one.name] for one in fields(SweepSettings)})
    outputs = tuple(path for path in (csv, report) if path)
    request = SweepFileRequest(file, settings, outputs, restart, retry_failed)
    if dry_run:
        return partial(_foresee, request, json)
    return partial(_sweep, request, csv, report, json)


def _foresee(request: SweepFileRequest, json: bool) -> None:
    from skipjack.app import foresee_sweep
    from skipjack.report.views import render_foreseen

    render_foreseen(foresee_sweep(request), json)


def _sweep(request: SweepFileRequest, csv: Path | None, report: Path | None, json: bool) -> None:
    from skipjack import app
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.report.sweep_progress import sweep_progress
    from skipjack.report.views import make_report_directory, render_sweep, write_files

    if report:
        make_report_directory(report)
    with watch_for_interrupt() as interrupt, sweep_progress(enabled=not json) as observe:
        found = app.sweep(request, observe, interrupt=interrupt)
    render_sweep(found, json)
    write_files(found, csv, report)
    if found.interrupted:
        raise KeyboardInterrupt
    if found.best is None and found.trials:
        raise typer.Exit(1)
