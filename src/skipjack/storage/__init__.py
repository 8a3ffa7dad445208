"""Files that survive crashes, full disks and many processes: what ledger and bank stand on."""

from skipjack.storage.artifacts import ARTIFACTS, ArtifactStore, MemoryArtifacts
from skipjack.storage.atomic import atomic_replacement, atomic_write
from skipjack.storage.clock import Clock, timestamp, utc_now
from skipjack.storage.damage import set_aside
from skipjack.storage.directory import ensure_directory, output_directory, user_directory
from skipjack.storage.failure import write_failure
from skipjack.storage.litter import sweep
from skipjack.storage.lock import FileLock
from skipjack.storage.mounts import is_network_file_system

__all__ = [
    "ARTIFACTS",
    "ArtifactStore",
    "Clock",
    "FileLock",
    "MemoryArtifacts",
    "atomic_replacement",
    "atomic_write",
    "ensure_directory",
    "is_network_file_system",
    "output_directory",
    "set_aside",
    "sweep",
    "timestamp",
    "user_directory",
    "utc_now",
    "write_failure",
]
