"""Dumps of programs on the command line: what ``tune`` and ``import`` do with a directory."""

from skipjack.cli.dumps.importing import ImportedDump, import_dump
from skipjack.cli.dumps.tuning import (
    DumpRequest,
    are_dumps,
    read_dumps,
    use_autotune_variables,
)

__all__ = [
    "DumpRequest",
    "ImportedDump",
    "are_dumps",
    "import_dump",
    "read_dumps",
    "use_autotune_variables",
]
