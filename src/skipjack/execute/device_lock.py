"""One lock for each device of a host: two processes never time on it at once."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from skipjack.core.device import Device
from skipjack.storage import FileLock


@contextlib.contextmanager
def device_lock(device: Device, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the device; says through `on_wait` if somebody else has it, then waits."""
    # All users of a host share its devices, so the lock lies where all of them can reach it.
    path = Path(tempfile.gettempdir()) / f"skipjack-{device.kind}.lock"
    with FileLock(path, on_wait, shared=True):
        yield
