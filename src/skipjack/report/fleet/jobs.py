"""Counts and lists of jobs; one job with its events and logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from json import dumps
from typing import TYPE_CHECKING

from skipjack.app import FleetOverview, FleetStatus, IdleMachines, JobCounts, JobListing
from skipjack.core import arch_of
from skipjack.fleet.model import DeviceTime, Job, JobEvent, JobKind, JobState, Label
from skipjack.report import screen
from skipjack.report.escaping import uncoloured
from skipjack.report.numbers import time_text
from skipjack.report.screen import TableColumn, print_json, print_rows, say

if TYPE_CHECKING:
    from skipjack.fleet.store import LogText


# Counts and lists of jobs, and overviews of labels and machines.


def render_status(found: FleetStatus, json: bool) -> None:
    """Print all labels, counts of jobs, or a list of jobs."""
    if isinstance(found, FleetOverview):
        _overview(found, json)
    elif isinstance(found, JobListing):
        _job_list(found.jobs, json)
    else:
        _counts(found, json)


def _counts(found: JobCounts, json: bool) -> None:
    """Print a row for each combination of values; or one JSON record."""
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
        if found.device_time:
            record["device_seconds"] = device_time_json(found.device_time)
        print_json("status", record)
        return
    if label and any(notes.values()):
        say(f"{label.name}: {_noted(label)}")
    print_rows(
        [*columns, TableColumn("jobs", right=True)],
        [(*(value or "-" for value in values), str(count)) for values, count in found.counts],
        if_empty="no jobs match",
    )
    if found.device_time:
        say(device_time_text(found.device_time))
    _name_idle(found.idle)


def device_time_json(time: DeviceTime) -> dict[str, object]:
    """The JSON record of a label's device time."""
    per_us = time.seconds_per_us
    return {
        "budget": time.budget_s,
        "used": round(time.used_s, 3),
        "left": None if time.left_s is None else round(time.left_s, 3),
        "won_us": round(time.won_ns / 1000.0, 3),
        "per_us": None if per_us is None else float(f"{per_us:.4g}"),
        "weighted": time.weighted,
    }


def device_time_text(time: DeviceTime) -> str:
    """The device time of a label in a line."""
    limit = "" if time.budget_s is None else f" of {time.budget_s:,g}"
    left = "" if time.left_s is None else f", {time.left_s:,.1f} left"
    per_us = time.seconds_per_us
    what = "all calls" if time.weighted else "one call of each problem"
    won = "nothing won yet" if per_us is None else f"{per_us:.3g} per microsecond won in {what}"
    return f"device-seconds: {time.used_s:,.1f}{limit} used{left}; {won}"


def _overview(found: FleetOverview, json: bool) -> None:
    """Print all labels, newest first, and the machines that get no jobs."""
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
        states = [f"{one.jobs[state]} {state}" for state in JobState if one.jobs.get(state)]
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
    """The notes that were given when the label was loaded."""
    return {name: getattr(label, name) for name in ("ticket", "versions", "image", "toolchain")}


def _noted(label: Label) -> str:
    return ", ".join(f"{name} {text}" for name, text in notes_of(label).items() if text)


def _job_list(found: Sequence[Job], json: bool) -> None:
    """Print a row for each job."""
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
    plan, status = job.plan, job.status
    return (
        *(str(job.id), job.label, plan.problem, job.device_text or plan.device),
        plan.shown_solver,
        str(status.state),
        str(status.retries),
        f"{job.trials}/{plan.budget}",
        time_text(job.best_ns) if job.best_ns is not None else "-",
        status.reason,
    )


def job_json(job: Job) -> dict[str, object]:
    """The JSON record of a job."""
    plan, status = job.plan, job.status
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
        "state": str(status.state),
        "stage": str(status.stage) if status.stage else None,
        "reason": status.reason,
        "epoch": status.epoch,
        "round": status.round,
        "failures": status.failures,
        "losses": status.losses,
        "retries": status.retries,
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


