"""The record of the fleet in an SQL database: problems, labels, jobs, and what came of them.

>>> from skipjack.fleet.store import open_store
>>> with open_store() as store:  # doctest: +SKIP
...     store.jobs.counts(label="resnet")
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.records import Claim, Label, Settlement, Want
    from skipjack.fleet.states import Built, Failed, State, Told
    from skipjack.fleet.store.claims.artifacts import Fetched
    from skipjack.fleet.store.claims.bundling import Bundles, Page, Received, Reception, Wanted
    from skipjack.fleet.store.claims.queue import Queue
    from skipjack.fleet.store.jobs.jobs import AddedJobs, JobResult
    from skipjack.fleet.store.jobs.labels import LabelSummary
    from skipjack.fleet.store.jobs.problem_list import DeviceResult, ListedProblem, ProblemFilter
    from skipjack.fleet.store.jobs.problems import Added, NewProblem, ProblemRow, Provenance
    from skipjack.fleet.store.jobs.repositories import Jobs, Labels, Problems
    from skipjack.fleet.store.jobs.stories import LogText
    from skipjack.fleet.store.jobs.verdicts import JobVerdict
    from skipjack.fleet.store.machines.devices import SeenClass
    from skipjack.fleet.store.machines.repositories import Machines, Registrations
    from skipjack.fleet.store.opening import open_store, upgrade
    from skipjack.fleet.store.results import Results
    from skipjack.fleet.store.store import Store

__all__ = [
    "Added",
    "AddedJobs",
    "Built",
    "Bundles",
    "Claim",
    "DeviceResult",
    "Failed",
    "Fetched",
    "JobResult",
    "JobVerdict",
    "Jobs",
    "Label",
    "LabelSummary",
    "Labels",
    "ListedProblem",
    "LogText",
    "Machines",
    "NewProblem",
    "Page",
    "ProblemFilter",
    "ProblemRow",
    "Problems",
    "Provenance",
    "Queue",
    "Received",
    "Reception",
    "Registrations",
    "Results",
    "SeenClass",
    "Settlement",
    "State",
    "Store",
    "Told",
    "Want",
    "Wanted",
    "open_store",
    "upgrade",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "claims.artifacts": ("Fetched",),
        "claims.bundling": ("Bundles", "Page", "Received", "Reception", "Wanted"),
        "claims.queue": ("Queue",),
        "jobs.jobs": ("AddedJobs", "JobResult"),
        "jobs.labels": ("LabelSummary",),
        "jobs.problem_list": ("DeviceResult", "ListedProblem", "ProblemFilter"),
        "jobs.problems": ("Added", "NewProblem", "ProblemRow", "Provenance"),
        "jobs.repositories": ("Jobs", "Labels", "Problems"),
        "jobs.stories": ("LogText",),
        "jobs.verdicts": ("JobVerdict",),
        "machines.devices": ("SeenClass",),
        "machines.repositories": ("Machines", "Registrations"),
        "opening": ("open_store", "upgrade"),
        "results": ("Results",),
        "store": ("Store",),
        "skipjack.fleet.records": ("Claim", "Label", "Settlement", "Want"),
        "skipjack.fleet.states": ("Built", "Failed", "State", "Told"),
    },
)
"""A program that needs only a record loads no SQLAlchemy."""
