"""Built artifacts by the SHA-256 of their bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from skipjack.errors import CorruptFileError, StorageError

ARTIFACTS = "artifacts"
"""The store's folder in the user directory."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ArtifactStore:
    """Bytes in, digest out; what comes back is what went in, or `CorruptFileError`.

    Any number of processes may put and get at once: a name decides the content, and files appear
    whole. Who only reads does not load what writes.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._swept = False

    def put(self, data: bytes) -> str:
        """Keep `data`; return its digest. Heals a damaged copy of the same bytes."""
        from skipjack.storage.atomic import atomic_write
        from skipjack.storage.failure import write_failure

        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise write_failure(path, error) from error
        self._sweep_once()
        if self._read(path) != data:
            # Syncing took a quarter of a tuning's time; a torn artifact is found by its digest.
            atomic_write(path, data, durable=False)
        return digest

    def path(self, digest: str) -> Path:
        """Where the artifact is, or would be. Unchecked: load only what `get` returned."""
        if not _DIGEST.fullmatch(digest):
            # Digests also come out of imported files: none may lead out of the store.
            raise StorageError(f"{digest!r} is not an artifact's digest (64 hexadecimal digits)")
        return self._directory / digest[:2] / digest

    def get(self, digest: str) -> bytes:
        """The bytes with this digest. A damaged file is set aside."""
        path = self.path(digest)
        data = self._read(path)
        if data is None:
            raise StorageError(f"no artifact {digest} in {self._directory}; build it again")
        if hashlib.sha256(data).hexdigest() != digest:
            raise self._damaged(path, digest)
        return data

    def __contains__(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def _sweep_once(self) -> None:
        """Remove what was left by writers that were killed."""
        from skipjack.storage.litter import sweep

        if not self._swept:
            self._swept = True
            for folder in self._directory.glob("[0-9a-f][0-9a-f]"):
                sweep(folder)

    def _damaged(self, path: Path, digest: str) -> CorruptFileError:
        from skipjack.storage.damage import set_aside
        from skipjack.storage.lock import FileLock

        message = f"artifact {path} does not match its digest; "
        with FileLock(self._directory / "artifacts.lock"):
            data = self._read(path)
            if data is None or hashlib.sha256(data).hexdigest() == digest:
                return CorruptFileError(f"{message}another process has dealt with it, try again")
            return CorruptFileError(
                f"{message}it was set aside as {set_aside(path).name}, build it again"
            )

    def _read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read artifact {path}: {error.strerror}") from error


class MemoryArtifacts(ArtifactStore):
    """A store without files: what it was given, whose digests match, and what is put."""

    def __init__(self, known: Mapping[str, bytes] | None = None) -> None:
        super().__init__(Path("nowhere"))
        self._known = dict(known or {})
        self.new: dict[str, bytes] = {}
        """What was put and not given."""

    def put(self, data: bytes) -> str:
        """Keep `data`; return its digest."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._known:
            self.new[digest] = self._known[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes with this digest."""
        if digest not in self._known:
            raise StorageError(f"artifact {digest} did not come with the task")
        return self._known[digest]

    def __contains__(self, digest: str) -> bool:
        return digest in self._known
