"""The workload of a sweep as the ledger stores it, and which of its points share a build."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.core import Config
from skipjack.search.scripted import CartesianProduct

# The workload of a sweep as the ledger stores it: its key covers all that affects results.
#
# Files that commands name are part of the key by their content, so results of a script that has
# been edited since are not used.

_LARGEST_DIGESTED_BYTES = 16 << 20
"""Larger files are identified by size and time instead of content."""
_SHOWN_DIGITS = 16


WORKLOAD_PREFIX = "sweep"
"""What keys of workloads begin with, before a colon."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A benchmark with its base config and commands; only the points vary."""

    name: str
    digest: str

    @property
    def key(self) -> str:
        """``sweep:rnnt@0123456789abcdef``."""
        return f"{WORKLOAD_PREFIX}:{self.name}@{self.digest}"


def workload_of(
    name: str,
    base: Mapping[str, Any],
    commands: Mapping[str, Sequence[str]],
    workdir: Path,
    facts: Mapping[str, Any],
) -> Workload:
    """The workload of these commands; `facts` are other things that results depend on."""
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
    """The digest of a file in the working directory that a command names, otherwise empty.

    Programs of the system are not read.
    """
    path = workdir / word
    try:
        named = path.is_file() and (os.sep in word or not shutil.which(word))
    except (OSError, ValueError):
        return ""
    return content_digest(path) if named else ""


def content_digest(path: Path) -> str:
    """A digest of a file's content; empty if it cannot be read."""
    try:
        status = path.stat()
        if status.st_size > _LARGEST_DIGESTED_BYTES:
            return f"{status.st_size}:{status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


# The order of points: those that share a build come one after another.


def build_part(point: Mapping[str, Any], no_rebuild: Collection[str] | None) -> Config:
    """The part of a point that its build depends on; all of it if `no_rebuild` is None.

    Points with equal parts share a build.
    """
    free = no_rebuild or ()
    return Config.of({name: value for name, value in point.items() if name not in free})


def product_points(
    parameters: Mapping[str, Sequence[Any]], no_rebuild: Collection[str] | None
) -> Iterator[Config]:
    """All combinations, in which build parameters vary slowest.

    Each point has its names in the order of their declaration.
    """
    for chosen in CartesianProduct(parameters, no_rebuild).generate():
        yield Config.of({name: chosen[name] for name in parameters})


def fewest_builds(
    points: Iterable[Config], build_key: Callable[[Config], str], current: str = ""
) -> list[Config]:
    """The same points, those with equal build keys one after another.

    Builds and points otherwise keep their order, so that what a search considers most promising
    stays in front; only the points of the last build, if it is given, come first.
    """
    groups: dict[str, list[Config]] = {current: []}
    for point in points:
        groups.setdefault(build_key(point), []).append(point)
    return [point for group in groups.values() for point in group]


def count_builds(points: Iterable[Config], no_rebuild: Collection[str] | None) -> int:
    """The number of builds if every build is kept."""
    return len({build_part(point, no_rebuild).key for point in points})


def count_rebuilds(points: Iterable[Config], no_rebuild: Collection[str] | None) -> int:
    """The number of builds if only the last is kept; one for each run without `no_rebuild`."""
    builds, last = 0, None
    for point in points:
        part = build_part(point, no_rebuild)
        if no_rebuild is None or part != last:
            builds += 1
        last = part
    return builds
