"""What ``sweep`` and ``grid`` print and write of what they found."""

from __future__ import annotations

from pathlib import Path

from skipjack.report.render import print_json, warn
from skipjack.sweep import Foreseen, SweepResult


def render_sweep(result: SweepResult, json: bool) -> None:
    """The points and the best of them."""
    if json:
        print_sweep_json(result)
        return
    from skipjack.report.sweep_table import print_sweep

    print_sweep(result)


def print_sweep_json(result: SweepResult, **more: object) -> None:
    """One object with everything, and perhaps more fields."""
    from skipjack.report.sweep_files import to_json

    print_json("sweep", {**to_json(result), **more})


def render_foreseen(seen: Foreseen, json: bool) -> None:
    """What would be built and run."""
    if json:
        print_json("sweep --dry-run", _foreseen_fields(seen))
        return
    from skipjack.report.sweep_table import print_plan

    print_plan(seen)


def _foreseen_fields(seen: Foreseen) -> dict[str, object]:
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
    """What ``--csv`` and ``--report`` ask for."""
    if csv:
        from skipjack.report import sweep_files

        sweep_files.write_csv(result, csv)
    if report:
        write_report(result, report)


def make_report_directory(directory: Path) -> None:
    """Make sure that `write_report` can write there, before anything is run for it."""
    from skipjack.storage import ensure_directory

    ensure_directory(directory, "give --report a directory that can be written to")


def write_report(result: SweepResult, directory: Path) -> None:
    """Everything there is to know of a sweep, as files."""
    from skipjack.report.sweep_files import write_csv, write_json
    from skipjack.report.sweep_plots import PlotsMissingError, write_html, write_plots
    from skipjack.storage import atomic_write

    make_report_directory(directory)
    write_json(result, directory / "result.json")
    write_csv(result, directory / "runs.csv")
    if result.user_conf:
        text = "".join(f"{line}\n" for line in result.user_conf)
        atomic_write(directory / "user.conf", text.encode())
    # The page does without matplotlib; plots alone do not.
    write_html(result, directory / "report.html")
    try:
        write_plots(result, directory)
    except PlotsMissingError as error:
        warn(f"the report is in {directory}, without plots: {error}")
