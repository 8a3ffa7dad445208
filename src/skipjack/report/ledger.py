"""A problem's history in the ledger, as text and as JSON records."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from skipjack.bank import BankEntry, printed_entry
from skipjack.core import Trial, name_of_class, protocol_record, settings_text
from skipjack.ledger import DecisionRecord, Ledger, StudyRecord, decision_word
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import metric_text, time_text
from skipjack.report.screen import TableColumn, print_rows


def problem_records(ledger: Ledger, problem: str) -> list[dict[str, Any]]:
    """Studies with their trials, then verdicts, as JSON records."""
    studies = [_study_record(ledger, study) for study in ledger.studies(problem)]
    return [*studies, *map(_verdict_record, ledger.decisions(problem))]


def _study_record(ledger: Ledger, study: StudyRecord) -> dict[str, Any]:
    return {
        "kind": "study",
        **asdict(study),
        **_device(study.device),
        "protocol": protocol_record(study.protocol),
        "trials": [_trial_record(trial) for trial in ledger.trials(study.id)],
    }


def _verdict_record(verdict: DecisionRecord) -> dict[str, Any]:
    """`entry` is what was offered to the bank; None if nothing was."""
    try:
        entry = printed_entry(BankEntry.from_record(dict(verdict.record)))
    except ValueError:
        entry = None
    return {
        "kind": "verdict",
        "study": verdict.study,
        "problem": verdict.problem,
        **_device(verdict.device),
        "solver": verdict.solver,
        "config": dict(verdict.config),
        "status": verdict.outcome,
        "entry": entry,
        "created": verdict.created,
    }


def _device(class_key: str) -> dict[str, str]:
    return {"device": name_of_class(class_key), "device_class": class_key}


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
    console.print(Text(f"{problem}: {numbered(count, 'block')} of samples"))
    for study in ledger.studies(problem):
        _print_study(ledger, study, limit)
    console.print("verdicts", style="italic")
    rows = [
        (one.created, decision_word(one.outcome), one.solver, settings_text(one.config))
        for one in ledger.decisions(problem)
    ]
    print_rows(
        ["when", "verdict", "solver", TableColumn("config", folded=True)],
        rows,
        framed=True,
        console=console,
    )


def _print_study(ledger: Ledger, study: StudyRecord, limit: int) -> None:
    console = screen.out()
    trials = ledger.trials(study.id)
    failed = [trial for trial in trials if trial.status.failed]
    ranked = sorted((t for t in trials if t.ok), key=lambda t: t.value or 0.0)
    title = (
        f"study {study.id}: {study.solver} by {study.searcher}, seed {study.seed}, "
        f"{numbered(len(trials), 'trial')}, {len(failed)} failed"
    )
    # Not the table's own title, which would be wrapped to the width of the table.
    console.print()
    console.print(Text(title, "italic"), soft_wrap=True)
    metric, _, direction = study.objective.partition(";")[0].rpartition(":")
    timed = metric == "time_ns"
    rows = []
    for trial in ranked[:limit]:
        value = trial.value or 0.0
        spread = f"{100 * trial.spread / abs(value):.1f} %" if value else "-"
        # Values to be maximized are stored with the opposite sign.
        measured = -value if direction == "max" else value
        shown = time_text(value) if timed else metric_text(measured)
        # Other values than times are of sweeps, whose settings are shown as they are.
        settings = settings_text(trial.config) if timed else str(trial.config)
        rows.append((shown, spread, settings))
    columns = [
        TableColumn("time" if timed else metric, right=True),
        TableColumn("spread", right=True),
        TableColumn("config", folded=True),
    ]
    print_rows(columns, rows, framed=True, console=console)
    for trial in failed[:limit]:
        console.print(Text(f"  {trial.status}: {trial.config}: {trial.reason}"))
