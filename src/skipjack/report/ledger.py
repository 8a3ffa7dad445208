"""A problem's history for people and for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from skipjack.core.trial import Trial
from skipjack.ledger import Ledger, StudyRecord
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import metric_text, time_text


def problem_records(ledger: Ledger, problem: str) -> list[dict[str, Any]]:
    """Studies with their trials, then verdicts, as JSON values."""
    records: list[dict[str, Any]] = []
    for study in ledger.studies(problem):
        trials = [_trial_record(trial) for trial in ledger.trials(study.id)]
        records.append({"format": 1, "kind": "study", **asdict(study), "trials": trials})
    for verdict in ledger.verdicts(problem):
        record = {**asdict(verdict), "status": verdict.outcome, "config": dict(verdict.config)}
        records.append({"format": 1, "kind": "verdict", **record})
    return records


def _trial_record(trial: Trial) -> dict[str, Any]:
    return {
        "config": dict(trial.config),
        "status": str(trial.status),
        "value": trial.value,
        "spread": trial.spread,
        "reason": trial.reason,
    }


def print_problem(ledger: Ledger, problem: str, limit: int) -> None:
    """Studies, their best trials, failures by reason, verdicts."""
    console = screen.out()
    count = len(ledger.measurements(problem))
    console.print(Text(f"{problem}: {count} blocks of samples"))
    for study in ledger.studies(problem):
        _print_study(ledger, study, limit)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="verdicts", title_justify="left")
    for name in ("when", "verdict", "solver", "config"):
        table.add_column(name)
    for verdict in ledger.verdicts(problem):
        table.add_row(verdict.created, verdict.outcome, verdict.solver, Text(str(verdict.config)))
    console.print(table)


def _print_study(ledger: Ledger, study: StudyRecord, limit: int) -> None:
    console = screen.out()
    trials = ledger.trials(study.id)
    failed = [trial for trial in trials if trial.status.failed]
    ranked = sorted((t for t in trials if t.ok), key=lambda t: t.value or 0.0)
    title = (
        f"study {study.id}: {study.solver} by {study.searcher}, seed {study.seed}, "
        f"{numbered(len(trials), 'trial')}, {len(failed)} failed"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(title), title_justify="left")
    metric, _, direction = study.objective.partition(";")[0].rpartition(":")
    timed = metric == "time_ns"
    table.add_column("time" if timed else metric, justify="right")
    table.add_column("spread", justify="right")
    table.add_column("config")
    for trial in ranked[:limit]:
        value = trial.value or 0.0
        spread = f"{100 * trial.spread / abs(value):.1f} %" if value else "-"
        # What is to be large is kept with its sign turned.
        measured = -value if direction == "max" else value
        shown = time_text(value) if timed else metric_text(measured)
        table.add_row(shown, spread, Text(str(trial.config)))
    console.print(table)
    for trial in failed[:limit]:
        console.print(Text(f"  {trial.status}: {trial.config}: {trial.reason}"))
