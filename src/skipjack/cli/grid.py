"""``skipjack grid``: NVIDIA's grid.py by its own words."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import JsonOption, examples
from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.sweep.grid.request import GridRequest

EXAMPLES = examples(
    "skipjack grid rnnt Server tune.py --dry_run",
    "skipjack grid rnnt Offline example.json --extra_run_args='--fast' --use_cached",
    "skipjack grid rnnt Server tune.py --csv runs.csv --report out",
    "skipjack grid bert Server tune.py --spoof_system_id A10x1 --dry_run --configs configs",
)


def grid(
    benchmark: Annotated[str, typer.Argument(help="As rnnt or bert, in any spelling.")],
    scenario: Annotated[
        str, typer.Argument(help="Offline, Server, SingleStream or MultiStream, in any spelling.")
    ],
    config: Annotated[Path, typer.Argument(help="Parameters and values: .json, .py or .toml.")],
    no_check_keys: Annotated[
        bool,
        typer.Option(
            "--no_check_keys", "--no-check-keys", help="Allow names that the base config lacks."
        ),
    ] = False,
    temp_timeout: Annotated[
        int,
        typer.Option(
            "--temp_timeout", "--temp-timeout", help="Most seconds to wait to cool; 0: none."
        ),
    ] = 60,
    cool_temp: Annotated[
        int,
        typer.Option("--cool_temp", "--cool-temp", help="Wait for this mean temperature (°C)."),
    ] = 50,
    extra_run_args: Annotated[
        str,
        typer.Option(
            "--extra_run_args", "--extra-run-args", help="More arguments for builds and runs."
        ),
    ] = "",
    use_cached: Annotated[
        bool,
        typer.Option("--use_cached", "--use-cached", help="Do not run again what has a result."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry_run", "--dry-run", help="Say what would be done; do nothing.")
    ] = False,
    use_existing_engine: Annotated[
        bool,
        typer.Option(
            "--use_existing_engine", "--use-existing-engine", help="Run first without a build."
        ),
    ] = False,
    noparse: Annotated[bool, typer.Option("--noparse", help="Print no table at the end.")] = False,
    verbose_stats: Annotated[
        bool,
        typer.Option("--verbose_stats", "--verbose-stats", help="All latencies in the table."),
    ] = False,
    spoof_system_id: Annotated[
        str | None,
        typer.Option(
            "--spoof_system_id", "--spoof-system-id", help="Take this system's base config."
        ),
    ] = None,
    norun: Annotated[
        bool, typer.Option("--norun", help="Only print the table of earlier results.")
    ] = False,
    configs: Annotated[
        Path, typer.Option(help="BENCHMARK/SCENARIO/config.json lie below it; or one file.")
    ] = Path("configs"),
    logs: Annotated[Path, typer.Option(help="Where results lie.")] = Path("build", "logs"),
    build_cmd: Annotated[str | None, typer.Option(help="Instead of make generate_engines.")] = None,
    run_cmd: Annotated[str | None, typer.Option(help="Instead of make run_harness.")] = None,
    run_timeout: Annotated[float, typer.Option(help="Seconds for a run.")] = 4 * 3600.0,
    build_timeout: Annotated[float, typer.Option(help="Seconds for a build.")] = 12 * 3600.0,
    nested: Annotated[
        bool, typer.Option("--nested", help="Lay points over the base config at every depth.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write all runs as CSV.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write result.json, runs.csv, plots and report.html here.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Sweep an MLPerf benchmark with the files and flags of grid.py."""
    from skipjack.sweep.grid.dry_run import dry_run as lines_of
    from skipjack.sweep.grid.request import GridOptions, make_request

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
                "--json, --csv and --report write the results of runs, and --dry_run has none; "
                "leave one of them out"
            )
        for line in lines_of(request):
            typer.echo(line)
        return
    run_grid(request, csv, report, json)


def run_grid(
    request: GridRequest, csv: Path | None = None, report: Path | None = None, json: bool = False
) -> None:
    """Build and run for real; what each point gave as CSV or JSON, the statistics, the best."""
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.report.sweep_progress import sweep_progress
    from skipjack.report.views import print_sweep_json, write_files
    from skipjack.settings import load_settings
    from skipjack.sweep.grid import run as grid_run

    with watch_for_interrupt() as interrupt, sweep_progress(enabled=not json) as observe:
        result, statistics = grid_run.run_grid(
            request, load_settings(), observe, lambda: interrupt.requested
        )
    for sentence in grid_run.failures(result):
        typer.echo(f"skipjack: {sentence}", err=True)
    if json:
        print_sweep_json(result, statistics=asdict(statistics))
    elif not request.options.noparse:
        typer.echo(grid_run.table(result, verbose=request.options.verbose_stats), nl=False)
    write_files(result, csv, report)
    typer.echo(str(statistics), err=True)
    if result.best is not None:
        typer.echo(f"best: {result.best} ({result.best_value})", err=True)
    if result.interrupted:
        raise KeyboardInterrupt
    if (error := grid_run.nothing_ran(result)) is not None:
        raise error
