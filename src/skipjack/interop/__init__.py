"""Foreign formats: commands of MIOpenDriver and keys of its find-db as problems, and back."""

from skipjack.interop.defaults import ALL, Defaults
from skipjack.interop.driver import parse_driver
from skipjack.interop.driver_words import is_driver_line, without_comment
from skipjack.interop.driver_writer import driver_line
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
    unsaid,
)
from skipjack.interop.not_applicable import Entry, NotApplicable

__all__ = [
    "ALL",
    "LONE_LAYOUT",
    "Defaults",
    "Entry",
    "NotApplicable",
    "TuneCommand",
    "driver_line",
    "find_tune_command",
    "has_lone_layout",
    "is_driver_line",
    "is_find_db_line",
    "is_own_message",
    "parse_driver",
    "parse_find_db",
    "problem_text",
    "read_one",
    "read_text",
    "unsaid",
    "without_comment",
]
