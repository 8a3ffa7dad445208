"""``skipjack status``, ``job``, ``reset``, ``abort`` and ``resume``: the jobs of the fleet."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    ArchOption,
    DeviceOption,
    JsonOption,
    LabelOption,
    RequiredLabel,
    UnitsOption,
    Work,
    device_of,
    examples,
    in_two_steps,
    state_of,
    the_store,
)
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.app import ActionResult, ActionTarget, FleetProgress, StatusRequest
    from skipjack.fleet.store import Store


# ``skipjack job`` and ``skipjack reset``: shows one job, and resets many.

_LOOK_EVERY_S = 1.0

JobArgument = Annotated[int, typer.Argument(help="A job's number, from skipjack status --jobs.")]
RESET_EXAMPLES = examples(
    "skipjack reset -l resnet_2026_11 --state error --to new",
    "skipjack reset -l resnet_2026_11 --state error --to built -a gfx90a -n 104",
)

app = typer.Typer(
    help="Show one job: its state, events and logs.",
    epilog=examples("skipjack job show 17", "skipjack job log 17"),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("show", epilog=examples("skipjack job show 17 --json"))
def show(job: JobArgument, json: JsonOption = False) -> None:
    """Show a job and all its events."""
    with the_store() as store:
        from skipjack.report.fleet import print_job

        print_job(store.jobs.get(job), store.jobs.history(job), json)


@app.command("log", epilog=examples("skipjack job log 17", "skipjack job log 17 --follow"))
def show_log(
    job: JobArgument,
    stage: Annotated[str | None, typer.Option(help="Only this stage: build or evaluate.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow the log until the current stage ends.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show what builders and evaluators logged about this job, so far if it is in progress."""
    if stage not in (None, "build", "evaluate"):
        raise UsageError(f"unknown stage {stage!r}; choose build or evaluate")
    with the_store() as store:
        from skipjack.report.fleet import LogPrinter

        printer, attempt = LogPrinter(json), store.jobs.get(job).attempt
        running = True
        while running:
            now = store.jobs.get(
                job
            )  # before reading the log, which is then complete if the stage ends meanwhile
            printer.show([text for text in store.jobs.log(job) if stage in (None, str(text.stage))])
            at_it = now.status.state.claimed and stage in (None, str(now.status.working))
            running = follow and at_it and now.attempt == attempt
            time.sleep(_LOOK_EVERY_S if running else 0)


def reset(
    label: RequiredLabel,
    state: Annotated[str, typer.Option(help="Jobs in this state, such as error.")],
    to: Annotated[str, typer.Option(help="new: build the round again; built: evaluate it again.")],
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    json: JsonOption = False,
) -> None:
    """Reset jobs of a label, so that they are done again.

    With --to new, evaluated jobs start over.
    """
    from skipjack.app import ResetRequest, reset_jobs
    from skipjack.reading import numbered
    from skipjack.report import print_json

    target = state_of(to)
    request = ResetRequest(label, state_of(state), target, device_of(device, arch, units))
    with the_store() as store:
        done = reset_jobs(store, request, by=getpass.getuser())
    if json:
        record = {"reset": done.reset, "refused": done.refused}
        print_json("reset", {**record, "reasons": list(done.reasons)})
    else:
        typer.echo(f"{numbered(done.reset, 'job')} reset to {to}")
    if done.refused:
        raise SkipjackError(f"{numbered(done.refused, 'job')} left unchanged: {done.reasons[0]}")


# ``skipjack status``: the states of jobs.

STATUS_EXAMPLES = examples(
    "skipjack status",
    "skipjack status -l resnet_2026_11",
    "skipjack status -l resnet_2026_11 --by device,state,build_machine,eval_machine,gpu",
    "skipjack status -l resnet_2026_11 --state error --jobs",
    "skipjack status -l resnet_2026_11 --watch",
)


