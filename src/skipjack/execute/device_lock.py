"""Locks on the devices of a host: two processes never time on the same one at once.

A *kind* of device (``cpu``) has one lock that covers all of it. Who needs the whole host quiet, as
a tuning does, holds it alone. Who keeps to some units, as an evaluator does to its cores, shares it
with others of that sort and holds a lock of its own on each unit.

Sharers that come and go could keep out somebody who waits to be alone. So everybody passes through
a turnstile, one at a time: who waits for the lock stands in it, and those who come later wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from skipjack.core.device import Device
from skipjack.errors import StorageError
from skipjack.settings import LOCK_DIR
from skipjack.storage import FileLock

VARIABLE = LOCK_DIR.name
"""Another folder for the locks, the same for all who share the devices; made if it is not there."""
SHARED = Path("/tmp/skipjack-locks")
"""Of all users of a host, whatever their TMPDIR is: they share its devices. Containers are given
it, which is why it holds nothing but locks."""

_ELSE = f"set {VARIABLE} to another place, the same for all who share the devices"

OnWait = Callable[[str], None]


@contextlib.contextmanager
def device_lock(
    device: Device, on_wait: OnWait | None = None, timeout_s: float | None = None
) -> Iterator[None]:
    """Hold all devices of this kind; says through `on_wait` if somebody has one, then waits.

    For each lock on the way at most `timeout_s`, then `StorageError`.
    """
    with _whole(device.kind, on_wait, timeout_s, shared=False):
        yield


@contextlib.contextmanager
def slot_lock(
    kind: str,
    units: Sequence[int | str],
    on_wait: OnWait | None = None,
    timeout_s: float | None = None,
) -> Iterator[None]:
    """Hold some units of a kind, such as cores, beside others who hold other units."""
    with contextlib.ExitStack() as held:
        # In the same order for everybody: two who need the same units never wait for each other.
        for unit in sorted(set(map(str, units))):
            path = _path(f"{kind}-{unit}")
            held.enter_context(FileLock(path, on_wait, timeout_s, public=True))
        held.enter_context(_whole(kind, on_wait, timeout_s, shared=True))
        yield


@contextlib.contextmanager
def _whole(
    kind: str, on_wait: OnWait | None, timeout_s: float | None, *, shared: bool
) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        with FileLock(_path(f"{kind}-turnstile"), on_wait, timeout_s, public=True):
            lock = FileLock(_path(kind), on_wait, timeout_s, shared=shared, public=True)
            held.enter_context(lock)
        yield


def directory() -> Path:
    """Where the locks lie."""
    named = LOCK_DIR.text()
    return _for_everybody(Path(named).absolute() if named else SHARED)


def _for_everybody(place: Path) -> Path:
    try:
        place.mkdir(parents=True)
        place.chmod(0o1777)  # as /tmp has it, whatever our umask is
    except FileExistsError:
        if not place.is_dir():
            raise StorageError(
                f"{place} is not a directory, so it cannot hold locks; {_ELSE}"
            ) from None
    except OSError as error:
        raise StorageError(
            f"cannot make {place} for the locks of devices: {error.strerror}; {_ELSE}"
        ) from error
    return place


def _path(name: str) -> Path:
    return directory() / f"skipjack-{name}.lock"
