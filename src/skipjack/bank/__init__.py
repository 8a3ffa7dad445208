"""What is known: the best config and the ranked solvers of each problem and class of device."""

from skipjack.bank.bank import Bank, Changes, next_best
from skipjack.bank.entry import FIND, FORMAT, PERF, BankEntry
from skipjack.bank.evidence import Met, merge_entries, replacing, stronger

__all__ = [
    "FIND",
    "FORMAT",
    "PERF",
    "Bank",
    "BankEntry",
    "Changes",
    "Met",
    "merge_entries",
    "next_best",
    "replacing",
    "stronger",
]
