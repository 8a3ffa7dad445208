"""When a program may tune: not while a graph is recorded, one process at a time; commands to tune
later.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from skipjack.errors import StorageError
from skipjack.execute import slot_lock

# When a problem may be tuned: not during graph capture, and not by two processes at once.

log = logging.getLogger(__name__)

_LOCKS = 64
"""The number of locks on a host; problems are distributed among them."""


_held = threading.local()
"""Its attribute `inside` is true while its thread is tuning."""


class TurnTimeoutError(StorageError):
    """Another process was still tuning the same problem when the time was over."""


@contextmanager
def one_at_a_time(problem: str, timeout_s: float | None = None) -> Iterator[None]:
    """If several processes of a host need the same problem at once, one tunes it and others wait.

    They then find its results. A kernel that is called from a hook of one that is being tuned does
    not wait: it could wait for itself, or for a process that waits for this one. If locks cannot be
    created, no process waits. `TurnTimeoutError` if waiting takes longer than `timeout_s`.
    """
    if getattr(_held, "inside", False):
        yield
        return
    waiting: list[str] = []
    with ExitStack() as held:
        try:
            unit = int(hashlib.sha256(problem.encode()).hexdigest(), 16) % _LOCKS
            held.enter_context(slot_lock("autotune", [unit], waiting.append, timeout_s))
        except StorageError as error:
            if waiting:
                raise TurnTimeoutError(str(error)) from error
            log.warning("tuning without a lock: %s", error)
        for sentence in waiting:
            log.info("%s", sentence)
        _held.inside = True
        try:
            yield
        finally:
            _held.inside = False


def is_recording() -> bool:
    """Whether the caller is capturing a graph, during which nothing can be timed."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return False
    recording: bool = torch.cuda.is_current_stream_capturing()
    return recording


# ``SKIPJACK_ENABLE_LOGGING_CMD=1``: one line for each problem that a program looks up.
#
# A line is the command that tunes the problem on the same device and for the same deployment. It
# can be run as it is; ``skipjack tune -f`` reads files of such lines.

_logged: set[str] = set()


def command_line(
    problem: str, device: str, plugins: Sequence[str] = (), deployed: str | None = None
) -> str:
    """The command that tunes a problem, given by its full key, on a device.

    `deployed` is a deployment as ``eager/cold``; None is the device's default.
    """
    words = ["skipjack", "tune", problem, "--device", device]
    if deployed is not None:
        calls, _, caches = deployed.partition("/")
        words += ["--deployed", calls, "--caches", caches]
    for plugin in plugins:
        words += ["--plugin", plugin]
    return shlex.join(words)


def log_command(
    problem: str, device: str, plugins: Sequence[str] = (), deployed: str | None = None
) -> None:
    """Write the line to the error output, once for each problem, device and deployment."""
    line = command_line(problem, device, plugins, deployed)
    if line in _logged:
        return
    _logged.add(line)
    with contextlib.suppress(OSError):
        # In one unbuffered write: several processes may write to the same file.
        os.write(2, f"{line}\n".encode())
