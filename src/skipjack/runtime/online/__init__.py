"""Tuning inside of a program: who searches, when, and how much of the program's time it takes.

A lookup under a policy that measures asks a process that is kept for that (`client`), on the
engine of ``skipjack tune`` (`skipjack.tuning.online` is the other side).
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.online.account import FOLDER, RegretAccount, account_of_program
    from skipjack.runtime.online.client import TuningProcess, tuning_process
    from skipjack.runtime.online.command_log import command_line, log_command
    from skipjack.runtime.online.request import (
        FAILED,
        FIND,
        LATE,
        PROPOSE,
        TUNE,
        SearchAnswer,
        SearchRequest,
    )
    from skipjack.runtime.online.sampling import CallMeter, CallSampler, sampled
    from skipjack.runtime.online.searching import (
        counts,
        failure_of,
        foretold,
        is_asked_for,
        search_of,
        tuned_here,
    )
    from skipjack.runtime.online.turns import TurnTimeoutError, is_recording, one_at_a_time

__all__ = [
    "FAILED",
    "FIND",
    "FOLDER",
    "LATE",
    "PROPOSE",
    "TUNE",
    "CallMeter",
    "CallSampler",
    "RegretAccount",
    "SearchAnswer",
    "SearchRequest",
    "TuningProcess",
    "TurnTimeoutError",
    "account_of_program",
    "command_line",
    "counts",
    "failure_of",
    "foretold",
    "is_asked_for",
    "is_recording",
    "log_command",
    "one_at_a_time",
    "sampled",
    "search_of",
    "tuned_here",
    "tuning_process",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "account": ("FOLDER", "RegretAccount", "account_of_program"),
        "client": ("TuningProcess", "tuning_process"),
        "command_log": ("command_line", "log_command"),
        "request": ("FAILED", "FIND", "LATE", "PROPOSE", "SearchAnswer", "SearchRequest", "TUNE"),
        "sampling": ("CallMeter", "CallSampler", "sampled"),
        "searching": (
            "counts",
            "failure_of",
            "foretold",
            "is_asked_for",
            "search_of",
            "tuned_here",
        ),
        "turns": ("TurnTimeoutError", "is_recording", "one_at_a_time"),
    },
)
"""A program that only reads banks needs none of them."""
