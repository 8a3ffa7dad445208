"""``skipjack plan``: a cycle of commands in one file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, examples
from skipjack.errors import UsageError
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.plans import Mistakes, Observer, PlannedStep, PlanProgress

app = typer.Typer(
    help="Check, run and resume a cycle of commands in one file.",
    epilog=examples(
        "skipjack plan init cycle.yaml",
        "skipjack plan check cycle.yaml",
        "skipjack plan run cycle.yaml",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)

PlanArgument = Annotated[Path, typer.Argument(help="The plan, a YAML file.")]
ProgressOption = Annotated[
    Path | None,
    typer.Option(help="The file that records the progress (PLAN.progress.jsonl)."),
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("-C", "--directory", help="The directory in which steps run (that of the plan)."),
]


@app.callback()
def group() -> None:
    """Check, run and resume a cycle of commands in one file."""


@app.command(
    "run",
    epilog=examples(
        "skipjack plan run cycle.yaml",
        "skipjack plan run cycle.yaml --dry-run",
        "skipjack plan run cycle.yaml --from load",
    ),
)
def run(
    plan: PlanArgument,
    start: Annotated[
        str | None, typer.Option("--from", help="Continue from this step, given by number or name.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over with the first step.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands that are left, and start none.")
    ] = False,
    progress: ProgressOption = None,
    directory: DirectoryOption = None,
    json: JsonOption = False,
) -> None:
    """Run the steps that are left; all of them are checked before the first one starts."""
    from contextlib import nullcontext

    from skipjack.plans import PlanProgress, find_step

    if start is not None and restart:
        raise UsageError("--from and --restart exclude each other")
    ready = _ready(plan, progress, directory)
    record = PlanProgress(ready.progress)
    with nullcontext() if dry_run else record:
        first = find_step(ready.steps, start) if start else ready.steps[0] if restart else None
        steps = _left(ready, record, first)
        _check_inputs(ready, steps)
        if dry_run:
            _print_commands(steps, json)
            return
        if restart:
            record.restart()
        elif first is not None:
            record.go_on_from(first, ready.steps[: first.number - 1])
        _run(ready, steps, record, json)


@app.command("check", epilog=examples("skipjack plan check cycle.yaml"))
def check(plan: PlanArgument, directory: DirectoryOption = None, json: JsonOption = False) -> None:
    """List all mistakes of a plan with their lines; start nothing."""
    from skipjack.report import print_json

    name, steps, mistakes = _read(plan, directory)
    if json:
        found = [{"line": line, "sentence": text} for line, text in sorted(mistakes.found)]
        print_json("plan check", {"plan": name, "steps": len(steps), "mistakes": found})
    else:
        for line in mistakes.lines:
            typer.echo(line)
    if mistakes.found:
        count = len(mistakes.found)
        raise UsageError(f"{numbered(count, 'mistake')} in {plan}; nothing was started")
    if not json:
        typer.echo(f"{name}: {numbered(len(steps), 'step')}, no mistakes")


@app.command("show", epilog=examples("skipjack plan show cycle.yaml"))
def show(
    plan: PlanArgument,
    progress: ProgressOption = None,
    directory: DirectoryOption = None,
    json: JsonOption = False,
) -> None:
    """Show the steps of a plan and the state of each."""
    from skipjack.plans import PlanProgress, command_line, state_of_step
    from skipjack.report import print_json

    ready = _ready(plan, progress, directory)
    record = PlanProgress(ready.progress)
    running = record.running()  # before reading the history: a step may end in between
    history = record.history()
    for step in ready.steps:
        state = state_of_step(step, history, running=running)
        seconds = history.last.get(step.number, {}).get("seconds")
        if json:
            about = {"step": step.number, "name": step.name, "standing": state}
            more = {"seconds": seconds, "line": step.line, "argv": list(step.argv)}
            print_json("plan show", {**about, **more})
        else:
            took = f"{seconds:8.1f} s" if isinstance(seconds, int | float) else " " * 10
            name = f"  # {step.name}" if step.name else ""
            typer.echo(f"{step.number:3} {state:11} {took}  {command_line(step)}{name}")


@app.command("init", epilog=examples("skipjack plan init cycle.yaml"))
def init(plan: Annotated[Path, typer.Argument(help="The file to write.")]) -> None:
    """Write an example plan with comments."""
    from skipjack.plans import write_example

    write_example(plan)
    typer.echo(f"{plan} written; skipjack plan check {plan} checks it, plan run {plan} runs it")


@dataclass(frozen=True)
class _Ready:
    """A plan without mistakes."""

    path: Path
    name: str
    steps: tuple[PlannedStep, ...]
    directory: Path
    progress: Path


def _read(
    path: Path, directory: Path | None, *, inputs: bool = True
) -> tuple[str, tuple[PlannedStep, ...], Mistakes]:
    """A plan's name, its steps, and all its mistakes."""
    from skipjack.cli.command_book import command_book
    from skipjack.cli.main import app as whole
    from skipjack.plans import Mistakes, check_inputs, read_plan, validate

    mistakes = Mistakes(path)
    plan = read_plan(path, mistakes)
    # A plan within a plan would have two progress files.
    book = {name: one for name, one in command_book(whole).items() if one.words[0] != "plan"}
    steps = validate(plan, book, mistakes)
    if inputs:
        check_inputs(steps, _home(path, directory), mistakes)
    return plan.name, steps, mistakes


