"""The file format of bundles: signed entries in an SQLite file."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.bundle.format.bundle_manifest import BundleKind, BundleManifest, JobSlice
    from skipjack.fleet.bundle.format.container import Bundle, EntryKind
    from skipjack.fleet.bundle.format.contents import (
        BundledOutcome,
        BundledTask,
        TaskSummary,
        artifact_entries,
        jobs_with,
        read_outcome,
        read_task,
        task_summaries,
    )

__all__ = [
    "Bundle",
    "BundleKind",
    "BundleManifest",
    "BundledOutcome",
    "BundledTask",
    "EntryKind",
    "JobSlice",
    "TaskSummary",
    "artifact_entries",
    "jobs_with",
    "read_outcome",
    "read_task",
    "task_summaries",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "bundle_manifest": "BundleKind BundleManifest JobSlice",
        "container": "Bundle EntryKind",
        "contents": (
            "BundledOutcome BundledTask TaskSummary artifact_entries jobs_with read_outcome "
            "read_task task_summaries"
        ),
    },
)
