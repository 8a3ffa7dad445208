"""What is known: the best config and the ranked solvers of each problem and class of device."""

from typing import TYPE_CHECKING

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
from skipjack.lazy_names import lazy

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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "entry_json": ("printed_entry",),
        "kernel_db": ("KernelDb", "KernelRecord", "gain_of", "write_kernel_db"),
        "merging": ("check_processors", "merged", "on_device", "read_bank", "union", "write_bank"),
        "nearness": ("distance", "nearest", "size_doublings"),
        "outline": ("Outline", "family_of", "processors_of"),
        "shipping": ("SOURCE", "short_entry", "write_shipped"),
        "staleness": ("Toolchain", "stale_reason"),
    },
)
"""A lookup needs none of these, nor SQLite."""
