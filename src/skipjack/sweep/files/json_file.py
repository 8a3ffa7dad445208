"""Sweep files in JSON: one flat object, each name with the list of its values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skipjack.errors import MalformedError, UsageError
from skipjack.reading import parse_json
from skipjack.sweep.files.blame import place
from skipjack.sweep.files.sweep_file import Scalar, SweepFile
from skipjack.sweep.files.values import check_values


def read_json_file(path: Path, text: str, digest: str) -> SweepFile:
    """The file's parameters. JSON has no hooks: all combinations, and every change builds."""
    content = parse_json_object(path, text)
    lines = {name: _line_of_key(text, name) for name in content}
    parameters: dict[str, tuple[Scalar, ...]] = {}
    for name, values in content.items():
        where = place(path, lines[name])
        if not isinstance(values, list):
            raise UsageError(
                f"{where}: {name} is {json.dumps(values)[:60]}; write a list of values"
            )
        parameters[name] = check_values(name, values, where)
    return SweepFile(path=path, parameters=parameters, digest=digest, lines=lines)


def parse_json_object(path: Path, text: str) -> dict[str, Any]:
    """A JSON object in which no name stands twice; `UsageError` with the line otherwise."""
    try:
        content = parse_json(text, str(path), pairs=lambda pairs: _object(path, text, pairs))
    except MalformedError as error:
        raise UsageError(str(error)) from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: the file holds no object; write {{...}} at its top")
    return content


def _object(path: Path, text: str, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        line = _line_of_key(text, name, occurrence=1)
        raise UsageError(f"{place(path, line)}: {name!r} is there twice; write it once")
    return content


def _line_of_key(text: str, name: str, occurrence: int = 0) -> int:
    """The line of a name before a colon, as it is usually written; 0 where it is not found."""
    found = list(re.finditer(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:", text))
    if not found:
        return 0
    return text.count("\n", 0, found[min(occurrence, len(found) - 1)].start()) + 1
