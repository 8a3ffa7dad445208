"""``skipjack job`` and ``skipjack reset``: one job looked at, many repaired."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from skipjack.cli.fleet.options import (
    ArchOption,
    DeviceOption,
    RequiredLabel,
    UnitsOption,
    device_of,
    state_of,
    the_store,
)
from skipjack.cli.options import JsonOption, examples
from skipjack.errors import SkipjackError, UsageError

_LOOK_EVERY_S = 1.0

JobArgument = Annotated[int, typer.Argument(help="A job's number, as status --jobs lists them.")]
RESET_EXAMPLES = examples(
    "skipjack reset -l resnet_2026_11 --state error --to new",
    "skipjack reset -l resnet_2026_11 --state error --to built -a gfx90a -n 104",
)

app = typer.Typer(
    help="One job: what it is, what happened, what its workers said.",
    epilog=examples("skipjack job show 17", "skipjack job log 17"),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("show", epilog=examples("skipjack job show 17 --json"))
def show(job: JobArgument, json: JsonOption = False) -> None:
    """Show a job and everything that happened to it."""
    with the_store() as store:
        from skipjack.report.fleet.job import print_job

        print_job(store.jobs.get(job), store.jobs.story(job), json)


@app.command("log", epilog=examples("skipjack job log 17", "skipjack job log 17 --follow"))
def show_log(
    job: JobArgument,
    stage: Annotated[str | None, typer.Option(help="Only build or evaluate.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the stage that runs now ends.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show what builders and evaluators said about this job alone, so far if one is at it."""
    if stage not in (None, "build", "evaluate"):
        raise UsageError(f"unknown stage {stage!r}: choose build or evaluate")
    with the_store() as store:
        from skipjack.report.fleet.job import LogPrinter

        printer, attempt = LogPrinter(json), store.jobs.get(job).attempt
        running = True
        while running:
            now = store.jobs.get(job)  # before the log: what ends meanwhile is whole in it
            printer.show([text for text in store.jobs.log(job) if stage in (None, str(text.stage))])
            at_it = now.standing.state.claimed and stage in (None, str(now.standing.working))
            running = follow and at_it and now.attempt == attempt
            time.sleep(_LOOK_EVERY_S if running else 0)


def reset(
    label: RequiredLabel,
    state: Annotated[str, typer.Option(help="Jobs in this state, as error.")],
    to: Annotated[str, typer.Option(help="new: build the round again; built: evaluate it again.")],
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    json: JsonOption = False,
) -> None:
    """Let jobs of a label be done again.

    Those that are evaluated start over with --to new.
    """
    from skipjack.fleet.states import State
    from skipjack.reading import numbered
    from skipjack.report import print_json

    target = state_of(to)
    if target not in (State.NEW, State.BUILT):
        raise UsageError(f"jobs are reset to new or built, not to {to}")
    with the_store() as store:
        done = store.jobs.reset(
            label, state_of(state), target, device=device_of(device, arch, units)
        )
    if json:
        record = {"reset": done.reset, "refused": done.refused}
        print_json("reset", {**record, "reasons": list(done.reasons)})
    else:
        typer.echo(f"{numbered(done.reset, 'job')} reset to {to}")
    if done.refused:
        raise SkipjackError(f"{numbered(done.refused, 'job')} left unchanged: {done.reasons[0]}")
