"""Counts of jobs, lists of them, and what labels and machines there are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from json import dumps

from rich import box
from rich.table import Table
from rich.text import Text

from skipjack.core.device import arch_of
from skipjack.fleet.records import Job, Label, Machine
from skipjack.fleet.states import State
from skipjack.fleet.store.jobs.labels import LabelSummary
from skipjack.report import screen
from skipjack.report.numbers import time_text

FORMAT = 1

_FOLDED = ("why", "notes")
"""Columns that are folded where room is short."""
Counts = Sequence[tuple[tuple[str, ...], int]]


@dataclass(frozen=True, slots=True)
class Idle:
    """Who there is, and who of them gets no jobs."""

    machines: Sequence[Machine]
    disabled: Collection[str]
    """Names of machines that somebody has disabled in the registry."""
    stopped: Sequence[str]
    """Devices that are aborted."""
    architectures: Sequence[str] = ()
    """Those whose devices are aborted, and will be when they turn up."""


def counts(
    label: Label | None,
    columns: Sequence[str],
    found: Counts,
    idle: Idle,
    json: bool,
) -> None:
    """One row for each combination; for machines an object of states if that is all there is."""
    notes = notes_of(label) if label else {}
    if json:
        rows = [{**dict(zip(columns, values, strict=True)), "jobs": n} for values, n in found]
        name = label.name if label else None
        record: dict[str, object] = {"format": FORMAT, "label": name, **notes, "counts": rows}
        record["total"] = _total(found)
        if list(columns) == ["state"]:
            record["states"] = {values[0]: count for values, count in found}
        print(dumps(record))
        return
    table = _table(*columns)
    table.add_column("jobs", justify="right")
    for values, count in found:
        table.add_row(*(value or "-" for value in values), str(count))
    if label and any(notes.values()):
        said = f"{label.name}: {_noted(label)}"
        screen.out().print(said, markup=False, soft_wrap=True)
    _print(table, "no jobs match")
    _name_idle(idle)


def overview(
    labels: Sequence[LabelSummary],
    idle: Idle,
    url: str,
    json: bool,
) -> None:
    """All labels, newest first, and the machines that get no jobs."""
    if json:
        for one in labels:
            jobs = {str(state): n for state, n in one.jobs.items() if n}
            record = {"label": one.label.name, "owner": one.label.owner, "aborted": one.aborted}
            print(dumps({"format": FORMAT, **record, **notes_of(one.label), "states": jobs}))
        return
    console = screen.out()
    console.print(f"store {url}", markup=False, soft_wrap=True)
    noted = any(_noted(one.label) for one in labels)
    table = _table("label", "owner", "created", "jobs", *(["notes"] if noted else []))
    for one in labels:
        states = [f"{one.jobs[state]} {state}" for state in State if one.jobs.get(state)]
        note = " (aborted)" if one.aborted else ""
        cells = (one.label.name + note, one.label.owner, one.label.created[:16], ", ".join(states))
        table.add_row(*map(Text, cells), *([Text(_noted(one.label))] if noted else []))
    _print(table, "no labels yet; skipjack load makes one")
    _name_idle(idle)


def notes_of(label: Label) -> dict[str, str]:
    """What people wrote about a label when they loaded it."""
    return {name: getattr(label, name) for name in ("ticket", "versions", "image", "toolchain")}


def _noted(label: Label) -> str:
    return ", ".join(f"{name} {text}" for name, text in notes_of(label).items() if text)


def job_list(found: Sequence[Job], json: bool) -> None:
    """One row a job."""
    if json:
        for job in found:
            print(dumps(job_json(job)))
        return
    table = _table(
        *("job", "label", "problem", "device", "solver", "state", "retries", "trials", "best"),
        "why",
    )
    for job in found:
        plan, standing = job.plan, job.standing
        table.add_row(
            *(str(job.id), job.label, plan.problem, job.device_text or plan.device, plan.solver),
            str(standing.state),
            str(standing.retries),
            f"{job.trials}/{plan.budget}",
            time_text(job.best_ns) if job.best_ns is not None else "-",
            Text(standing.reason),  # brackets in it are no markup
        )
    _print(table, "no jobs match")


def job_json(job: Job) -> dict[str, object]:
    """A job for machines."""
    plan, standing = job.plan, job.standing
    return {
        "format": FORMAT,
        "job": job.id,
        "label": job.label,
        "problem": plan.problem,
        "device": plan.device,
        "device_class": job.device_class,
        "solver": plan.solver,
        "searcher": plan.searcher,
        "seed": plan.seed,
        "budget": plan.budget,
        "round_size": plan.round,
        "state": str(standing.state),
        "stage": str(standing.stage) if standing.stage else None,
        "reason": standing.reason,
        "epoch": standing.epoch,
        "round": standing.round,
        "failures": standing.failures,
        "losses": standing.losses,
        "retries": standing.retries,
        "attempts": job.attempt,
        "priority": job.priority,
        "trials": job.trials,
        "failed_trials": job.failed_trials,
        "best_ns": job.best_ns,
        "build_machine": job.build_machine,
        "eval_machine": job.eval_machine,
        "gpu": job.gpu,
        "created": job.created,
        "updated": job.updated,
        "result": dict(job.result) if job.result is not None else None,
    }


def _name_idle(idle: Idle) -> None:
    for arch in idle.architectures:
        screen.out().print(
            f"all devices of {arch} are aborted; skipjack resume -a {arch}", soft_wrap=True
        )
    for name in idle.stopped:
        if arch_of(name) in idle.architectures:
            continue
        screen.out().print(
            f"device {name} is aborted; skipjack resume --device {name}", soft_wrap=True
        )
    for machine in idle.machines:
        if machine.pause and not (machine.set_aside or machine.aborted):
            screen.out().print(
                f"machine {machine.name} {machine.pause}; skipjack resume --machine {machine.name} "
                "gives it jobs at once",
                markup=False,
                soft_wrap=True,
            )
        if machine.set_aside or machine.aborted:
            why = f"was set aside: {machine.set_aside}" if machine.set_aside else "is aborted"
            verb = "machine enable" if machine.name in idle.disabled else "resume --machine"
            screen.out().print(
                f"machine {machine.name} {why}; skipjack {verb} {machine.name}",
                markup=False,
                soft_wrap=True,
            )


def _total(found: Counts) -> int:
    return sum(count for _, count in found)


def _print(table: Table, if_empty: str) -> None:
    if table.rows:
        screen.print_table(table)
    else:
        screen.out().print(if_empty)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=name not in _FOLDED)
    return table