def _name_idle(idle: IdleMachines) -> None:
    for arch in idle.architectures:
        say(f"all devices of {arch} are aborted; skipjack resume -a {arch}")
    for name in idle.stopped:
        if arch_of(name) not in idle.architectures:
            say(f"device {name} is aborted; skipjack resume --device {name}")
    for machine in idle.machines:
        if machine.pause and not (machine.quarantined or machine.aborted):
            say(
                f"machine {machine.name} {machine.pause}; skipjack resume --machine {machine.name} "
                "gives it jobs at once"
            )
        if machine.quarantined or machine.aborted:
            why = f"is quarantined: {machine.quarantined}" if machine.quarantined else "is aborted"
            verb = "machine enable" if machine.name in idle.disabled else "resume --machine"
            say(f"machine {machine.name} {why}; skipjack {verb} {machine.name}")


# One job: its facts, events and logs.


def print_job(job: Job, history: Sequence[JobEvent], json: bool) -> None:
    """Print the job and all its events."""
    if json:
        print_json("job show", {**job_json(job), "story": [asdict(line) for line in history]})
        return
    screen.print_fields(_facts(job))
    say("")
    for line in history:
        place = f" on {line.machine} {line.gpu}".rstrip() if line.machine else ""
        why = f": {line.reason}" if line.reason else ""
        step = f"{line.before} -> {line.after}" if line.before else line.after
        say(f"{line.at[:23]}  round {line.round}  {line.event:<12}  {step}{place}{why}")


_GAP = re.compile(r"\[\.\.\. \d+ characters left out \.\.\.\]")


class LogPrinter:
    """Prints the logs of a job, stage by stage; when called again, only new lines."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._shown: dict[tuple[int, str], Counter[str]] = {}
        """Printed lines by attempt and stage; lines of programs may move as others are logged."""

    def show(self, texts: Sequence[LogText]) -> None:
        """Print the lines that were not printed before."""
        if not texts and not self._json and not self._shown:
            say("this job has no log yet")
        for text in texts:
            key = text.attempt, str(text.stage)
            first, shown = key not in self._shown, self._shown.get(key, Counter())
            lines = text.text.splitlines()
            self._shown[key] = Counter(lines) | shown
            new = list(_beyond(lines, shown))
            if new or first:
                self._print(text, new, first)

    def _print(self, text: LogText, lines: Sequence[str], first: bool) -> None:
        words = "\n".join(lines)
        if self._json:
            record = {**asdict(text), "stage": str(text.stage), "text": words}
            print_json("job log", record)
            return
        if first:
            where = f" on {text.machine}" if text.machine else ""
            still = ", still running" if text.running else ""
            say(f"--- {text.at[:19]}  {text.stage} of round {text.round}{where}{still}")
        say(uncoloured(words).rstrip())


def _beyond(lines: Sequence[str], shown: Mapping[str, int]) -> Iterator[str]:
    """Lines that occur more often than they were shown."""
    seen: Counter[str] = Counter()
    for line in lines:
        if shown and _GAP.fullmatch(line):
            continue  # its number of characters changes
        seen[line] += 1
        if seen[line] > shown.get(line, 0):
            yield line


def _facts(job: Job) -> list[tuple[str, str]]:
    plan, status = job.plan, job.status
    facts = [
        ("job", f"{job.id} of {job.label}"),
        ("problem", plan.problem),
        ("device", job.device_text or plan.device),
        ("solver", plan.shown_solver),
        ("searcher", f"{plan.shown_searcher}, seed {plan.seed}"),
        ("state", str(status.state) + (f" in {status.stage}" if status.stage else "")),
        ("reason", status.reason),
        ("retries", str(status.retries)),
        ("trials", f"{job.trials} of {plan.budget}, {job.failed_trials} failed"),
        ("best", time_text(job.best_ns) if job.best_ns is not None else ""),
        ("built on", job.build_machine),
        ("timed on", f"{job.eval_machine} {job.gpu}".strip()),
    ]
    if job.result is not None:
        from skipjack.ledger import decision_word

        facts += [
            ("verdict", decision_word(str(job.result.get("status", "")))),
            ("winner", f"{job.result.get('solver')} {dumps(job.result.get('config'))}"),
            ("ranking", _ranking(job)),
        ]
    return [(name, value) for name, value in facts if value]


def _ranking(job: Job) -> str:
    """The solvers of a find with their times, fastest first."""
    if job.result is None or job.plan.kind is not JobKind.FIND:
        return ""
    timed = [row for row in job.result.get("solvers", ()) if row.get("time_ns") is not None]
    return ", ".join(f"{row['solver']} {time_text(row['time_ns'])}" for row in timed)
