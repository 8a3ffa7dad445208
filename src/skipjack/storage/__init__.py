"""Files that survive crashes, full disks and many processes: what the ledger and the bank are built
on.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.settings import ARTIFACTS
    from skipjack.storage.artifacts import (
        ArtifactStore,
        KernelStore,
        MemoryArtifacts,
        StoredArtifact,
        mark_used,
    )
    from skipjack.storage.directory import (
        can_create_in,
        ensure_directory,
        is_network_file_system,
        output_directory,
        user_directory,
    )
    from skipjack.storage.files import (
        AppendedFile,
        Clock,
        atomic_replacement,
        atomic_write,
        disk_full,
        plain_file,
        quarantine,
        sweep,
        temporary_folder,
        temporary_name,
        timestamp,
        utc_now,
        write_failure,
        write_synced,
    )
    from skipjack.storage.lock import FileLock
    from skipjack.storage.shortages import is_shortage, names_shortage
    from skipjack.storage.sqlite_files import (
        BUSY_TIMEOUT_S,
        MAGIC,
        WRITE_AHEAD_LOG,
        DamagedError,
        check_journal,
        companion_path,
        connect_copy,
        connect_immutable,
        copy_database,
        describe_damage,
        hardened,
        is_damage,
        is_full,
        pending_companions,
        primary_code,
        read_only_uri,
        storage_error,
        transaction,
    )

__all__ = [
    "ARTIFACTS",
    "BUSY_TIMEOUT_S",
    "MAGIC",
    "WRITE_AHEAD_LOG",
    "AppendedFile",
    "ArtifactStore",
    "Clock",
    "DamagedError",
    "FileLock",
    "KernelStore",
    "MemoryArtifacts",
    "StoredArtifact",
    "atomic_replacement",
    "atomic_write",
    "can_create_in",
    "check_journal",
    "companion_path",
    "connect_copy",
    "connect_immutable",
    "copy_database",
    "describe_damage",
    "disk_full",
    "ensure_directory",
    "hardened",
    "is_damage",
    "is_full",
    "is_network_file_system",
    "is_shortage",
    "mark_used",
    "names_shortage",
    "output_directory",
    "pending_companions",
    "plain_file",
    "primary_code",
    "quarantine",
    "read_only_uri",
    "storage_error",
    "sweep",
    "temporary_folder",
    "temporary_name",
    "timestamp",
    "transaction",
    "user_directory",
    "utc_now",
    "write_failure",
    "write_synced",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.settings": "ARTIFACTS",
        "artifacts": "ArtifactStore KernelStore MemoryArtifacts StoredArtifact mark_used",
        "directory": (
            "can_create_in ensure_directory is_network_file_system output_directory user_directory"
        ),
        "files": (
            "AppendedFile Clock atomic_replacement atomic_write disk_full plain_file quarantine "
            "sweep temporary_folder temporary_name timestamp utc_now write_failure write_synced"
        ),
        "lock": "FileLock",
        "shortages": "is_shortage names_shortage",
        "sqlite_files": (
            "BUSY_TIMEOUT_S DamagedError MAGIC WRITE_AHEAD_LOG check_journal companion_path "
            "connect_copy connect_immutable copy_database describe_damage hardened is_damage "
            "is_full pending_companions primary_code read_only_uri storage_error transaction"
        ),
    },
)
