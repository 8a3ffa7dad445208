"""``skipjack sweep``: the best setting of a benchmark that has a build and a run command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import JsonOption, examples

if TYPE_CHECKING:
    from skipjack.sweep.result import SweepResult
    from skipjack.sweep.setting_up import SweepSetup

EXAMPLES = examples(
    "skipjack sweep rnnt.json --base base.json --build-cmd ./build.sh --run-cmd ./run.sh "
    "--metric samples_per_second:max --result json:out/result.json",
    "skipjack sweep tune_server.py --base base.json --build-cmd 'make generate_engines' "
    "--run-cmd 'make run_harness' --result loadgen:logs",
    "skipjack sweep tune_server.py --base base.json --dry-run",
    "skipjack sweep knobs.toml --searcher genetic --budget 40 --repeats 3 --report out",
    "skipjack sweep server.toml --load server_target_qps:500:9000 --confirm 5",
)


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
) -> None:
    """Find the best setting of a benchmark.

    Parameters reach the commands as environment variables of their own names, as
    {placeholders}, and in the JSON files that SKIPJACK_CONFIG (base and point) and
    SKIPJACK_POINT name. Running again continues.
    """
    said = dict(locals())
    from skipjack.sweep.files.toml_file import SETTINGS
    from skipjack.sweep.setting_up import set_up

    outputs = tuple(path.absolute() for path in (csv, report) if path)
    setup = set_up(file, {name: said[name] for name in (*SETTINGS, "no_rebuild")}, outputs)
    if dry_run:
        _dry_run(setup, json)
        return
    _finish(_run(setup, json, restart, retry_failed), csv, report, json)


def _run(setup: SweepSetup, json: bool, restart: bool, retry_failed: bool) -> SweepResult:
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.report.sweep_progress import sweep_progress
    from skipjack.settings import load_settings
    from skipjack.sweep.running import run_commands

    with watch_for_interrupt() as interrupt, sweep_progress(enabled=not json) as observe:
        return run_commands(
            setup,
            load_settings(),
            observe,
            lambda: interrupt.requested,
            start_over=restart,
            retry_failed=retry_failed,
        )


def _finish(result: SweepResult, csv: Path | None, report: Path | None, json: bool) -> None:
    """Show what was found, write it, and say by the exit code whether anything was."""
    from skipjack.report.sweep_table import print_sweep

    if json:
        echo_json(result)
    else:
        print_sweep(result)
    write_files(result, csv, report)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.best is None and result.trials:
        raise typer.Exit(1)


def echo_json(result: SweepResult, **more: object) -> None:
    """One object with everything, and perhaps more fields."""
    from json import dumps

    from skipjack.report.sweep_files import to_json

    typer.echo(dumps({**to_json(result), **more}))


def write_files(result: SweepResult, csv: Path | None, report: Path | None) -> None:
    """What ``--csv`` and ``--report`` ask for."""
    if csv:
        from skipjack.report import sweep_files

        sweep_files.write_csv(result, csv)
    if report:
        write_report(result, report)


def write_report(result: SweepResult, directory: Path) -> None:
    """Everything there is to know of a sweep, as files."""
    from skipjack.report.sweep_files import write_csv, write_json
    from skipjack.report.sweep_plots import PlotsMissingError, write_html, write_plots
    from skipjack.storage import atomic_write, ensure_directory

    ensure_directory(directory)
    write_json(result, directory / "result.json")
    write_csv(result, directory / "runs.csv")
    if result.user_conf:
        text = "".join(f"{line}\n" for line in result.user_conf)
        atomic_write(directory / "user.conf", text.encode())
    # The page does without matplotlib; plots alone do not.
    write_html(result, directory / "report.html")
    try:
        write_plots(result, directory)
    except PlotsMissingError as error:
        typer.echo(f"skipjack: the report is in {directory}, without plots: {error}", err=True)


def _dry_run(setup: SweepSetup, json: bool) -> None:
    from skipjack.ledger import Ledger
    from skipjack.settings import load_settings
    from skipjack.sweep.foreseeing import foresee
    from skipjack.sweep.running import past_runs

    settings = load_settings()
    with Ledger.open(settings.user_dir) as ledger:
        seen = foresee(setup, past_runs(setup, settings, ledger))
    if json:
        from json import dumps

        typer.echo(dumps(seen.to_json()))
    else:
        from skipjack.report.sweep_table import print_plan

        print_plan(seen)
