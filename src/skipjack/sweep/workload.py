"""What a sweep measures, as the ledger knows it: anything that could change a result is in the key.

Files that commands name are in it by their content: results of a script that was edited since are
not served as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LARGEST_DIGESTED_BYTES = 16 << 20
"""Larger files are known by their size and time."""
_SHOWN_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Workload:
    """A benchmark at one base config, with its commands. The points are what varies."""

    name: str
    digest: str

    @property
    def key(self) -> str:
        """``sweep:rnnt@0123456789abcdef``."""
        return f"sweep:{self.name}@{self.digest}"


def workload_of(
    name: str,
    base: Mapping[str, Any],
    commands: Mapping[str, Sequence[str]],
    workdir: Path,
    facts: Mapping[str, Any],
) -> Workload:
    """The workload of these commands; `facts` are further things that results depend on."""
    files = {
        word: digest
        for words in commands.values()
        for word in words
        if (digest := _file_digest(word, workdir))
    }
    parts = {
        "base": base,
        "commands": {role: list(words) for role, words in commands.items()},
        "files": files,
        "workdir": str(workdir),
        "facts": facts,
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return Workload(name, hashlib.sha256(text.encode()).hexdigest()[:_SHOWN_DIGITS])


def _file_digest(word: str, workdir: Path) -> str:
    """Of a file that a command names below the working directory; programs of the system are not
    read, nor is what is no file."""
    path = workdir / word
    try:
        named = path.is_file() and (os.sep in word or not shutil.which(word))
    except (OSError, ValueError):
        return ""
    return content_digest(path) if named else ""


def content_digest(path: Path) -> str:
    """What tells a file from an edited one; empty if it cannot be read."""
    try:
        status = path.stat()
        if status.st_size > _LARGEST_DIGESTED_BYTES:
            return f"{status.st_size}:{status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
