"""Import of problems into the store from logs, lists and databases of other programs."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.problem_import.importer import (
        ImportProgress,
        ImportReport,
        import_file,
        import_lines,
        lone_layouts,
    )
    from skipjack.fleet.problem_import.line_reader import ImportOptions, parse_batches
    from skipjack.fleet.problem_import.miss_sender import TAG, Misses, misses_of

__all__ = [
    "TAG",
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "importer": "ImportProgress ImportReport import_file import_lines lone_layouts",
        "line_reader": "ImportOptions parse_batches",
        "miss_sender": "Misses TAG misses_of",
    },
)
