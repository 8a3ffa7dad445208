"""What is known: the best config and the ranked solvers of each problem and class of device."""

from skipjack.bank.bank import Bank
from skipjack.bank.entry import FIND, FORMAT, PERF, BankEntry, merge_entries, newer

__all__ = ["FIND", "FORMAT", "PERF", "Bank", "BankEntry", "merge_entries", "newer"]