@in_two_steps
def status(
    label: LabelOption = None,
    by: Annotated[
        str,
        typer.Option(
            help="Columns to count by, separated by commas: label, device, arch, units, state, "
            "stage, solver, kind, operation, direction, build_machine, eval_machine, gpu."
        ),
    ] = "state",
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="List the jobs with their reasons.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of jobs to list.")] = 50,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show the progress until all jobs of the label have ended."),
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.1, help="With --watch, seconds between two looks.")
    ] = 2.0,
    json: JsonOption = False,
) -> Work:
    """Count jobs; without a label, list labels and machines."""
    from skipjack.app import StatusRequest

    if watch:
        if jobs or state or by != "state" or device or arch:
            raise UsageError(
                "--watch shows the jobs of a label, or all; --by, --state, --device and --jobs do "
                "not go with it"
            )
        return partial(_watch, label, every, json)
    request = StatusRequest(
        label,
        tuple(name.strip() for name in by.split(",") if name.strip()),
        state_of(state) if state else None,
        device_of(device, arch, units),
        jobs,
        limit,
    )
    return partial(_status, request, json)


def _status(request: StatusRequest, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet import render_status

    render_status(app.status(request), json)


def _watch(label: str | None, every_s: float, json: bool) -> None:
    from skipjack.app import progress_of
    from skipjack.report.fleet import watch_progress

    with the_store(to_read=True) as store:

        def changes() -> Iterator[FleetProgress]:
            while True:
                progress = progress_of(store, label)
                yield progress
                if progress.is_over:
                    return
                time.sleep(every_s)

        watch_progress(changes(), json)


# ``skipjack abort`` and ``skipjack resume``: stop and resume jobs by label, device or machine.

ABORT_EXAMPLES = examples(
    "skipjack abort -l resnet_2026_11",
    "skipjack abort --machine gpu7",
    "skipjack abort --device gfx90a/104 --yes",
    "skipjack abort -a gfx900",
)
RESUME_EXAMPLES = examples(
    "skipjack resume -l resnet_2026_11",
    "skipjack resume --machine gpu7",
    "skipjack resume -a gfx900",
)

MachineOption = Annotated[str | None, typer.Option("--machine", help="A machine by name.")]
WholeArchOption = Annotated[
    str | None,
    typer.Option(
        "-a", "--arch", help="All devices of an architecture; with -n, --device ARCH/UNITS."
    ),
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask, even if labels of others are affected.")
]


def abort(
    label: LabelOption = None,
    machine: MachineOption = None,
    device: DeviceOption = None,
    arch: WholeArchOption = None,
    units: UnitsOption = None,
    reason: Annotated[str, typer.Option(help="The reason, which is recorded with each job.")] = "",
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Stop jobs until they are resumed; no results are lost.

    They stop within seconds.
    """
    from skipjack.app import abort_jobs

    target = _target(label, machine, device, arch, units)
    with the_store() as store:
        if not yes:
            _ask_before_touching_others(store, target)
        done = abort_jobs(store, target, by=getpass.getuser(), reason=reason)
    _say("aborted", done, json)


def resume(
    label: LabelOption = None,
    machine: MachineOption = None,
    device: DeviceOption = None,
    arch: WholeArchOption = None,
    units: UnitsOption = None,
    json: JsonOption = False,
) -> None:
    """Resume aborted jobs.

    A quarantined machine gets jobs again.
    """
    from skipjack.app import resume_jobs

    target = _target(label, machine, device, arch, units)
    with the_store() as store:
        done = resume_jobs(store, target, by=getpass.getuser())
    _say("resumed", done, json)
    if done.still_stopped:
        raise SkipjackError(
            f"jobs of {label} are for devices that are aborted: {', '.join(done.still_stopped)}; "
            f"skipjack resume --device {done.still_stopped[0]} resumes them"
        )


def _target(
    label: str | None, machine: str | None, device: str | None, arch: str | None, units: int | None
) -> ActionTarget:
    """The target; an architecture without units means all its devices."""
    from skipjack.app import ActionTarget

    if arch is not None and units is None and device is None:
        return ActionTarget(label, machine, arch=arch)
    return ActionTarget(label, machine, device_of(device, arch, units))


def _ask_before_touching_others(store: Store, target: ActionTarget) -> None:
    from skipjack.app import touched_by_others

    others = touched_by_others(store, target, getpass.getuser())
    if not others:
        return
    listed = ", ".join(others)
    if not sys.stdin.isatty():
        raise UsageError(f"this would stop labels of other users: {listed}; add --yes to do so")
    typer.confirm(f"This stops labels of other users: {listed}. Continue?", abort=True, err=True)


def _say(what: str, done: ActionResult, json: bool) -> None:
    from skipjack.report import print_json

    if json:
        print_json("abort", {what: done.jobs})
    else:
        typer.echo(done.sentence)
