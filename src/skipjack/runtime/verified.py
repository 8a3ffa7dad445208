"""Kernels that were verified on this machine, named by what they were built from.

A bank is text that people merge: what it says about a kernel's machine code is not trusted. Code is
run only if it was verified here for this very problem, config, operation, solver and target, from
which its name in this store is computed.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from skipjack.core.config import Config
from skipjack.core.digest import digest_of
from skipjack.core.problem import Problem
from skipjack.errors import MalformedError, StorageError
from skipjack.reading import read_json
from skipjack.storage import ARTIFACTS, ArtifactStore

FORMAT = 2
"""Since 2 a record has the slots, so that a kernel is called without its solver."""
_FOLDER = "verified"
_MOST_BYTES = 1 << 16
_MOST_KEPT = 10_000
"""Records, of less than a kilobyte each. Past that, those go whose machine code is gone, then the
oldest tenth; what is looked up after all is verified again, on a GPU by tuning it again."""


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


def kernel_key(problem: Problem, solver: str, version: int, config: Config, identity: str) -> str:
    """What tells a kernel from all others; see `skipjack.solvers.identity.build_identity`."""
    return digest_of((problem.key, solver, version, config.key, identity))


class VerifiedKernels:
    """Those of a user directory."""

    def __init__(self, user_dir: Path) -> None:
        self._directory = user_dir / ARTIFACTS / _FOLDER
        self._artifacts = ArtifactStore(user_dir / ARTIFACTS)

    def find(self, key: str) -> tuple[VerifiedKernel, bytes] | None:
        """The kernel of this key with its machine code, if both are there and whole."""
        found = self._record(key)
        try:
            return (found, self._artifacts.get(found.artifact)) if found else None
        except StorageError:
            return None

    def _record(self, key: str) -> VerifiedKernel | None:
        """What is remembered, if it can be read."""
        try:
            data = (self._directory / key).read_bytes()
            field = read_json(data, key, most=_MOST_BYTES)
            return field.without("format", FORMAT).of(VerifiedKernel)
        except (OSError, MalformedError):
            return None

    def _has_code(self, key: str) -> bool:
        record = self._record(key)
        try:
            return record is not None and record.artifact in self._artifacts
        except StorageError:  # it names no artifact
            return False

    def put(self, key: str, kernel: VerifiedKernel, data: bytes) -> None:
        """Remember that this machine code, whose digest the kernel has, was verified."""
        from skipjack.storage import atomic_write, sweep, write_failure

        self._artifacts.put(data)
        path = self._directory / key
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise write_failure(path, error) from error
        sweep(self._directory)
        record = {"format": FORMAT, **asdict(kernel)}
        atomic_write(path, json.dumps(record, sort_keys=True).encode(), durable=False)
        self._bound(key)

    def _bound(self, newest: str) -> None:
        """Remove records if there are too many; the one that was just written stays."""
        found = {key: written for key, written in self._written().items() if key != newest}
        if len(found) < _MOST_KEPT:
            return
        gone = {key for key in found if not self._has_code(key)}
        kept = sorted(found.keys() - gone, key=lambda key: found[key], reverse=True)
        for key in (*gone, *kept[_MOST_KEPT - _MOST_KEPT // 10 :]):
            with contextlib.suppress(OSError):  # another process removes them as well
                (self._directory / key).unlink()

    def _written(self) -> dict[str, int]:
        """All keys, with the time of each file."""
        times: dict[str, int] = {}
        with contextlib.suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    times[entry.name] = entry.stat().st_mtime_ns
        return times
