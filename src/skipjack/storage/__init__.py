"""Files that survive crashes, full disks and many processes: what ledger and bank stand on."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.storage.appending import AppendedFile
    from skipjack.storage.artifacts import (
        ARTIFACTS,
        ArtifactStore,
        KernelStore,
        MemoryArtifacts,
        StoredArtifact,
        mark_used,
    )
    from skipjack.storage.atomic import atomic_replacement, atomic_write, write_synced
    from skipjack.storage.clock import Clock, timestamp, utc_now
    from skipjack.storage.damage import set_aside
    from skipjack.storage.directory import (
        can_create_in,
        ensure_directory,
        output_directory,
        user_directory,
    )
    from skipjack.storage.failure import write_failure
    from skipjack.storage.litter import sweep
    from skipjack.storage.lock import FileLock
    from skipjack.storage.mounts import is_network_file_system
    from skipjack.storage.sqlite_files import read_only_uri

__all__ = [
    "ARTIFACTS",
    "AppendedFile",
    "ArtifactStore",
    "Clock",
    "FileLock",
    "KernelStore",
    "MemoryArtifacts",
    "StoredArtifact",
    "atomic_replacement",
    "atomic_write",
    "can_create_in",
    "ensure_directory",
    "is_network_file_system",
    "mark_used",
    "output_directory",
    "read_only_uri",
    "set_aside",
    "sweep",
    "timestamp",
    "user_directory",
    "utc_now",
    "write_failure",
    "write_synced",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "appending": ("AppendedFile",),
        "artifacts": (
            "ARTIFACTS",
            "ArtifactStore",
            "KernelStore",
            "MemoryArtifacts",
            "StoredArtifact",
            "mark_used",
        ),
        "atomic": ("atomic_replacement", "atomic_write", "write_synced"),
        "clock": ("Clock", "timestamp", "utc_now"),
        "damage": ("set_aside",),
        "directory": ("can_create_in", "ensure_directory", "output_directory", "user_directory"),
        "failure": ("write_failure",),
        "litter": ("sweep",),
        "lock": ("FileLock",),
        "mounts": ("is_network_file_system",),
        "sqlite_files": ("read_only_uri",),
    },
)
"""A program that looks things up needs few of them."""
