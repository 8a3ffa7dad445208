"""Records of `skipjack.app.views` as figures and as reports: pages and reports show them alike.

``label_figures(page)`` and its like give all figures of a page by name, as ``skipjack report
--figure NAME`` knows them; ``jobs_figure(timeline)`` and its like give one. ``label_report(...)``
and its like give a `RenderedReport`: a document and its figures.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.views.banks import difference_figures, difference_report
    from skipjack.report.views.fleet import (
        STATE_KINDS,
        errors_figure,
        fleet_figures,
        gains_figure,
        jobs_figure,
        label_figures,
        label_report,
        pace_figure,
    )
    from skipjack.report.views.problems import (
        best_so_far_figure,
        importance_figure,
        parallel_figure,
        problem_figures,
        problem_report,
        samples_figure,
        search_figures,
        value_unit,
    )
    from skipjack.report.views.programs import (
        program_figures,
        program_report,
        savings_figure,
        statuses_figure,
        step_figure,
    )
    from skipjack.report.views.rendered_report import RenderedReport
    from skipjack.report.views.reports import report_of
    from skipjack.report.views.steps import (
        step_cases_figure,
        step_cases_report,
        training_step_figure,
        training_step_report,
    )
    from skipjack.report.views.sweeps import (
        front_figure,
        heat_map_figure,
        load_figure,
        point_columns,
        points_figure,
        runs_figure,
        sweep_figures,
        sweep_report,
    )
    from skipjack.report.views.training import (
        curve_figures,
        episode_figures,
        loop_step_figure,
        training_report,
    )

__all__ = [
    "STATE_KINDS",
    "RenderedReport",
    "best_so_far_figure",
    "curve_figures",
    "difference_figures",
    "difference_report",
    "episode_figures",
    "errors_figure",
    "fleet_figures",
    "front_figure",
    "gains_figure",
    "heat_map_figure",
    "importance_figure",
    "jobs_figure",
    "label_figures",
    "label_report",
    "load_figure",
    "loop_step_figure",
    "pace_figure",
    "parallel_figure",
    "point_columns",
    "points_figure",
    "problem_figures",
    "problem_report",
    "program_figures",
    "program_report",
    "report_of",
    "runs_figure",
    "samples_figure",
    "savings_figure",
    "search_figures",
    "statuses_figure",
    "step_cases_figure",
    "step_cases_report",
    "step_figure",
    "sweep_figures",
    "sweep_report",
    "training_report",
    "training_step_figure",
    "training_step_report",
    "value_unit",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "banks": "difference_figures difference_report",
        "fleet": (
            "STATE_KINDS errors_figure fleet_figures gains_figure jobs_figure label_figures "
            "label_report pace_figure"
        ),
        "problems": (
            "best_so_far_figure importance_figure parallel_figure problem_figures problem_report "
            "samples_figure search_figures value_unit"
        ),
        "programs": "program_figures program_report savings_figure statuses_figure step_figure",
        "rendered_report": "RenderedReport",
        "reports": "report_of",
        "steps": ("step_cases_figure step_cases_report training_step_figure training_step_report"),
        "sweeps": (
            "front_figure heat_map_figure load_figure point_columns points_figure runs_figure "
            "sweep_figures sweep_report"
        ),
        "training": "curve_figures episode_figures loop_step_figure training_report",
    },
)
