"""What is known: the best config and the ranked solvers of each problem and class of device."""

from skipjack.bank.bank import Bank, Changes, next_best
from skipjack.bank.entry import FIND, PERF, BankEntry
from skipjack.bank.entry_evidence import BASELINE, REPLACED, Evidence, Gain, Replaced
from skipjack.bank.entry_reading import FORMAT
from skipjack.bank.evidence import Met, merge_entries, replacing, stronger
from skipjack.bank.launch import Launch, Origin

__all__ = [
    "BASELINE",
    "FIND",
    "FORMAT",
    "PERF",
    "REPLACED",
    "Bank",
    "BankEntry",
    "Changes",
    "Evidence",
    "Gain",
    "Launch",
    "Met",
    "Origin",
    "Replaced",
    "merge_entries",
    "next_best",
    "replacing",
    "stronger",
]
