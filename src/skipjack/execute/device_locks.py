"""Locks on the devices of a host: two processes never time on the same one at once.

A *kind* of device (``cpu``) has one lock for all its units. A process that needs the whole host
quiet, as a tuning does, holds it exclusively. A process that uses some units, as an evaluator does
its cores, holds it shared, and an exclusive lock on each of the units.

Shared holders that come and go could keep out a process that waits for the exclusive lock. So all
pass through a turnstile, one at a time: the process that waits for the lock holds the turnstile,
and those that come later wait for that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from skipjack.core import Device
from skipjack.errors import StorageError
from skipjack.settings import LOCK_DIR
from skipjack.storage import FileLock

VARIABLE = LOCK_DIR.name
"""The variable for another folder of locks, the same for all that share the devices; it is created
if it does not exist."""
SHARED = Path("/tmp/skipjack-locks")
"""The folder of all users of a host, who share its devices, whatever their TMPDIR is. Containers
get access to it, so it must hold nothing but locks."""

_ADVICE = f"set {VARIABLE} to another folder, the same for all that share the devices"

OnWait = Callable[[str], None]


@contextlib.contextmanager
def device_lock(
    device: Device, on_wait: OnWait | None = None, timeout_s: float | None = None
) -> Iterator[None]:
    """Hold all devices of this kind; if one is held, calls `on_wait` with a message and waits.

    Raises `StorageError` if it waits longer than `timeout_s` for one lock.
    """
    with _kind_lock(device.kind, on_wait, timeout_s, shared=False):
        yield


@contextlib.contextmanager
def slot_lock(
    kind: str,
    units: Sequence[int | str],
    on_wait: OnWait | None = None,
    timeout_s: float | None = None,
) -> Iterator[None]:
    """Hold some units of a kind, such as cores, while others may hold other units."""
    with contextlib.ExitStack() as held:
        # All take locks in the same order, so that no two processes wait for each other.
        for unit in sorted(set(map(str, units))):
            path = _path(f"{kind}-{unit}")
            held.enter_context(FileLock(path, on_wait, timeout_s, public=True))
        held.enter_context(_kind_lock(kind, on_wait, timeout_s, shared=True))
        yield


@contextlib.contextmanager
def _kind_lock(
    kind: str, on_wait: OnWait | None, timeout_s: float | None, *, shared: bool
) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        with FileLock(_path(f"{kind}-turnstile"), on_wait, timeout_s, public=True):
            lock = FileLock(_path(kind), on_wait, timeout_s, shared=shared, public=True)
            held.enter_context(lock)
        yield


def directory() -> Path:
    """The folder of the locks, which is created if need be."""
    named = LOCK_DIR.text()
    return _shared_directory(Path(named).absolute() if named else SHARED)


def _shared_directory(place: Path) -> Path:
    try:
        place.mkdir(parents=True)
        place.chmod(0o1777)  # as /tmp, whatever the umask is
    except FileExistsError:
        if not place.is_dir():
            raise StorageError(
                f"{place} is not a directory, so it cannot hold locks; {_ADVICE}"
            ) from None
    except OSError as error:
        raise StorageError(
            f"cannot create {place} for the locks of devices: {error.strerror}; {_ADVICE}"
        ) from error
    return place


def _path(name: str) -> Path:
    return directory() / f"skipjack-{name}.lock"
