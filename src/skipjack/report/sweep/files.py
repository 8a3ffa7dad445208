"""A sweep's result as JSON, CSV and a directory of files; JSON is read back as it was."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from skipjack.report.screen import print_json
from skipjack.storage import atomic_write
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import parameter_names, to_json, write_json
from skipjack.sweep.session import SweepForecast

# A sweep's result as files: CSV for spreadsheets, and JSON that is read back unchanged.

_BEFORE = ("number", "purpose", "status", "cached", "built")
_AFTER = ("seconds", "build_seconds", "reason", "log")


def csv_columns(result: SweepResult) -> list[str]:
    """The header, which has the columns of all runs.

    A metric with the name of another column gets the prefix ``metric.``, a parameter
    ``parameter.``.
    """
    taken = {*_BEFORE, *_AFTER}
    parameters = [_told_apart(name, taken, "parameter") for name in parameter_names(result)]
    metrics = [_told_apart(name, taken, "metric") for name in _metric_names(result)]
    return [*_BEFORE, *parameters, *metrics, *_AFTER]


def _told_apart(name: str, taken: set[str], kind: str) -> str:
    """An unused name, prefixed with the kind if needed; adds it to the used names."""
    while name in taken:
        name = f"{kind}.{name}"
    taken.add(name)
    return name


def _metric_names(result: SweepResult) -> list[str]:
    return sorted({name for trial in result.trials for name in trial.metrics})


def csv_text(result: SweepResult) -> str:
    """A row for each run, in order; quoted according to RFC 4180."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(csv_columns(result))
    parameters, metrics = parameter_names(result), _metric_names(result)
    for trial in result.trials:
        point = [_cell(trial.point[name]) if name in trial.point else "" for name in parameters]
        measured = [_cell(trial.metrics.get(name, "")) for name in metrics]
        before = [_cell(getattr(trial, name)) for name in _BEFORE]
        writer.writerow([*before, *point, *measured, *(_cell(getattr(trial, n)) for n in _AFTER)])
    return stream.getvalue()


def _cell(value: Any) -> str:
    """Text as it is, other values as JSON, so that None differs from an empty cell."""
    return str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write_csv(result: SweepResult, path: Path) -> None:
    """Replace `path` atomically."""
    atomic_write(path, csv_text(result).encode())


# Output of ``sweep`` and ``grid``, printed and as files.


def render_sweep(result: SweepResult, json: bool) -> None:
    """Print the points and the best of them."""
    if json:
        print_sweep_json(result)
        return
    from skipjack.report.sweep.terminal import print_sweep

    print_sweep(result)


def print_sweep_json(result: SweepResult, **more: object) -> None:
    """Print the result as one object, with additional fields if given."""
    pass

    print_json("sweep", {**to_json(result), **more})


def render_forecast(seen: SweepForecast, json: bool) -> None:
    """Print what would be built and run."""
    if json:
        print_json("sweep --dry-run", _forecast_fields(seen))
        return
    from skipjack.report.sweep.terminal import print_plan

    print_plan(seen)


def _forecast_fields(seen: SweepForecast) -> dict[str, object]:
    plan = seen.plan
    points = [dict(point) for point in plan.points]
    return {
        "product": plan.product,
        "runs": plan.runs,
        "refused": len(plan.refused),
        "builds": plan.builds,
        "first": points[0] if points else None,
        "last": points[-1] if points else None,
        "points": points,
        "rebuilds": plan.rebuilds,
        "known": seen.known,
        "extra_runs": seen.extra,
        "at_most": seen.at_most,
        "seconds": seen.seconds,
        "open_end": seen.open_end,
        "simulated": seen.simulated,
    }


def write_files(result: SweepResult, csv: Path | None, report: Path | None) -> None:
    """Write the files that ``--csv`` and ``--report`` request."""
    if csv:
        write_csv(result, csv)
    if report:
        write_report(result, report)


def make_report_directory(directory: Path) -> None:
    """Create the directory, or fail, before anything is run for the report."""
    from skipjack.storage import ensure_directory

    ensure_directory(directory, "give --report a directory that can be written to")


def write_report(result: SweepResult, directory: Path) -> None:
    """Write all results of a sweep to files."""
    from skipjack.report.sweep.page import write_html, write_plots
    from skipjack.storage import atomic_write

    make_report_directory(directory)
    write_json(result, directory / "result.json")
    write_csv(result, directory / "runs.csv")
    if result.user_conf:
        text = "".join(f"{line}\n" for line in result.user_conf)
        atomic_write(directory / "user.conf", text.encode())
    write_html(result, directory / "report.html")
    write_plots(result, directory)
