"""Counts of jobs, lists of them, and what labels and machines there are."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.app import FleetOverview, FleetStatus, Idle, JobCounts, JobListing
from skipjack.core.device import arch_of
from skipjack.fleet.records import Job, Label
from skipjack.fleet.states import State
from skipjack.report.numbers import time_text
from skipjack.report.render import TableColumn, print_json, print_rows, say


def render_status(found: FleetStatus, json: bool) -> None:
    """All labels, counts of jobs, or jobs one by one."""
    if isinstance(found, FleetOverview):
        _overview(found, json)
    elif isinstance(found, JobListing):
        _job_list(found.jobs, json)
    else:
        _counts(found, json)


def _counts(found: JobCounts, json: bool) -> None:
    """One row for each combination; for machines an object of states if that is all there is."""
    label, columns = found.label, found.columns
    notes = notes_of(label) if label else {}
    if json:
        rows = [
            {**dict(zip(columns, values, strict=True)), "jobs": n} for values, n in found.counts
        ]
        name = label.name if label else None
        record: dict[str, object] = {"label": name, **notes, "counts": rows, "total": found.total}
        if list(columns) == ["state"]:
            record["states"] = {values[0]: count for values, count in found.counts}
        print_json("status", record)
        return
    if label and any(notes.values()):
        say(f"{label.name}: {_noted(label)}")
    print_rows(
        [*columns, TableColumn("jobs", right=True)],
        [(*(value or "-" for value in values), str(count)) for values, count in found.counts],
        if_empty="no jobs match",
    )
    _name_idle(found.idle)


def _overview(found: FleetOverview, json: bool) -> None:
    """All labels, newest first, and the machines that get no jobs."""
    if json:
        for one in found.labels:
            jobs = {str(state): n for state, n in one.jobs.items() if n}
            record = {"label": one.label.name, "owner": one.label.owner, "aborted": one.aborted}
            print_json("status", {**record, **notes_of(one.label), "states": jobs})
        return
    say(f"store {found.store}")
    noted = any(_noted(one.label) for one in found.labels)
    rows = []
    for one in found.labels:
        states = [f"{one.jobs[state]} {state}" for state in State if one.jobs.get(state)]
        name = one.label.name + (" (aborted)" if one.aborted else "")
        cells = (name, one.label.owner, one.label.created[:16], ", ".join(states))
        rows.append((*cells, _noted(one.label)) if noted else cells)
    notes = [TableColumn("notes", folded=True)] if noted else []
    print_rows(
        ["label", "owner", "created", "jobs", *notes],
        rows,
        if_empty="no labels yet; skipjack load makes one",
    )
    _name_idle(found.idle)


def notes_of(label: Label) -> dict[str, str]:
    """What people wrote about a label when they loaded it."""
    return {name: getattr(label, name) for name in ("ticket", "versions", "image", "toolchain")}


def _noted(label: Label) -> str:
    return ", ".join(f"{name} {text}" for name, text in notes_of(label).items() if text)


def _job_list(found: Sequence[Job], json: bool) -> None:
    """One row a job."""
    if json:
        for job in found:
            print_json("job show", job_json(job))
        return
    print_rows(
        [
            *("job", "label", "problem", "device", "solver", "state", "retries", "trials", "best"),
            TableColumn("why", folded=True),
        ],
        [_job_row(job) for job in found],
        if_empty="no jobs match",
    )


def _job_row(job: Job) -> tuple[str, ...]:
    plan, standing = job.plan, job.standing
    return (
        *(str(job.id), job.label, plan.problem, job.device_text or plan.device),
        plan.shown_solver,
        str(standing.state),
        str(standing.retries),
        f"{job.trials}/{plan.budget}",
        time_text(job.best_ns) if job.best_ns is not None else "-",
        standing.reason,
    )


def job_json(job: Job) -> dict[str, object]:
    """A job for machines."""
    plan, standing = job.plan, job.standing
    return {
        "job": job.id,
        "label": job.label,
        "problem": plan.problem,
        "device": plan.device,
        "device_class": job.device_class,
        "kind": str(plan.kind),
        "driver": plan.driver,
        "solver": plan.shown_solver,
        "searcher": plan.shown_searcher,
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
        say(f"all devices of {arch} are aborted; skipjack resume -a {arch}")
    for name in idle.stopped:
        if arch_of(name) not in idle.architectures:
            say(f"device {name} is aborted; skipjack resume --device {name}")
    for machine in idle.machines:
        if machine.pause and not (machine.set_aside or machine.aborted):
            say(
                f"machine {machine.name} {machine.pause}; skipjack resume --machine {machine.name} "
                "gives it jobs at once"
            )
        if machine.set_aside or machine.aborted:
            why = f"was set aside: {machine.set_aside}" if machine.set_aside else "is aborted"
            verb = "machine enable" if machine.name in idle.disabled else "resume --machine"
            say(f"machine {machine.name} {why}; skipjack {verb} {machine.name}")
