"""What is known: the best config and the ranked solvers of each problem and class of device."""

from skipjack.bank.bank import Bank, Changes
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
    "replacing",
    "stronger",
]
