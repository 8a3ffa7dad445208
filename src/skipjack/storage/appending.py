"""Writing behind the rest of a file: all of it or nothing."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from skipjack.storage.atomic import plain_file
from skipjack.storage.failure import write_failure


class AppendedFile:
    """``with AppendedFile(path) as file``: a file to write behind; the caller holds its lock.

    At the end of the block what was written is on disk; unless `durable`, a power cut may lose it.
    On any failure the file is as long as it was, and the operating system's errors become
    `StorageError`.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._path, self._durable = path, durable
        self._descriptor = -1
        self.size = 0
        """Bytes that were there before."""

    def __enter__(self) -> AppendedFile:
        place = plain_file(self._path)
        try:
            self._descriptor = os.open(place, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            self.size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise write_failure(self._path, error) from error
        return self

    def status(self) -> os.stat_result:
        """The file as it is now."""
        return os.fstat(self._descriptor)

    def end(self, length: int) -> bytes:
        """At most so many of its last bytes."""
        size = self.status().st_size
        return os.pread(self._descriptor, length, max(0, size - length))

    def write(self, data: bytes) -> None:
        """Write behind what is there."""
        view = memoryview(data)
        while view:
            # A write may be short, notably just before a disk is full.
            view = view[os.write(self._descriptor, view) :]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        try:
            if error is None and self._durable:
                os.fsync(self._descriptor)
            elif error is not None:
                self._undo()
        except OSError as failed:
            self._undo()
            raise write_failure(self._path, failed) from failed
        finally:
            os.close(self._descriptor)
        if isinstance(error, OSError):
            raise write_failure(self._path, error) from error

    def _undo(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self.size)
