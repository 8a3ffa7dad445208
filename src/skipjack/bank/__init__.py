"""What is known: the best config of each problem on each class of device."""

from skipjack.bank.bank import Bank
from skipjack.bank.entry import FORMAT, BankEntry, merge_entries, newer

__all__ = ["FORMAT", "Bank", "BankEntry", "merge_entries", "newer"]
