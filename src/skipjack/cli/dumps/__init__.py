"""Dumps of programs on the command line: what ``tune`` and ``import`` do with a directory."""

from skipjack.cli.dumps.importing import ImportedDump, import_dump
from skipjack.cli.dumps.variables import use_autotune_variables

__all__ = ["ImportedDump", "import_dump", "use_autotune_variables"]
