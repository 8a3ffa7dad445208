"""What the name of an output says: a directory for the files of all devices, or one file."""

from __future__ import annotations

from pathlib import Path

from skipjack.errors import UsageError
from skipjack.fleet.release.placing import PACKED
from skipjack.interop.miopen.file_names import SUFFIXES

_ENDINGS = (*SUFFIXES, ".jsonl", ".skk")


def check_directory_name(output: Path) -> None:
    """`UsageError` for a directory that is not there yet and would be named as a database."""
    if not output.is_dir() and output.name.removesuffix(PACKED).endswith(_ENDINGS):
        raise UsageError(
            f"{output} is the name of a database; name a directory instead, in which each device "
            "gets a file that is named after it"
        )


def check_file_or_directory(output: Path) -> None:
    """`UsageError` for what is spelled like a file, but like none that can be written."""
    check_directory_name(output)
    if not output.is_dir() and output.suffix[1:2].isalpha():
        raise UsageError(
            f"cannot tell what {output} is to be: name one file x.skk or x.kdb, or a directory "
            "without an ending, or one that is there"
        )
