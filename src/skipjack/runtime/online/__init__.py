"""Tuning inside a program: when a search runs, in which process, and how much time it takes."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.online.client import (
        FAILED,
        FIND,
        LATE,
        PROPOSE,
        TUNE,
        SearchAnswer,
        SearchRequest,
        TuningProcess,
        tuning_process,
    )
    from skipjack.runtime.online.kernel_times import (
        FOLDER,
        CallMeter,
        CallSampler,
        RegretAccount,
        account_of_program,
        sampled,
    )
    from skipjack.runtime.online.searches import (
        counts,
        failure_of,
        forecast,
        is_asked_for,
        search_of,
        tune_in_program,
    )
    from skipjack.runtime.online.tuning_lock import (
        TurnTimeoutError,
        command_line,
        is_recording,
        log_command,
        one_at_a_time,
    )

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
    "forecast",
    "is_asked_for",
    "is_recording",
    "log_command",
    "one_at_a_time",
    "sampled",
    "search_of",
    "tune_in_program",
    "tuning_process",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "client": (
            "FAILED FIND LATE PROPOSE SearchAnswer SearchRequest TUNE TuningProcess tuning_process"
        ),
        "kernel_times": "CallMeter CallSampler FOLDER RegretAccount account_of_program sampled",
        "searches": "counts failure_of forecast is_asked_for search_of tune_in_program",
        "tuning_lock": "TurnTimeoutError command_line is_recording log_command one_at_a_time",
    },
)
