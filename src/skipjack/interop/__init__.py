"""Foreign formats: commands of MIOpenDriver as problems, and problems as commands."""

from skipjack.interop.defaults import ALL, Defaults
from skipjack.interop.driver import parse_driver
from skipjack.interop.driver_words import is_driver_line, without_comment
from skipjack.interop.driver_writer import driver_line
from skipjack.interop.not_applicable import Entry, NotApplicable

__all__ = [
    "ALL",
    "Defaults",
    "Entry",
    "NotApplicable",
    "driver_line",
    "is_driver_line",
    "parse_driver",
    "without_comment",
]
