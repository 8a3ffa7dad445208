"""What the commands do, as functions: options in, records out.

>>> from skipjack import app
>>> app.status(app.StatusRequest(label="resnet_2026_11"))  # doctest: +SKIP

They neither print nor exit: `skipjack.cli` parses words into options, calls these functions, and
`skipjack.report` renders what they return. Progress goes to a callback. A wrong request raises
`UsageError`.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.app.bank_entries import known_entries
    from skipjack.app.building import BuildRequest, BuildRun, build
    from skipjack.app.comparing import CompareRequest, GatedComparison, compare
    from skipjack.app.configuring import configured
    from skipjack.app.engine_name import EngineName
    from skipjack.app.events import BatchBegun, Notice, ProblemBegun, WorkEvent, WorkObserver
    from skipjack.app.exporting import DatabaseKind, ExportedFile, ExportOptions, export
    from skipjack.app.finding import FindRequest, FindRun, find
    from skipjack.app.job_status import (
        FleetOverview,
        FleetStatus,
        Idle,
        JobCounts,
        JobListing,
        StatusRequest,
        status,
    )
    from skipjack.app.problem_lists import Placement, ProblemList
    from skipjack.app.promoting import (
        PromoteRequest,
        PromoteResult,
        promote,
        promotions,
        undo_promotions,
    )
    from skipjack.app.running import (
        QueuedRun,
        RunEvent,
        RunObserver,
        RunOptions,
        RunPhase,
        RunResult,
        RunWarning,
        SlurmOptions,
        run,
        submit_run,
    )
    from skipjack.app.sweeping import SweepFileRequest, SweepSettings, foresee_sweep, sweep
    from skipjack.app.tuning import TuneRequest, TuneRun, tune
    from skipjack.app.verifying import VerifyRequest, verify
    from skipjack.fleet.records import JobKind
    from skipjack.fleet.release.compare.comparing import CompareOptions, Comparison
    from skipjack.fleet.release.compare.gates import Gate
    from skipjack.fleet.release.export.publishing import Exported
    from skipjack.fleet.release.formats import Alias
    from skipjack.fleet.release.promote.gathering import Choice
    from skipjack.fleet.release.promote.merging import Rule
    from skipjack.fleet.release.promote.promoting import Promoted
    from skipjack.fleet.release.promote.promotions import Promotion
    from skipjack.fleet.states import State
    from skipjack.interop import NotApplicable

__all__ = [
    "Alias",
    "BatchBegun",
    "BuildRequest",
    "BuildRun",
    "Choice",
    "CompareOptions",
    "CompareRequest",
    "Comparison",
    "DatabaseKind",
    "EngineName",
    "ExportOptions",
    "Exported",
    "ExportedFile",
    "FindRequest",
    "FindRun",
    "FleetOverview",
    "FleetStatus",
    "Gate",
    "GatedComparison",
    "Idle",
    "JobCounts",
    "JobKind",
    "JobListing",
    "NotApplicable",
    "Notice",
    "Placement",
    "ProblemBegun",
    "ProblemList",
    "PromoteRequest",
    "PromoteResult",
    "Promoted",
    "Promotion",
    "QueuedRun",
    "Rule",
    "RunEvent",
    "RunObserver",
    "RunOptions",
    "RunPhase",
    "RunResult",
    "RunWarning",
    "SlurmOptions",
    "State",
    "StatusRequest",
    "SweepFileRequest",
    "SweepSettings",
    "TuneRequest",
    "TuneRun",
    "VerifyRequest",
    "WorkEvent",
    "WorkObserver",
    "build",
    "compare",
    "configured",
    "export",
    "find",
    "foresee_sweep",
    "known_entries",
    "promote",
    "promotions",
    "run",
    "status",
    "submit_run",
    "sweep",
    "tune",
    "undo_promotions",
    "verify",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "bank_entries": ("known_entries",),
        "building": ("BuildRequest", "BuildRun", "build"),
        "comparing": ("CompareRequest", "GatedComparison", "compare"),
        "configuring": ("configured",),
        "engine_name": ("EngineName",),
        "events": ("BatchBegun", "Notice", "ProblemBegun", "WorkEvent", "WorkObserver"),
        "exporting": ("DatabaseKind", "ExportOptions", "ExportedFile", "export"),
        "finding": ("FindRequest", "FindRun", "find"),
        "job_status": (
            "FleetOverview",
            "FleetStatus",
            "Idle",
            "JobCounts",
            "JobListing",
            "StatusRequest",
            "status",
        ),
        "problem_lists": ("Placement", "ProblemList"),
        "promoting": (
            "PromoteRequest",
            "PromoteResult",
            "promote",
            "promotions",
            "undo_promotions",
        ),
        "running": (
            "QueuedRun",
            "RunEvent",
            "RunObserver",
            "RunOptions",
            "RunPhase",
            "RunResult",
            "RunWarning",
            "SlurmOptions",
            "run",
            "submit_run",
        ),
        "skipjack.fleet.records": ("JobKind",),
        "skipjack.fleet.release.compare.comparing": ("CompareOptions", "Comparison"),
        "skipjack.fleet.release.compare.gates": ("Gate",),
        "skipjack.fleet.release.export.publishing": ("Exported",),
        "skipjack.fleet.release.formats": ("Alias",),
        "skipjack.fleet.release.promote.gathering": ("Choice",),
        "skipjack.fleet.release.promote.merging": ("Rule",),
        "skipjack.fleet.release.promote.promoting": ("Promoted",),
        "skipjack.fleet.release.promote.promotions": ("Promotion",),
        "skipjack.fleet.states": ("State",),
        "skipjack.interop": ("NotApplicable",),
        "sweeping": ("SweepFileRequest", "SweepSettings", "foresee_sweep", "sweep"),
        "tuning": ("TuneRequest", "TuneRun", "tune"),
        "verifying": ("VerifyRequest", "verify"),
    },
)
"""A program that asks for the status of jobs loads no compiler."""
