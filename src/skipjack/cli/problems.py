"""Problem keys from arguments and from files."""

from __future__ import annotations

import sys
from pathlib import Path

from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.operations import parse

_STDIN = Path("-")


def read_problems(keys: list[str], file: Path | None, dtype: str | None) -> list[Problem]:
    """All problems asked for, each once, in order; any that is wrong stops everything."""
    problems = [parse(key, dtype) for key in keys]
    if file is not None:
        problems += _read_file(file, dtype)
    if not problems:
        raise UsageError("no problem given; write one as matmul:192x192x192, or a file after -f")
    return list(dict.fromkeys(problems))


def _read_file(path: Path, dtype: str | None) -> list[Problem]:
    problems = []
    for number, line in enumerate(_lines(path), 1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        try:
            problems.append(parse(text, dtype))
        except UsageError as error:
            raise UsageError(f"{_name(path)}, line {number}: {error}") from None
    return problems


def _lines(path: Path) -> list[str]:
    try:
        text = sys.stdin.read() if path == _STDIN else path.read_text()
    except UnicodeDecodeError:
        raise UsageError(f"{_name(path)} is not a text file") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return text.splitlines()


def _name(path: Path) -> str:
    return "stdin" if path == _STDIN else str(path)
