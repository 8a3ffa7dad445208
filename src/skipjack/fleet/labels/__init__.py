"""Labels: the jobs that one gets, and what becomes of their results."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.labels.further_jobs import FurtherJobs
    from skipjack.fleet.labels.job_plans import (
        DIRECTIONS,
        PlannedJobs,
        PlanOptions,
        ProblemSelection,
        operations_named,
        plan_jobs,
    )
    from skipjack.fleet.labels.results import LabelResults, artifact, project, winning

__all__ = [
    "DIRECTIONS",
    "FurtherJobs",
    "LabelResults",
    "PlanOptions",
    "PlannedJobs",
    "ProblemSelection",
    "artifact",
    "further_jobs",
    "operations_named",
    "plan_jobs",
    "project",
    "winning",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "further_jobs": "FurtherJobs",
        "job_plans": (
            "DIRECTIONS PlanOptions PlannedJobs ProblemSelection operations_named plan_jobs"
        ),
        "results": "LabelResults artifact project winning",
    },
)
