"""What is known: the best config and the ranked solvers of each problem and class of device."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.bank.bank import FILE_NAME, PROJECTED, REMOVED, Bank, Changes, next_best
    from skipjack.bank.entry import (
        FIND,
        FORMAT,
        PERF,
        BankEntry,
        EntryOrigin,
        Key,
        LaunchData,
        key_of,
        pinned_kind,
    )
    from skipjack.bank.evidence import (
        BASELINE,
        MASKED,
        PINNED,
        REPLACED,
        Evidence,
        KnownGain,
        Replaced,
        number_or_none,
    )
    from skipjack.bank.interchange import (
        SOURCE,
        check_processors,
        merged,
        on_device,
        printed_entry,
        read_bank,
        short_entry,
        union,
        write_bank,
        write_shipped,
    )
    from skipjack.bank.kernel_db import KernelDb, KernelRecord, gain_of, write_kernel_db
    from skipjack.bank.layers import (
        SYSTEM,
        USER,
        BankLayer,
        Outline,
        distance,
        family_of,
        forget_banks,
        has_system,
        layers_of,
        nearest,
        processors_of,
        size_doublings,
        system_dir_of,
    )
    from skipjack.bank.strength import (
        ReplacementReason,
        Toolchain,
        claim,
        device_evidence,
        entry_device_names,
        is_library,
        lower_bound,
        merge_entries,
        replacing,
        stale_reason,
        stronger,
    )

__all__ = [
    "BASELINE",
    "FILE_NAME",
    "FIND",
    "FORMAT",
    "MASKED",
    "PERF",
    "PINNED",
    "PROJECTED",
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
    "Outline",
    "Replaced",
    "ReplacementReason",
    "Toolchain",
    "check_processors",
    "claim",
    "device_evidence",
    "distance",
    "entry_device_names",
    "family_of",
    "forget_banks",
    "gain_of",
    "has_system",
    "is_library",
    "key_of",
    "layers_of",
    "lower_bound",
    "merge_entries",
    "merged",
    "nearest",
    "next_best",
    "number_or_none",
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
        "bank": "Bank Changes FILE_NAME PROJECTED REMOVED next_best",
        "entry": "BankEntry EntryOrigin FIND FORMAT Key LaunchData PERF key_of pinned_kind",
        "evidence": "BASELINE Evidence KnownGain MASKED PINNED REPLACED Replaced number_or_none",
        "interchange": (
            "SOURCE check_processors merged on_device printed_entry read_bank short_entry union "
            "write_bank write_shipped"
        ),
        "kernel_db": "KernelDb KernelRecord gain_of write_kernel_db",
        "layers": (
            "BankLayer Outline SYSTEM USER distance family_of forget_banks has_system layers_of "
            "nearest processors_of size_doublings system_dir_of"
        ),
        "strength": (
            "ReplacementReason Toolchain claim device_evidence entry_device_names is_library "
            "lower_bound merge_entries replacing stale_reason stronger"
        ),
    },
)
