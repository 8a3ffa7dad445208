"""Reading a sweep file: JSON here, Python and TOML in modules of their own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skipjack.errors import MalformedError, UsageError
from skipjack.reading import parse_json
from skipjack.sweep.files.python_file import read_python_file
from skipjack.sweep.files.sweep_file import Scalar, SweepFile, check_values, location
from skipjack.sweep.files.toml_file import read_toml_file

# Sweep files in JSON: a flat object with a list of values for each name.


def read_json_file(path: Path, text: str, digest: str) -> SweepFile:
    """The parameters of the file. Without hooks, every change of a parameter needs a build."""
    content = parse_json_object(path, text)
    lines = {name: _line_of_key(text, name) for name in content}
    parameters: dict[str, tuple[Scalar, ...]] = {}
    for name, values in content.items():
        where = location(path, lines[name])
        if not isinstance(values, list):
            raise UsageError(
                f"{where}: {name} is {json.dumps(values)[:60]}; write a list of values"
            )
        parameters[name] = check_values(name, values, where)
    return SweepFile(path=path, parameters=parameters, digest=digest, lines=lines)


def parse_json_object(path: Path, text: str) -> dict[str, Any]:
    """Parse a JSON object; a repeated name is a `UsageError` with its line."""
    try:
        content = parse_json(text, str(path), pairs=lambda pairs: _object(path, text, pairs))
    except MalformedError as error:
        raise UsageError(str(error)) from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: the file must contain an object; write {{...}}")
    return content


def _object(path: Path, text: str, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        line = _line_of_key(text, name, occurrence=1)
        raise UsageError(f"{location(path, line)}: {name!r} is defined twice; write it once")
    return content


def _line_of_key(text: str, name: str, occurrence: int = 0) -> int:
    """The line of a key; 0 if it is not found."""
    found = list(re.finditer(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:", text))
    if not found:
        return 0
    return text.count("\n", 0, found[min(occurrence, len(found) - 1)].start()) + 1


# Reading a sweep file in any of the three formats.

_READERS = {".json": read_json_file, ".py": read_python_file, ".toml": read_toml_file}


def read_sweep_file(path: Path) -> SweepFile:
    """Read a file's parameters, hooks and settings; errors name the line."""
    content = read_text(path, "sweep file")
    digest = hashlib.sha256(content.encode()).hexdigest()
    if (read := _READERS.get(path.suffix.lower())) is None:
        raise UsageError(f"sweep file {path} has an unknown suffix; use .json, .py or .toml")
    return read(path, content, digest)


def read_text(path: Path, what: str) -> str:
    """The text of a file; errors are `UsageError`s that call it `what`."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{what} {path} does not exist") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path} is not UTF-8 text: {error.reason}") from None
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror}") from None
