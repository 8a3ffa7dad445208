"""Built artifacts by the SHA-256 of their bytes."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError
from skipjack.settings import ARTIFACTS, Settings

__all__ = [
    "ARTIFACTS",
    "ArtifactStore",
    "KernelStore",
    "MemoryArtifacts",
    "StoredArtifact",
    "mark_used",
]
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RECENT_S = 3600.0
"""The date of a file that is older than this is set to now when the file is read: at most one
system call per file and hour, with dates of use that are exact to the hour."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """A file of a store."""

    path: Path
    size: int
    used_ns: int
    """The approximate time of its last use, which is its date."""


class ArtifactStore:
    """Stores bytes by their digest; reading returns exactly these bytes, or `CorruptFileError`.

    Any number of processes may put and get at the same time: the name determines the content, and
    files appear as a whole. Reading does not load the module that writes files, and also looks into
    the directories `others`.
    """

    def __init__(self, directory: Path, *others: Path) -> None:
        self._directory = directory
        self._others = others
        self._swept = False

    def put(self, data: bytes) -> str:
        """Store `data` and return its digest. Replaces a damaged copy of the same bytes."""
        from skipjack.storage.files import atomic_write, write_failure

        digest = hashlib.sha256(data).hexdigest()
        path = self._directory / self._name(digest)
        try:
            # A user who can write here decides what programs run. Of the directories that mkdir
            # creates, only the last gets the mode.
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise write_failure(path, error) from error
        self._sweep_once()
        if self._read(path) != data:
            # Syncing took a quarter of a tuning's time; the digest reveals a torn artifact.
            atomic_write(path, data, durable=False)
        return digest

    def path(self, digest: str) -> Path:
        """The path of an artifact, which need not exist. Only load the bytes that `get` returns."""
        here = self._directory / self._name(digest)
        elsewhere = (directory / self._name(digest) for directory in self._others)
        if not self._others or here.is_file():
            return here
        return next((path for path in elsewhere if path.is_file()), here)

    def _name(self, digest: str) -> str:
        if not _DIGEST.fullmatch(digest):
            # Digests also come from imported files: none may lead out of the store.
            raise StorageError(f"{digest!r} is not an artifact's digest (64 hexadecimal digits)")
        return f"{digest[:2]}/{digest}"

    def get(self, digest: str) -> bytes:
        """The bytes with this digest. A damaged file is quarantined."""
        path = self.path(digest)
        data = self._read(path)
        if data is None:
            raise StorageError(f"{self._directory} has no artifact {digest}; build it again")
        if hashlib.sha256(data).hexdigest() != digest:
            raise self._damaged(path, digest)
        return data

    def __contains__(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def stored(self) -> Iterator[StoredArtifact]:
        """The files in the directory that is written to, in no order."""
        for folder in self._directory.glob("[0-9a-f][0-9a-f]"):
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue  # being written
                    with contextlib.suppress(OSError):  # deleted in the meantime
                        found = entry.stat(follow_symlinks=False)
                        path = Path(entry.path)
                        yield StoredArtifact(path, found.st_size, found.st_mtime_ns)

    def _sweep_once(self) -> None:
        """Remove temporary files of killed writers, once per store."""
        from skipjack.storage.files import sweep

        if not self._swept:
            self._swept = True
            for folder in self._directory.glob("[0-9a-f][0-9a-f]"):
                sweep(folder)

    def _damaged(self, path: Path, digest: str) -> CorruptFileError:
        from skipjack.storage.files import quarantine
        from skipjack.storage.lock import FileLock

        message = f"artifact {path} does not match its digest; "
        with FileLock(self._directory / "artifacts.lock"):
            data = self._read(path)
            if data is None or hashlib.sha256(data).hexdigest() == digest:
                return CorruptFileError(f"{message}another process has repaired it, try again")
            return CorruptFileError(
                f"{message}it was renamed to {quarantine(path).name}, build it again"
            )

    def _read(self, path: Path) -> bytes | None:
        try:
            with path.open("rb", buffering=0) as file:
                used = os.fstat(file.fileno()).st_mtime
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read artifact {path}: {error.strerror}") from error
        if abs(time.time() - used) > _RECENT_S:
            mark_used(path)
        return data


def mark_used(path: Path) -> None:
    """Set the date of an artifact to now, so that it is among the last to be removed for space."""
    with contextlib.suppress(OSError):  # the directory may be read-only
        os.utime(path)


class KernelStore(ArtifactStore):
    """The kernel cache of the settings, which programs can work without.

    Data that cannot be written is not kept, with one warning per process; it is built again when it
    is needed again.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(*settings.kernel_dirs)

    def put(self, data: bytes) -> str:
        """Store `data` if possible; return its digest."""
        try:
            return super().put(data)
        except StorageError as error:
            _warn_once(self._directory, error)
            return hashlib.sha256(data).hexdigest()


_warned: set[Path] = set()


def _warn_once(directory: Path, error: StorageError) -> None:
    if directory not in _warned:
        _warned.add(directory)
        log.warning("kernels are not kept: %s", error)


class MemoryArtifacts(ArtifactStore):
    """A store without files: data that it was given, whose digests match, and data that is put."""

    def __init__(self, known: Mapping[str, bytes] | None = None) -> None:
        super().__init__(Path("nowhere"))
        self._known = dict(known or {})
        self.new: dict[str, bytes] = {}
        """Data that was put and not given."""

    def put(self, data: bytes) -> str:
        """Store `data` and return its digest."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._known:
            self.new[digest] = self._known[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes with this digest."""
        if digest not in self._known:
            raise StorageError(f"the task came without artifact {digest}")
        return self._known[digest]

    def __contains__(self, digest: str) -> bool:
        return digest in self._known