def _home(path: Path, directory: Path | None) -> Path:
    home = path.absolute().parent if directory is None else directory.absolute()
    if not home.is_dir():
        raise UsageError(f"there is no directory {home}")
    return home


def _ready(path: Path, progress: Path | None, directory: Path | None) -> _Ready:
    """The plan; an error that names the first mistake, if it has any."""
    name, steps, mistakes = _read(path, directory, inputs=False)
    mistakes.refuse()
    home = _home(path, directory)
    return _Ready(path, name, steps, home, progress or home / f"{path.stem}.progress.jsonl")


def _check_inputs(ready: _Ready, steps: tuple[PlannedStep, ...]) -> None:
    """Check that input files of the steps to run exist; those of finished steps may be gone."""
    from skipjack.plans import Mistakes, check_inputs

    mistakes = Mistakes(ready.path)
    check_inputs(steps, ready.directory, mistakes)
    mistakes.refuse()


def _left(
    ready: _Ready, record: PlanProgress, first: PlannedStep | None
) -> tuple[PlannedStep, ...]:
    """The steps to run, from the user's choice or from the recorded progress."""
    from skipjack.plans import to_do

    if first is None:
        return to_do(ready.steps, record.history())
    return tuple(step for step in ready.steps if step.enabled and step.number >= first.number)


def _print_commands(steps: tuple[PlannedStep, ...], json: bool) -> None:
    from skipjack.plans import command_line
    from skipjack.report import print_json

    for step in steps:
        if json:
            print_json("plan run", {"step": step.number, "argv": list(step.argv)})
        else:
            typer.echo(command_line(step))


def _run(ready: _Ready, steps: tuple[PlannedStep, ...], record: PlanProgress, json: bool) -> None:
    from skipjack.plans import PlanRun, run_steps

    if not steps and not json:
        typer.echo(f"{ready.name}: nothing is left to do; --restart runs all steps again")
        return
    # With --json, standard output is for the plan's own lines.
    output = sys.stderr if json else None
    plan_run = PlanRun(ready.name, steps, ready.directory, output=output)
    run_steps(plan_run, record, _observer(len(ready.steps), json))
    if not json:
        typer.echo(f"{ready.name}: all steps are done")


def _observer(total: int, json: bool) -> Observer:
    from skipjack.report import print_json

    def observe(line: Mapping[str, object]) -> None:
        if json:
            print_json("plan run", line)
        elif line["event"] == "begun":
            typer.echo(f"step {line['step']} of {total}: {line['name']}")
        sys.stdout.flush()

    return observe
