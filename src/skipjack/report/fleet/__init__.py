"""Reports of the fleet's commands."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.fleet.jobs import LogPrinter, print_job, render_status
    from skipjack.report.fleet.machines import (
        cluster_state,
        conditions,
        image_rows,
        machine_details,
        machine_json,
        machine_list,
        print_images,
        render_answers,
        say_line,
    )
    from skipjack.report.fleet.problems import (
        import_bar,
        print_problem,
        print_problems,
        render_import,
    )
    from skipjack.report.fleet.release import render_comparison, render_export, write_csv
    from skipjack.report.fleet.runs import evaluation_bar, leftovers, render_queued, run_screen
    from skipjack.report.fleet.watching import progress_line, watch_progress

__all__ = [
    "LogPrinter",
    "cluster_state",
    "conditions",
    "evaluation_bar",
    "image_rows",
    "import_bar",
    "leftovers",
    "machine_details",
    "machine_json",
    "machine_list",
    "print_images",
    "print_job",
    "print_problem",
    "print_problems",
    "progress_line",
    "release",
    "render_answers",
    "render_comparison",
    "render_export",
    "render_import",
    "render_queued",
    "render_status",
    "run_screen",
    "say_line",
    "watch_progress",
    "write_csv",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "jobs": "LogPrinter print_job render_status",
        "machines": (
            "cluster_state conditions image_rows machine_details machine_json machine_list "
            "print_images render_answers say_line"
        ),
        "problems": "import_bar print_problem print_problems render_import",
        "release": "render_comparison render_export write_csv",
        "runs": "evaluation_bar leftovers render_queued run_screen",
        "watching": "progress_line watch_progress",
    },
)
