"""Formats of other programs: driver commands, log lines and find-db keys as problems,
and results that other autotuners recorded.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.interop.driver import driver_line, is_driver_line, parse_driver, without_comment
    from skipjack.interop.driver_flags import CONV, CONV_DTYPES, dtype_obstacle
    from skipjack.interop.find_db_key import is_find_db_line, parse_find_db
    from skipjack.interop.log_line import (
        LONE_LAYOUT,
        TuneCommand,
        find_tune_command,
        has_lone_layout,
        is_own_message,
        problem_text,
        read_one,
        read_text,
        remaining_defaults,
    )
    from skipjack.interop.problem_entry import ALL, Defaults, Entry, NotApplicable
    from skipjack.interop.quick_conv import QuickConv, quick_command, quick_find_db, quick_key
    from skipjack.interop.t4 import (
        TuningResults,
        read_tuning_results,
        write_kernel_tuner_cache,
        write_t4,
    )

__all__ = [
    "ALL",
    "CONV",
    "CONV_DTYPES",
    "LONE_LAYOUT",
    "Defaults",
    "Entry",
    "NotApplicable",
    "QuickConv",
    "TuneCommand",
    "TuningResults",
    "driver_line",
    "dtype_obstacle",
    "find_tune_command",
    "has_lone_layout",
    "is_driver_line",
    "is_find_db_line",
    "is_own_message",
    "parse_driver",
    "parse_find_db",
    "problem_text",
    "quick_command",
    "quick_find_db",
    "quick_key",
    "read_one",
    "read_text",
    "read_tuning_results",
    "remaining_defaults",
    "without_comment",
    "write_kernel_tuner_cache",
    "write_t4",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "driver": "driver_line is_driver_line parse_driver without_comment",
        "driver_flags": "CONV CONV_DTYPES dtype_obstacle",
        "find_db_key": "is_find_db_line parse_find_db",
        "log_line": (
            "LONE_LAYOUT TuneCommand find_tune_command has_lone_layout is_own_message "
            "problem_text read_one read_text remaining_defaults"
        ),
        "problem_entry": "ALL Defaults Entry NotApplicable",
        "quick_conv": "QuickConv quick_command quick_find_db quick_key",
        "t4": "TuningResults read_tuning_results write_kernel_tuner_cache write_t4",
    },
)
