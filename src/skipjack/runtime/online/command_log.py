"""``SKIPJACK_ENABLE_LOGGING_CMD=1``: one line for each problem that a program asks for.

A line is the command that tunes the problem on the same device and for the same deployment, and can
be run as it stands; ``skipjack tune -f`` reads files of them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Sequence

_logged: set[str] = set()


def command_line(
    problem: str, device: str, plugins: Sequence[str] = (), deployed: str | None = None
) -> str:
    """The command that tunes a problem, whose key is whole, on a device.

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
        # At once and as a whole: several processes may write to the same file.
        os.write(2, f"{line}\n".encode())
