"""What is known: the best config and the ranked solvers of each problem and class of device."""

from typing import TYPE_CHECKING, Any

from skipjack.bank.bank import FILE_NAME, REMOVED, Bank, Changes, next_best
from skipjack.bank.entry import FIND, PERF, BankEntry, Key, key_of, pinned_kind
from skipjack.bank.entry_evidence import (
    BASELINE,
    MASKED,
    PINNED,
    REPLACED,
    Evidence,
    KnownGain,
    Replaced,
)
from skipjack.bank.entry_reading import FORMAT
from skipjack.bank.evidence import Met, is_library, merge_entries, replacing, stronger
from skipjack.bank.launch import EntryOrigin, LaunchData
from skipjack.bank.layers import (
    SYSTEM,
    USER,
    BankLayer,
    forget_banks,
    has_system,
    layers_of,
    system_dir_of,
)

if TYPE_CHECKING:
    from skipjack.bank.entry_json import printed_entry
    from skipjack.bank.kernel_db import KernelDb, KernelRecord, gain_of, write_kernel_db
    from skipjack.bank.merging import (
        check_processors,
        merged,
        on_device,
        read_bank,
        union,
        write_bank,
    )
    from skipjack.bank.nearness import distance, nearest, size_doublings
    from skipjack.bank.outline import Outline, family_of, processors_of
    from skipjack.bank.shipping import SOURCE, short_entry, write_shipped
    from skipjack.bank.staleness import Toolchain, stale_reason

__all__ = [
    "BASELINE",
    "FILE_NAME",
    "FIND",
    "FORMAT",
    "MASKED",
    "PERF",
    "PINNED",
    "REMOVED",
    "REPLACED",
    "SOURCE",
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
    "Outline",
    "Replaced",
    "Toolchain",
    "check_processors",
    "distance",
    "family_of",
    "forget_banks",
    "gain_of",
    "has_system",
    "is_library",
    "key_of",
    "layers_of",
    "merge_entries",
    "merged",
    "nearest",
    "next_best",
    "on_device",
    "pinned_kind",
    "printed_entry",
    "processors_of",
    "read_bank",
    "replacing",
    "short_entry",
    "size_doublings",
    "stale_reason",
    "stronger",
    "system_dir_of",
    "union",
    "write_bank",
    "write_kernel_db",
    "write_shipped",
]


_HOMES = {
    "KernelDb": "kernel_db",
    "KernelRecord": "kernel_db",
    "Outline": "outline",
    "SOURCE": "shipping",
    "Toolchain": "staleness",
    "distance": "nearness",
    "family_of": "outline",
    "gain_of": "kernel_db",
    "check_processors": "merging",
    "merged": "merging",
    "nearest": "nearness",
    "on_device": "merging",
    "printed_entry": "entry_json",
    "processors_of": "outline",
    "read_bank": "merging",
    "short_entry": "shipping",
    "size_doublings": "nearness",
    "stale_reason": "staleness",
    "union": "merging",
    "write_bank": "merging",
    "write_kernel_db": "kernel_db",
    "write_shipped": "shipping",
}
"""What a lookup does not need, SQLite among it, and the modules to load when it is asked for."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"skipjack.bank.{_HOMES[name]}"), name)
