"""The nouns that the whole fleet shares: jobs and their states, tasks, engines, machines."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.model.device_budget import (
        SLICE_TRIALS,
        DeviceTime,
        JobProgress,
        LabelBudget,
        SliceChoice,
        SliceRecord,
        choose_slices,
        expected_verdict,
        rate_of_searches,
    )
    from skipjack.fleet.model.engine import Done, Engine, Host, RunningLog, Slot
    from skipjack.fleet.model.jobs import (
        AUTO,
        LONGEST_LOG,
        MIOPEN,
        Claim,
        ClaimResult,
        Job,
        JobEvent,
        JobKind,
        JobPlan,
        Label,
        Machine,
        PriorResult,
        WorkRequest,
    )
    from skipjack.fleet.model.machine_registration import Registration
    from skipjack.fleet.model.results import (
        Result,
        claim_result_of,
        known_of,
        same_kernel,
        winner_of,
        worth_trying,
    )
    from skipjack.fleet.model.states import (
        Aborted,
        ArtifactLost,
        Built,
        Claimed,
        Continued,
        Event,
        Failed,
        IllegalStepError,
        Inapplicable,
        JobStage,
        JobState,
        JobStatus,
        Lost,
        Released,
        Reset,
        Resumed,
        Told,
        advance,
    )
    from skipjack.fleet.model.tasks import (
        QueueReply,
        StageRequest,
        Task,
        TaskOutcome,
        pack_batch,
        unpack_batch,
    )

__all__ = [
    "AUTO",
    "LONGEST_LOG",
    "MIOPEN",
    "SLICE_TRIALS",
    "Aborted",
    "ArtifactLost",
    "Built",
    "Claim",
    "ClaimResult",
    "Claimed",
    "Continued",
    "DeviceTime",
    "Done",
    "Engine",
    "Event",
    "Failed",
    "Host",
    "IllegalStepError",
    "Inapplicable",
    "Job",
    "JobEvent",
    "JobKind",
    "JobPlan",
    "JobProgress",
    "JobStage",
    "JobState",
    "JobStatus",
    "Label",
    "LabelBudget",
    "Lost",
    "Machine",
    "PriorResult",
    "QueueReply",
    "Registration",
    "Released",
    "Reset",
    "Result",
    "Resumed",
    "RunningLog",
    "SliceChoice",
    "SliceRecord",
    "Slot",
    "StageRequest",
    "Task",
    "TaskOutcome",
    "Told",
    "WorkRequest",
    "advance",
    "choose_slices",
    "claim_result_of",
    "expected_verdict",
    "known_of",
    "pack_batch",
    "rate_of_searches",
    "same_kernel",
    "unpack_batch",
    "winner_of",
    "worth_trying",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "device_budget": (
            "DeviceTime JobProgress LabelBudget SLICE_TRIALS SliceChoice SliceRecord "
            "choose_slices expected_verdict rate_of_searches"
        ),
        "engine": "Done Engine Host RunningLog Slot",
        "jobs": (
            "AUTO Claim ClaimResult Job JobEvent JobKind JobPlan LONGEST_LOG Label MIOPEN "
            "Machine PriorResult WorkRequest"
        ),
        "machine_registration": "Registration",
        "results": "Result claim_result_of known_of same_kernel winner_of worth_trying",
        "states": (
            "Aborted ArtifactLost Built Claimed Continued Event Failed IllegalStepError "
            "Inapplicable JobStage JobState JobStatus Lost Released Reset Resumed Told "
            "advance"
        ),
        "tasks": "QueueReply StageRequest Task TaskOutcome pack_batch unpack_batch",
    },
)
