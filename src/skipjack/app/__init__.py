"""The work of the commands as functions: options in, records out.

>>> from skipjack import app
>>> app.status(app.StatusRequest(label="resnet_2026_11"))  # doctest: +SKIP

They neither print nor exit: `skipjack.cli` parses arguments into options and calls these functions,
and `skipjack.report` renders what they return. Progress goes to a callback. A wrong request raises
`UsageError`.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.app.actions import (
        RESET_STATES,
        ActionResult,
        ActionTarget,
        ResetRequest,
        abort_jobs,
        disable_machines,
        enable_machines,
        recorded_actions,
        reset_jobs,
        resume_jobs,
        touched_by_others,
    )
    from skipjack.app.bank_entries import known_entries
    from skipjack.app.configuration import EngineName, configured
    from skipjack.app.events import BatchBegun, Notice, ProblemBegun, WorkEvent, WorkObserver
    from skipjack.app.exports import DatabaseKind, ExportedFile, ExportOptions, export
    from skipjack.app.job_status import (
        FleetOverview,
        FleetProgress,
        FleetStatus,
        IdleMachines,
        JobCounts,
        JobListing,
        StatusRequest,
        progress_of,
        status,
    )
    from skipjack.app.learning import (
        FamilyQuality,
        LearnedModel,
        LearningReport,
        LearnRequest,
        learn_heuristics,
        learn_rankers,
        learning_reports,
    )
    from skipjack.app.problems import Placement, ProblemList
    from skipjack.app.ranking import FindRequest, FindRun, find
    from skipjack.app.release import (
        CompareRequest,
        GatedComparison,
        PromoteRequest,
        PromoteResult,
        compare,
        promote,
        promotions,
        undo_promotions,
    )
    from skipjack.app.replays import (
        LedgerChoice,
        RecordingExport,
        RecordingReplay,
        ReplayObserver,
        ReplayRequest,
        ReplayResult,
        export_t4,
        replay,
        split_searchers,
    )
    from skipjack.app.reports import (
        MeasuredStep,
        ReportedLabel,
        ReportedProblem,
        ReportedTraining,
        ReportRecords,
        ReportRequest,
        StepCase,
        StepCases,
        StepOperation,
        read_report,
    )
    from skipjack.app.runs import (
        RunEvent,
        RunObserver,
        RunOptions,
        RunPhase,
        RunResult,
        RunWarning,
        run,
    )
    from skipjack.app.slurm_runs import QueuedRun, SlurmOptions, submit_run
    from skipjack.app.sweeps import SweepFileRequest, SweepSettings, forecast, sweep
    from skipjack.app.tuning import (
        BuildRequest,
        BuildRun,
        TuneRequest,
        TuneRun,
        VerifyRequest,
        build,
        tune,
        verify,
    )
    from skipjack.fleet.model import JobKind, JobState
    from skipjack.fleet.release.compare import CompareOptions, Comparison, Gate
    from skipjack.fleet.release.export import ExportResult
    from skipjack.fleet.release.formats import Alias, MergeRule
    from skipjack.fleet.release.promote import Promoted, Promotion, PromotionRequest
    from skipjack.interop import NotApplicable

__all__ = [
    "RESET_STATES",
    "ActionResult",
    "ActionTarget",
    "Alias",
    "BatchBegun",
    "BuildRequest",
    "BuildRun",
    "CompareOptions",
    "CompareRequest",
    "Comparison",
    "DatabaseKind",
    "EngineName",
    "ExportOptions",
    "ExportResult",
    "ExportedFile",
    "FamilyQuality",
    "FindRequest",
    "FindRun",
    "FleetOverview",
    "FleetProgress",
    "FleetStatus",
    "Gate",
    "GatedComparison",
    "IdleMachines",
    "JobCounts",
    "JobKind",
    "JobListing",
    "JobState",
    "LearnRequest",
    "LearnedModel",
    "LearningReport",
    "LedgerChoice",
    "MeasuredStep",
    "MergeRule",
    "NotApplicable",
    "Notice",
    "Placement",
    "ProblemBegun",
    "ProblemList",
    "PromoteRequest",
    "PromoteResult",
    "Promoted",
    "Promotion",
    "PromotionRequest",
    "QueuedRun",
    "RecordingExport",
    "RecordingReplay",
    "ReplayObserver",
    "ReplayRequest",
    "ReplayResult",
    "ReportRecords",
    "ReportRequest",
    "ReportedLabel",
    "ReportedProblem",
    "ReportedTraining",
    "ResetRequest",
    "RunEvent",
    "RunObserver",
    "RunOptions",
    "RunPhase",
    "RunResult",
    "RunWarning",
    "SlurmOptions",
    "StatusRequest",
    "StepCase",
    "StepCases",
    "StepOperation",
    "SweepFileRequest",
    "SweepSettings",
    "TuneRequest",
    "TuneRun",
    "VerifyRequest",
    "WorkEvent",
    "WorkObserver",
    "abort_jobs",
    "build",
    "compare",
    "configured",
    "disable_machines",
    "enable_machines",
    "export",
    "export_t4",
    "find",
    "forecast",
    "known_entries",
    "learn_heuristics",
    "learn_rankers",
    "learning_reports",
    "progress_of",
    "promote",
    "promotions",
    "read_report",
    "recorded_actions",
    "replay",
    "reset_jobs",
    "resume_jobs",
    "run",
    "split_searchers",
    "status",
    "submit_run",
    "sweep",
    "touched_by_others",
    "tune",
    "undo_promotions",
    "verify",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "actions": (
            "RESET_STATES ActionResult ActionTarget ResetRequest abort_jobs disable_machines "
            "enable_machines recorded_actions reset_jobs resume_jobs touched_by_others"
        ),
        "bank_entries": "known_entries",
        "configuration": "EngineName configured",
        "events": "BatchBegun Notice ProblemBegun WorkEvent WorkObserver",
        "exports": "DatabaseKind ExportOptions ExportedFile export",
        "job_status": (
            "FleetOverview FleetProgress FleetStatus IdleMachines JobCounts JobListing "
            "StatusRequest progress_of status"
        ),
        "learning": (
            "FamilyQuality LearnRequest LearnedModel LearningReport learn_heuristics "
            "learn_rankers learning_reports"
        ),
        "problems": "Placement ProblemList",
        "ranking": "FindRequest FindRun find",
        "release": (
            "CompareRequest GatedComparison PromoteRequest PromoteResult compare promote "
            "promotions undo_promotions"
        ),
        "replays": (
            "LedgerChoice RecordingExport RecordingReplay ReplayObserver ReplayRequest "
            "ReplayResult export_t4 replay split_searchers"
        ),
        "reports": (
            "ReportedLabel ReportedProblem ReportRecords ReportRequest StepCase StepCases "
            "StepOperation MeasuredStep ReportedTraining read_report"
        ),
        "runs": "RunEvent RunObserver RunOptions RunPhase RunResult RunWarning run",
        "slurm_runs": "QueuedRun SlurmOptions submit_run",
        "sweeps": "SweepFileRequest SweepSettings forecast sweep",
        "tuning": "BuildRequest BuildRun TuneRequest TuneRun VerifyRequest build tune verify",
        "skipjack.fleet.model": "JobKind JobState",
        "skipjack.fleet.release.compare": "CompareOptions Comparison Gate",
        "skipjack.fleet.release.export": "ExportResult",
        "skipjack.fleet.release.formats": "Alias MergeRule",
        "skipjack.fleet.release.promote": "Promoted Promotion PromotionRequest",
        "skipjack.interop": "NotApplicable",
    },
)
