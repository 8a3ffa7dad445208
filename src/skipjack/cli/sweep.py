"""``skipjack sweep`` and ``skipjack grid``: the best setting of a benchmark."""

from __future__ import annotations

from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, Work, examples, in_two_steps
from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.app import SweepFileRequest
    from skipjack.sweep.nvidia_grid import GridRequest

SWEEP_EXAMPLES = examples(
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
    file: Annotated[
        Path, typer.Argument(help="A file of parameters and their values: .json, .py or .toml.")
    ],
    base: Annotated[
        Path | None,
        typer.Option(help="The config that points are merged into: a JSON object."),
    ] = None,
    system_id: Annotated[
        str | None,
        typer.Option(help="The system to use, if the base file has several."),
    ] = None,
    build_cmd: Annotated[
        str | None,
        typer.Option(
            help="The command that builds for a point; run if a build-time parameter changes."
        ),
    ] = None,
    run_cmd: Annotated[
        str | None, typer.Option(help="The command that runs the benchmark once.")
    ] = None,
    result: Annotated[
        str | None,
        typer.Option(
            help="Where the result is: json:PATH, regex:PATTERN, loadgen:DIR or exit (the time)."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="What to optimize: NAME:max or NAME:min; several give a Pareto front."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help="A constraint on runs, such as 'p99_ms <= 15'."),
    ] = None,
    no_rebuild: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter whose change needs no new build, if the file does not say so."
        ),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            help="Find the largest load that satisfies all constraints: PARAMETER:LOW:HIGH."
        ),
    ] = None,
    searcher: Annotated[
        str | None,
        typer.Option(
            help="Search algorithm: all, genetic, model, simulated_annealing, hill_climbing, "
            "random or optuna:tpe, with parameters as in genetic:population=30 (that of the "
            "file, or all)."
        ),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Maximum number of points to try.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Time limit for the search, in seconds; confirmation runs follow."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the search (0).")] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of each point (1).")] = None,
    confirm: Annotated[
        int | None,
        typer.Option(
            help="Confirmation runs of the best point and the baseline, in turns (2); 0 for none."
        ),
    ] = None,
    screen: Annotated[
        list[str] | None,
        typer.Option(
            help="KEY=VALUE that shortens runs of the search; confirmation runs are without it."
        ),
    ] = None,
    baseline: Annotated[
        bool | None,
        typer.Option(help="Also run the base config, to measure the gain."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="Order of points: fewest-builds, or listed for the order of the search."),
    ] = None,
    run_timeout: Annotated[
        float | None, typer.Option(help="Time limit for a run, in seconds (3600).")
    ] = None,
    build_timeout: Annotated[
        float | None, typer.Option(help="Time limit for a build, in seconds (7200).")
    ] = None,
    build_jobs: Annotated[
        int | None,
        typer.Option(help="How many builds to make in parallel, ahead of their runs (1)."),
    ] = None,
    run_cores: Annotated[
        str | None,
        typer.Option(
            help="Cores for runs, such as 0-3; builds then use the other cores at the same time."
        ),
    ] = None,
    build_output: Annotated[
        list[Path] | None,
        typer.Option(help="A path that builds write to, if it cannot be detected; repeatable."),
    ] = None,
    quota: Annotated[
        float | None, typer.Option(help="How much space kept builds may take, in GiB (20).")
    ] = None,
    nested: Annotated[
        bool | None,
        typer.Option("--nested", help="Merge points into the base config at every depth."),
    ] = None,
    no_check_keys: Annotated[
        bool | None,
        typer.Option("--no-check-keys", help="Allow parameters that are not in the base config."),
    ] = None,
    cool_temp: Annotated[
        float | None,
        typer.Option(help="Before runs, wait until the temperature is this low (°C)."),
    ] = None,
    cool_timeout: Annotated[
        float | None,
        typer.Option(help="Time limit for cooling, in seconds (60)."),
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(help="Number of warm-up runs, which do not count."),
    ] = None,
    power_log: Annotated[
        Path | None,
        typer.Option(help="PTDaemon's spl.txt, for results per watt."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what would be done, and do nothing."),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Build and measure everything again."),
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Run failed points again."),
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="Directory in which builds and logs are kept."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write all runs to this CSV file.")] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write result.json, runs.csv, plots, report.html and user.conf to this folder."
        ),
    ] = None,
    json: JsonOption = False,
) -> Work:
    """Find the best setting of a benchmark.

    Commands get the parameters as environment variables of the same names, in
    {placeholders}, and in the JSON files that SKIPJACK_CONFIG (base and point) and
    SKIPJACK_POINT name. Running the same command again continues the sweep.
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
    from skipjack.app import forecast
    from skipjack.report.sweep import render_forecast

    render_forecast(forecast(request), json)


def _sweep(request: SweepFileRequest, csv: Path | None, report: Path | None, json: bool) -> None:
    from skipjack import app
    from skipjack.interrupt import deferred_interrupt
    from skipjack.report.sweep import (
        make_report_directory,
        render_sweep,
        sweep_progress,
        write_files,
    )

    if report:
        make_report_directory(report)
    with deferred_interrupt() as interrupt, sweep_progress(enabled=not json) as observe:
        found = app.sweep(request, observe, interrupt=interrupt)
    render_sweep(found, json)
    write_files(found, csv, report)
    if found.interrupted:
        raise KeyboardInterrupt
    if found.best is None and found.trials:
        raise typer.Exit(1)


# ``skipjack grid``: NVIDIA's grid.py with its own flags.

GRID_EXAMPLES = examples(
    "skipjack grid rnnt Server tune.py --dry_run",
    "skipjack grid rnnt Offline example.json --extra_run_args='--fast' --use_cached",
    "skipjack grid rnnt Server tune.py --csv runs.csv --report out",
    "skipjack grid bert Server tune.py --spoof_system_id A10x1 --dry_run --configs configs",
)


def grid(
    benchmark: Annotated[
        str, typer.Argument(help="The benchmark, such as rnnt or bert, in any spelling.")
    ],
    scenario: Annotated[
        str, typer.Argument(help="Offline, Server, SingleStream or MultiStream, in any spelling.")
    ],
    config: Annotated[
        Path, typer.Argument(help="A file of parameters and values: .json, .py or .toml.")
    ],
    no_check_keys: Annotated[
        bool,
        typer.Option(
            "--no_check_keys",
            "--no-check-keys",
            help="Allow parameters that are not in the base config.",
        ),
    ] = False,
    temp_timeout: Annotated[
        int,
        typer.Option(
            "--temp_timeout",
            "--temp-timeout",
            help="Time limit for cooling, in seconds; 0: do not wait.",
        ),
    ] = 60,
    cool_temp: Annotated[
        int,
        typer.Option(
            "--cool_temp", "--cool-temp", help="Wait until the mean temperature is this low (°C)."
        ),
    ] = 50,
    extra_run_args: Annotated[
        str,
        typer.Option(
            "--extra_run_args", "--extra-run-args", help="Further arguments for builds and runs."
        ),
    ] = "",
    use_cached: Annotated[
        bool,
        typer.Option("--use_cached", "--use-cached", help="Skip points that have a result."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry_run", "--dry-run", help="Print what would be done; do nothing.")
    ] = False,
    use_existing_engine: Annotated[
        bool,
        typer.Option(
            "--use_existing_engine",
            "--use-existing-engine",
            help="Do not build before the first run.",
        ),
    ] = False,
    noparse: Annotated[bool, typer.Option("--noparse", help="Print no table at the end.")] = False,
    verbose_stats: Annotated[
        bool,
        typer.Option(
            "--verbose_stats", "--verbose-stats", help="Print all latencies in the table."
        ),
    ] = False,
    spoof_system_id: Annotated[
        str | None,
        typer.Option(
            "--spoof_system_id", "--spoof-system-id", help="Use this system's base config."
        ),
    ] = None,
    norun: Annotated[
        bool, typer.Option("--norun", help="Only print the table of earlier results.")
    ] = False,
    configs: Annotated[
        Path, typer.Option(help="Directory with BENCHMARK/SCENARIO/config.json; or one file.")
    ] = Path("configs"),
    logs: Annotated[Path, typer.Option(help="Directory of results.")] = Path("build", "logs"),
    build_cmd: Annotated[
        str | None,
        typer.Option(help="The command to build with, instead of make generate_engines."),
    ] = None,
    run_cmd: Annotated[
        str | None, typer.Option(help="The command to run, instead of make run_harness.")
    ] = None,
    run_timeout: Annotated[float, typer.Option(help="Time limit for a run, in seconds.")] = 4
    * 3600.0,
    build_timeout: Annotated[float, typer.Option(help="Time limit for a build, in seconds.")] = 12
    * 3600.0,
    nested: Annotated[
        bool, typer.Option("--nested", help="Merge points into the base config at every depth.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write all runs to this CSV file.")] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write result.json, runs.csv, plots and report.html to this folder."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Sweep an MLPerf benchmark with the files and flags of grid.py."""
    from skipjack.sweep.nvidia_grid import GridOptions, make_request
    from skipjack.sweep.nvidia_grid import dry_run as lines_of

    options = GridOptions(
        no_check_keys=no_check_keys,
        temp_timeout=temp_timeout,
        cool_temp=cool_temp,
        extra_run_args=extra_run_args,
        use_cached=use_cached or norun,
        dry_run=dry_run,
        use_existing_engine=use_existing_engine,
        noparse=noparse,
        verbose_stats=verbose_stats,
        spoof_system_id=spoof_system_id,
        norun=norun,
        configs=configs,
        logs=logs,
        build_cmd=build_cmd,
        run_cmd=run_cmd,
        nested=nested,
        run_timeout=run_timeout,
        build_timeout=build_timeout,
        outputs=tuple(path.absolute() for path in (csv, report) if path),
    )
    request = make_request(benchmark, scenario, config, options)
    if dry_run:
        if csv or report or json:
            raise UsageError(
                "--json, --csv and --report write the results of runs, and --dry_run runs nothing; "
                "leave one of them out"
            )
        for line in lines_of(request):
            typer.echo(line)
        return
    run_grid(request, csv, report, json)


def run_grid(
    request: GridRequest, csv: Path | None = None, report: Path | None = None, json: bool = False
) -> None:
    """Build and run, then print each point as CSV or JSON, the statistics, and the best point."""
    from skipjack.interrupt import deferred_interrupt
    from skipjack.report.sweep import print_sweep_json, sweep_progress, write_files
    from skipjack.settings import load_settings
    from skipjack.sweep.nvidia_grid import run as grid_run

    with deferred_interrupt() as interrupt, sweep_progress(enabled=not json) as observe:
        result, statistics = grid_run.run_grid(
            request, load_settings(), observe, lambda: interrupt.requested
        )
    for sentence in grid_run.run_failures(result):
        typer.echo(f"skipjack: {sentence}", err=True)
    if json:
        print_sweep_json(result, statistics=asdict(statistics))
    elif not request.options.noparse:
        typer.echo(grid_run.grid_table(result, verbose=request.options.verbose_stats), nl=False)
    write_files(result, csv, report)
    typer.echo(str(statistics), err=True)
    if result.best is not None:
        typer.echo(f"best: {result.best} ({result.best_value})", err=True)
    if result.interrupted:
        raise KeyboardInterrupt
    if (error := grid_run.nothing_ran(result)) is not None:
        raise error
