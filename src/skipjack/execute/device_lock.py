"""One lock for each device of a host: two processes never time on it at once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from skipjack.core.device import Device
from skipjack.storage import FileLock

VARIABLE = "SKIPJACK_LOCK_DIR"
"""Another folder for the locks, the same for all who share the devices."""


@contextlib.contextmanager
def device_lock(device: Device, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the device; says through `on_wait` if somebody else has it, then waits."""
    # All users of a host share its devices, so the lock lies where all of them can reach it,
    # whatever their TMPDIR is.
    folder = Path(os.environ.get(VARIABLE, "/tmp"))
    path = folder / f"skipjack-{device.kind}.lock"
    with FileLock(path, on_wait, shared=True):
        yield
