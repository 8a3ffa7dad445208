"""Asks the process of `warm` to run a command; each such command loads this, so it is short."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping

SETTLED = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "MKL_", "TZ")
"""Variables with these beginnings are read as a process or a library starts."""
NUMBER = 8
"""Bytes of a number that is sent."""


def settled(environment: Mapping[str, str]) -> dict[str, str]:
    """What a process reads as it starts, and a fork of one that runs does not."""
    return {name: value for name, value in environment.items() if name.startswith(SETTLED)}


def ask(
    address: str,
    arguments: list[str],
    environment: Mapping[str, str],
    directory: str,
    streams: tuple[int, int, int],
    timeout: float | None = None,
) -> int | None:
    """The exit code of Python with these arguments; negative for a signal, None for a timeout."""
    request = json.dumps([arguments, dict(environment), directory]).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [len(request).to_bytes(NUMBER, "big")], list(streams))
        connection.sendall(request)
        connection.settimeout(timeout)
        pid = received(connection)
        try:
            return received(connection)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            return None


def received(connection: socket.socket) -> int:
    """The next number."""
    return int.from_bytes(read(connection, NUMBER), "big", signed=True)


def read(connection: socket.socket, size: int) -> bytes:
    """As many bytes; a connection that ends before is an error."""
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError("the process that forks commands has ended")
        found += part
    return found
