"""``skipjack bundle``: jobs for machines without a network, and their results, in files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skipjack.cli.arguments import (
    ArchOption,
    DeviceOption,
    JsonOption,
    RequiredLabel,
    UnitsOption,
    device_of,
    examples,
    the_store,
)
from skipjack.errors import SkipjackError

app = typer.Typer(
    help="Exchange jobs and results with machines without a network.",
    epilog=examples(
        "skipjack bundle export -l L -o jobs.skj --slice 1/4",
        "skipjack bundle evaluate jobs.skj -o results.skj --max-seconds 600",
        "skipjack bundle import results.skj",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)

OutputOption = Annotated[Path, typer.Option("-o", "--output", help="The file to write.")]


@app.command("export", epilog=examples("skipjack bundle export -l L -o jobs.skj --slice 1/4"))
def export(
    label: RequiredLabel,
    output: OutputOption,
    part: Annotated[
        str, typer.Option("--slice", help="Export one of several parts of the jobs, such as 1/4.")
    ] = "1/1",
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    json: JsonOption = False,
) -> None:
    """Write a label's built jobs and their machine code to a file."""
    from dataclasses import asdict

    from skipjack.fleet.bundle import export_bundle
    from skipjack.fleet.bundle.format import JobSlice
    from skipjack.fleet.store import BundleSelection
    from skipjack.reading import numbered
    from skipjack.report import print_json

    wanted = BundleSelection(label, device_of(device, arch, units), JobSlice.parse(part))
    with the_store() as store:
        done = export_bundle(store, wanted, output)
    if json:
        print_json("bundle export", asdict(done))
        return
    counts = numbered(done.jobs, "job"), numbered(done.artifacts, "kernel")
    typer.echo(f"{' with '.join(counts)} in {output}")
    if not done.runnable:
        typer.echo(
            "skipjack: the file has nothing to run, as all configs of these jobs failed to build; "
            f"skipjack reset -l {label} --state built --to new builds them again",
            err=True,
        )
    if done.lost or done.failed:
        typer.echo(
            f"skipjack: left out {numbered(done.lost, 'job')} whose machine code is gone and "
            f"will be built again, and {done.failed} whose device is unknown",
            err=True,
        )


@app.command(
    "evaluate",
    epilog=examples("skipjack bundle evaluate jobs.skj -o results.skj --max-seconds 600"),
)
def evaluate(
    jobs: Annotated[Path, typer.Argument(help="A bundle of jobs.")],
    output: OutputOption,
    max_seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Start no job that would end later than this.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="The file of the fleet's key, if it is not in the user directory."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Evaluate the jobs for devices of this machine; running again continues."""
    from dataclasses import asdict

    from skipjack import plugins
    from skipjack.fleet import existing_key
    from skipjack.fleet.bundle import Evaluation, evaluate_bundle
    from skipjack.reading import numbered
    from skipjack.report import print_json
    from skipjack.report.fleet import evaluation_bar
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    secret = existing_key(settings, key)
    with evaluation_bar(enabled=not json) as observe:
        how = Evaluation(max_seconds, on_progress=observe)
        done = evaluate_bundle(jobs, output, secret, how)
    if json:
        print_json("bundle evaluate", {**asdict(done), "elsewhere": dict(done.elsewhere)})
    else:
        before = f", {done.before} done before" if done.before else ""
        left = f", {done.left} left for the next run" if done.left else ""
        typer.echo(
            f"{done.done} of {numbered(done.tasks, 'job')} done{before}{left}; results in {output}"
        )
    if done.elsewhere and not json:
        listed = ", ".join(f"{count} for {name}" for name, count in done.elsewhere.items())
        typer.echo(f"skipjack: not for this machine: {listed}", err=True)
    if done.stopped == "interrupt":
        raise KeyboardInterrupt
    if done.stopped == "failures":
        raise SkipjackError("stopped after too many failures in a row; run again to continue")


@app.command("import", epilog=examples("skipjack bundle import results.skj"))
def import_results(
    results: Annotated[Path, typer.Argument(help="A bundle of results.")], json: JsonOption = False
) -> None:
    """Import results; importing them twice changes nothing."""
    from dataclasses import asdict

    from skipjack.fleet.bundle import import_bundle
    from skipjack.reading import numbered
    from skipjack.report import print_json

    with the_store() as store:
        done = import_bundle(store, results)
    if json:
        print_json("bundle import", {**asdict(done), "reasons": dict(done.reasons)})
    else:
        typer.echo(
            f"{done.accepted} of {numbered(done.results, 'result')} imported, "
            f"{numbered(done.finished, 'job')} evaluated; {done.duplicates} known before, "
            f"{done.refused} refused"
        )
    if done.refused and not json:
        for reason, count in done.reasons.items():
            typer.echo(f"skipjack: refused, {numbered(count, 'result')}: {reason}", err=True)
    if done.refused and not (done.accepted or done.duplicates):
        raise SkipjackError(f"no result in {results} could be imported")
