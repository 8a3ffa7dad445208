"""Kernels that were verified on this machine, named by what they were built from.

A bank is text that people merge: what it says about a kernel's machine code is not trusted. Code is
run only if it was verified here for this very problem, config, operation, solver and target, from
which its name in this store is computed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic

from skipjack.core.config import Config
from skipjack.core.digest import digest_of
from skipjack.core.problem import Problem
from skipjack.errors import MalformedError, StorageError
from skipjack.native.own_code import own_code
from skipjack.reading import read_json
from skipjack.settings import Settings
from skipjack.storage import ArtifactStore, mark_used

FORMAT = 2
"""Since 2 a record has the slots, so that a kernel is called without its solver."""
FOLDER = "verified"
_MOST_BYTES = 1 << 16
_REMIND_S = 3600.0
"""Kernels that this process has are said to be in use this often, at a search, and at its end."""


@dataclass(frozen=True, slots=True)
class VerifiedKernel:
    """Machine code that was verified, and how it is called."""

    artifact: str
    """The digest of its bytes, which are in the artifact store."""
    symbol: str
    abi: str
    source: str
    """The digest of what was compiled."""
    compiler: str
    slots: tuple[str | int, ...] = ()
    """The arguments of a launch, as it was verified with them."""
    entry: str = ""
    """What an entry of a bank must say to name this kernel: `entry_key`."""
    code: str = ""
    """`own_code` of the Skipjack that built it: another one looks for another key."""


def entry_key(problem: str, solver: str, version: int, config: Config) -> str:
    """What an entry names, whatever it is built for."""
    return digest_of((problem, solver, version, config.key))


def kernel_key(problem: Problem, solver: str, version: int, config: Config, identity: str) -> str:
    """What tells a kernel from all others; see `skipjack.solvers.identity.build_identity`."""
    return digest_of((problem.key, solver, version, config.key, identity))


class VerifiedKernels:
    """Those of the kernel cache that settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directories = [directory / FOLDER for directory in settings.kernel_dirs]
        self._artifacts = ArtifactStore(*settings.kernel_dirs)

    @property
    def directory(self) -> Path:
        """Where new kernels are kept."""
        return self._settings.kernel_dirs[0]

    def find(self, key: str) -> tuple[VerifiedKernel, bytes] | None:
        """The kernel of this key with its machine code, if both are there and whole."""
        for directory in self._directories:
            found = read_record(directory / key)
            if found is None:
                continue
            with contextlib.suppress(StorageError):
                data = self._artifacts.get(found.artifact)
                _note_use(self._artifacts.path(found.artifact))
                return found, data
        return None

    def put(self, key: str, kernel: VerifiedKernel, data: bytes) -> None:
        """Remember that this machine code, whose digest the kernel has, was verified."""
        from skipjack.runtime.kernel_cache import keep_within_limit
        from skipjack.storage import atomic_write, sweep, write_failure

        self._artifacts.put(data)
        path = self._directories[0] / key
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise write_failure(path, error) from error
        sweep(path.parent)
        record = {"format": FORMAT, **asdict(replace(kernel, code=own_code()))}
        atomic_write(path, json.dumps(record, sort_keys=True).encode(), durable=False)
        _note_use(self._artifacts.path(kernel.artifact))
        keep_within_limit(self._settings)


def read_record(path: Path) -> VerifiedKernel | None:
    """What is remembered in a file, if it can be read."""
    try:
        field = read_json(path.read_bytes(), path.name, most=_MOST_BYTES)
        return field.without("format", FORMAT).of(VerifiedKernel)
    except (OSError, MalformedError):
        return None


def record_files(directory: Path, folder: str = FOLDER) -> Iterator[os.DirEntry[str]]:
    """Those of a folder of a cache's records, without what is being written."""
    with contextlib.suppress(OSError), os.scandir(directory / folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


# What this process uses. Kernels stay in memory, so that their files would look forgotten: they are
# dated anew now and then rather than at each call.

_in_use: dict[Path, None] = {}
_reminded = 0.0


def in_use() -> frozenset[Path]:
    """Files of kernels that this process has been given, or has verified."""
    return frozenset(_in_use)


def _note_use(path: Path) -> None:
    if not _in_use:
        _remind()  # of nothing: the hour begins
        atexit.register(_remind)
    elif monotonic() - _reminded > _REMIND_S:
        _remind()
    _in_use[path] = None


def _remind() -> None:
    global _reminded
    _reminded = monotonic()
    for path in list(_in_use):
        mark_used(path)
