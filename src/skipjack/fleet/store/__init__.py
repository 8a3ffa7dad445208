"""The store: problems, labels, jobs and their results in an SQL database.

>>> from skipjack.fleet.store import open_store
>>> with open_store() as store:  # doctest: +SKIP
...     store.jobs.counts(label="resnet")
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.model import (
        Built,
        Claim,
        ClaimResult,
        Failed,
        JobState,
        Label,
        Told,
        WorkRequest,
    )
    from skipjack.fleet.store.browsing.errors import ErrorGroup
    from skipjack.fleet.store.browsing.job_rows import JOB_FILTERS, JOB_SORTS, JobSummary
    from skipjack.fleet.store.browsing.problem_rows import (
        PROBLEM_FILTERS,
        PROBLEM_SORTS,
        ProblemSummary,
        TagDetails,
    )
    from skipjack.fleet.store.browsing.progress import ProgressView, StateTimeline, Throughput
    from skipjack.fleet.store.browsing.repository import Browsing
    from skipjack.fleet.store.browsing.row_page import RowPage
    from skipjack.fleet.store.browsing.searches import StoredBlock, StoredSearch, StoredTrial
    from skipjack.fleet.store.browsing.use import DeviceUse, MachineUse
    from skipjack.fleet.store.catalog.actions import RecordedAction
    from skipjack.fleet.store.catalog.devices import (
        DeviceClass,
        ambiguous_device,
        by_name,
        describable,
        distinguishing_names,
        of_record,
    )
    from skipjack.fleet.store.catalog.labels import LabelSummary, name_suggestions
    from skipjack.fleet.store.claims.bundles import (
        BuiltPage,
        Bundles,
        BundleSelection,
        ImportedResult,
        Reception,
    )
    from skipjack.fleet.store.claims.queue import Queue
    from skipjack.fleet.store.claims.task_inputs import FetchedArtifacts
    from skipjack.fleet.store.jobs.aborts import ResetCount
    from skipjack.fleet.store.jobs.job_history import LoggedAttempt, LogText
    from skipjack.fleet.store.jobs.jobs import AddedJobs, JobResult, JobVerdict
    from skipjack.fleet.store.jobs.problem_list import DeviceResult, ListedProblem, ProblemFilter
    from skipjack.fleet.store.jobs.problems import AddedProblems, NewProblem, ProblemRow, Provenance
    from skipjack.fleet.store.opening import open_store, upgrade
    from skipjack.fleet.store.repositories import Jobs, Labels, Machines, Problems, Registrations
    from skipjack.fleet.store.results import Results
    from skipjack.fleet.store.store import Store

__all__ = [
    "JOB_FILTERS",
    "JOB_SORTS",
    "PROBLEM_FILTERS",
    "PROBLEM_SORTS",
    "AddedJobs",
    "AddedProblems",
    "Browsing",
    "Built",
    "BuiltPage",
    "BundleSelection",
    "Bundles",
    "Claim",
    "ClaimResult",
    "DeviceClass",
    "DeviceResult",
    "DeviceUse",
    "ErrorGroup",
    "Failed",
    "FetchedArtifacts",
    "ImportedResult",
    "JobResult",
    "JobState",
    "JobSummary",
    "JobVerdict",
    "Jobs",
    "Label",
    "LabelSummary",
    "Labels",
    "ListedProblem",
    "LogText",
    "LoggedAttempt",
    "MachineUse",
    "Machines",
    "NewProblem",
    "ProblemFilter",
    "ProblemRow",
    "ProblemSummary",
    "Problems",
    "ProgressView",
    "Provenance",
    "Queue",
    "Reception",
    "RecordedAction",
    "Registrations",
    "ResetCount",
    "Results",
    "RowPage",
    "StateTimeline",
    "Store",
    "StoredBlock",
    "StoredSearch",
    "StoredTrial",
    "TagDetails",
    "Throughput",
    "Told",
    "WorkRequest",
    "ambiguous_device",
    "by_name",
    "describable",
    "distinguishing_names",
    "name_suggestions",
    "of_record",
    "open_store",
    "upgrade",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.fleet.model": "Built Failed JobState Told Claim ClaimResult Label WorkRequest",
        "browsing.errors": "ErrorGroup",
        "browsing.job_rows": "JOB_FILTERS JOB_SORTS JobSummary",
        "browsing.problem_rows": "PROBLEM_FILTERS PROBLEM_SORTS ProblemSummary TagDetails",
        "browsing.progress": "ProgressView StateTimeline Throughput",
        "browsing.repository": "Browsing",
        "browsing.row_page": "RowPage",
        "browsing.searches": "StoredBlock StoredSearch StoredTrial",
        "browsing.use": "DeviceUse MachineUse",
        "catalog.actions": "RecordedAction",
        "catalog.devices": (
            "DeviceClass ambiguous_device by_name describable distinguishing_names of_record"
        ),
        "catalog.labels": "LabelSummary name_suggestions",
        "claims.bundles": "BuiltPage BundleSelection Bundles ImportedResult Reception",
        "claims.queue": "Queue",
        "claims.task_inputs": "FetchedArtifacts",
        "jobs.aborts": "ResetCount",
        "jobs.job_history": "LoggedAttempt LogText",
        "jobs.jobs": "AddedJobs JobResult JobVerdict",
        "jobs.problem_list": "DeviceResult ListedProblem ProblemFilter",
        "jobs.problems": "AddedProblems NewProblem ProblemRow Provenance",
        "opening": "open_store upgrade",
        "repositories": "Jobs Labels Machines Problems Registrations",
        "results": "Results",
        "store": "Store",
    },
)
