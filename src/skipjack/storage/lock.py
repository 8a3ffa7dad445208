"""A lock between processes, which the kernel releases when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import shlex
import stat
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from skipjack.errors import LockTimeoutError, StorageError
from skipjack.reading import read_json
from skipjack.storage.files import write_failure

_LONGEST_COMMAND = 200
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.2
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileLock:
    """``with FileLock(path): ...`` holds the lock on `path`, a file only used for this purpose.

    An existing `directory` can be locked, too; then the holder cannot be named.

    If another process holds it, `on_wait` is called once with a sentence that names the holder, and
    the wait lasts until the lock is free, `timeout_s` is over (`LockTimeoutError`), or Ctrl-C. The
    lock is not re-entrant: a second `FileLock` on one path waits, even in the same process. Several
    processes can hold it at the same time if all take it `shared`. A `public` lock can be held by
    any user of the host, whoever created its file. Anything else under its name (a FIFO, a link) is
    refused at once, and a file with several hard links is never written to.
    """

    def __init__(
        self,
        path: Path,
        on_wait: Callable[[str], None] | None = None,
        timeout_s: float | None = None,
        *,
        shared: bool = False,
        public: bool = False,
        directory: bool = False,
    ) -> None:
        self._path = path
        self._kind = stat.S_IFDIR if directory else stat.S_IFREG
        self._how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._mode = 0o666 if public else 0o600
        self._on_wait = on_wait
        self._timeout_s = timeout_s
        self._descriptor: int | None = None

    def __enter__(self) -> FileLock:
        try:
            descriptor = _open(self._path, self._mode)
        except OSError as error:
            self._refuse_others()
            raise write_failure(self._path, error) from error
        try:
            self._check(os.fstat(descriptor))
            if not _try_lock(descriptor, self._how):
                self._wait(descriptor)
            _sign(descriptor, shared=self._how == fcntl.LOCK_SH)
        except OSError as error:
            os.close(descriptor)
            raise StorageError(f"cannot lock {self._path}: {error.strerror}") from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _HELD.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        descriptor = self._descriptor
        self._descriptor = None
        _HELD.discard(self)
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    @property
    def is_current(self) -> bool:
        """Whether it is held, and its file was not removed or replaced."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False

    def _refuse_others(self) -> None:
        """Raise `StorageError` if the path is something that cannot be locked."""
        with contextlib.suppress(OSError):
            self._check(os.lstat(self._path))

    def _check(self, found: os.stat_result) -> None:
        # In a directory that all may write to, anything may have this name.
        kind = stat.S_IFMT(found.st_mode)
        if kind != self._kind:
            raise StorageError(
                f"{self._path} cannot be locked: it is {_KINDS.get(kind, 'no file')} that belongs "
                f"to {_user(found.st_uid)}; have it removed"
            )

    def _wait(self, descriptor: int) -> None:
        # Polling, because a blocking flock has no timeout.
        holder = _holder(descriptor)
        if self._on_wait:
            self._on_wait(f"waiting for {self._path}, which {holder} holds")
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        pause = _FIRST_PAUSE_S
        while not _try_lock(descriptor, self._how):
            if deadline is not None and time.monotonic() >= deadline:
                raise LockTimeoutError(
                    f"{self._path} was still held by {_holder(descriptor)} after "
                    f"{self._timeout_s:g} seconds; try again when it is done"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _forget(self) -> None:
        """Close the lock in a forked child: it belongs to the parent, and must not outlive it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_HELD: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock._forget()
    _HELD.clear()


os.register_at_fork(after_in_child=_forget_all)


def _open(path: Path, mode: int) -> int:
    """A descriptor of the file, which is created if it does not exist."""
    # O_NOFOLLOW: in a directory that all may write to, a link may lead anywhere. O_NONBLOCK: do
    # not wait for the other end of a FIFO.
    safely = os.O_NOFOLLOW | os.O_NONBLOCK
    # First without O_CREAT: in a sticky directory the kernel refuses it for another user's file.
    for flags in (os.O_RDWR, os.O_RDONLY):
        with contextlib.suppress(FileNotFoundError, PermissionError, IsADirectoryError):
            return os.open(path, flags | safely)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | safely, mode)
    except FileExistsError:
        return os.open(path, os.O_RDONLY | safely)  # another process has just created it
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, mode)  # whatever the umask is
    return descriptor


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int, *, shared: bool) -> None:
    """Write the holder to the file, if possible: a full disk must not prevent locking."""
    if os.fstat(descriptor).st_nlink != 1:
        return  # another user may have linked a file of this user
    command = " ".join(shlex.join(sys.orig_argv).split())[:_LONGEST_COMMAND]
    text = json.dumps({"pid": os.getpid(), "command": command, "shared": shared}).encode()
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)
    except OSError:
        pass


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _holder(descriptor: int) -> str:
    try:
        content = read_json(os.pread(descriptor, 4096, 0)).mapping()
        # Of several holders, the last one has written its name, and may have released the lock.
        others = " or another process" if content.get("shared") else ""
        command = str(content["command"])[:_LONGEST_COMMAND]
        # Any user may have written it, and it may be printed on a terminal.
        command = command if command.isprintable() else ascii(command)
        return f"process {int(content['pid'])} ({command}){others}"
    except (OSError, ValueError, KeyError, TypeError):
        # The holder has not written its name yet.
        return "another process"
