"""Reading a sweep file, in whichever of the three forms it is written."""

from __future__ import annotations

import hashlib
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.sweep.files.json_file import read_json_file
from skipjack.sweep.files.python_file import read_python_file
from skipjack.sweep.files.sweep_file import SweepFile
from skipjack.sweep.files.toml_file import read_toml_file

_READERS = {".json": read_json_file, ".py": read_python_file, ".toml": read_toml_file}


def read_sweep_file(path: Path) -> SweepFile:
    """The file's parameters, hooks and settings; a mistake in it is one sentence with its line."""
    content = read_text(path, "sweep file")
    digest = hashlib.sha256(content.encode()).hexdigest()
    if (read := _READERS.get(path.suffix.lower())) is None:
        raise UsageError(
            f"sweep file {path} is none of .json, .py and .toml; its name says what it is"
        )
    return read(path, content, digest)


def read_text(path: Path, what: str) -> str:
    """The text of a file that the user named."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{what} {path} is not there") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path} is not UTF-8 text: {error.reason}") from None
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror}") from None
