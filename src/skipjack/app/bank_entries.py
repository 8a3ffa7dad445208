"""The bank's entries of a problem."""

from __future__ import annotations

from skipjack.bank import Bank, BankEntry
from skipjack.core import CALL_OPERATION
from skipjack.errors import SkipjackError


def known_entries(bank: Bank, problem: str, device: str | None = None) -> list[BankEntry]:
    """The entries of a problem, on every device or on one; `SkipjackError` if there are none.

    A key such as ``autotune:NAME`` selects all calls of a decorated kernel.
    """
    of_calls = problem.startswith(f"{CALL_OPERATION}:")
    known = bank.entries_of(problem)
    if not known and of_calls:
        known = [one for one in bank.entries() if one.problem.startswith(f"{problem}/")]
    found = [entry for entry in known if device in (None, entry.device_name)]
    if not found and of_calls:
        raise SkipjackError(
            f"the bank has no call of {problem}; skipjack bank list lists the kernels it knows"
        )
    if not found:
        on = f" on {device}" if device else ""
        again = f"tune {problem}{f' --device {device}' if device else ''}"
        raise SkipjackError(f"the bank has no entry for {problem}{on}; try skipjack {again}")
    return found
