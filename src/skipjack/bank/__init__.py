"""What is known: the best config and the ranked solvers of each problem and class of device."""

from typing import TYPE_CHECKING, Any

from skipjack.bank.bank import FILE_NAME, REMOVED, Bank, Changes, next_best
from skipjack.bank.entry import FIND, PERF, BankEntry, Key, key_of
from skipjack.bank.entry_evidence import BASELINE, REPLACED, Evidence, KnownGain, Replaced
from skipjack.bank.entry_reading import FORMAT
from skipjack.bank.evidence import Met, is_library, merge_entries, replacing, stronger
from skipjack.bank.launch import EntryOrigin, LaunchData
from skipjack.bank.layers import SYSTEM, USER, BankLayer, forget_banks, has_system, layers_of
from skipjack.bank.merging import merged, on_device, read_bank, union, write_bank
from skipjack.bank.staleness import Toolchain, stale_reason

if TYPE_CHECKING:
    from skipjack.bank.kernel_db import KernelDb, KernelRecord, gain_of, write_kernel_db

__all__ = [
    "BASELINE",
    "FILE_NAME",
    "FIND",
    "FORMAT",
    "PERF",
    "REMOVED",
    "REPLACED",
    "SYSTEM",
    "USER",
    "Bank",
    "BankEntry",
    "BankLayer",
    "Changes",
    "EntryOrigin",
    "Evidence",
    "KernelDb",
    "KernelRecord",
    "Key",
    "KnownGain",
    "LaunchData",
    "Met",
    "Replaced",
    "Toolchain",
    "forget_banks",
    "gain_of",
    "has_system",
    "is_library",
    "key_of",
    "layers_of",
    "merge_entries",
    "merged",
    "next_best",
    "on_device",
    "read_bank",
    "replacing",
    "stale_reason",
    "stronger",
    "union",
    "write_bank",
    "write_kernel_db",
]


def __getattr__(name: str) -> Any:
    """Load SQLite when a file of kernels is first asked for: a lookup needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skipjack.bank import kernel_db

    return getattr(kernel_db, name)
