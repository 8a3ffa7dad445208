"""Import problems from logs, lists and databases of others into the store, whatever else is there.

A good line is kept and a bad one is counted, listed with its number and its reason, and left out.
"""

from skipjack.fleet.importing.importer import import_file, import_lines
from skipjack.fleet.importing.missed import TAG, Misses, misses_of
from skipjack.fleet.importing.options import ImportOptions, parse_batches
from skipjack.fleet.importing.report import BadLine, ImportProgress, ImportReport, lone_layouts

__all__ = [
    "TAG",
    "BadLine",
    "ImportOptions",
    "ImportProgress",
    "ImportReport",
    "Misses",
    "import_file",
    "import_lines",
    "lone_layouts",
    "misses_of",
    "parse_batches",
]
