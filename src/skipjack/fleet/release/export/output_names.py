"""What the name of an output says: a directory for the files of all devices, or one file."""

from __future__ import annotations

from pathlib import Path

from skipjack.errors import UsageError
from skipjack.fleet.release.formats import every
from skipjack.fleet.release.placing import PACKED
from skipjack.interop.miopen import parse_db_name


def check_directory_name(output: Path) -> None:
    """`UsageError` for a directory that is not there yet and would be named as a database."""
    endings = tuple(ending for form in every() for ending in form.endings)
    if not output.is_dir() and output.name.removesuffix(PACKED).endswith(endings):
        raise UsageError(
            f"{output} is the name of a database; name a directory instead, in which each device "
            "gets a file that is named after it"
        )


def check_file_or_directory(output: Path) -> None:
    """`UsageError` for what is spelled like a file, but like none that can be written."""
    check_directory_name(output)
    if not output.is_dir() and output.suffix[1:2].isalpha():
        files = " or ".join(f"x{form.kernel_ending}" for form in every() if form.kernel_ending)
        raise UsageError(
            f"cannot tell what {output} is to be: name one file {files}, or a directory "
            "without an ending, or one that is there"
        )


def check_one_database(path: Path) -> None:
    """`UsageError` for the name of a file for all devices that MIOpen would take for another."""
    if path.suffix != ".db" or path.is_dir():
        raise UsageError(f"--one-file {path} is to be a database of SQLite; name it miopen.db")
    if parse_db_name(path.name) is not None:
        raise UsageError(
            f"--one-file {path} has the name of one device's database, and it holds all devices; "
            "name it miopen.db"
        )
