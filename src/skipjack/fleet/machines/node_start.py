"""A Ray node of this machine: its record, the command line that starts it, and its processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from skipjack.errors import MalformedError, SkipjackError
from skipjack.processes import python_command
from skipjack.reading import read_json
from skipjack.settings import RAY_NODE
from skipjack.storage import atomic_write

# The request to start a node on this machine, and the record of the node.

_FILE = "node.json"
_TOKEN = "token"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request to start a node."""

    machine: str
    cluster: str
    """The id of the cluster, which is random."""
    token: str
    head: str = ""
    """Host and port of the head to join; empty for the head itself."""
    port: int = 6379
    client_port: int = 10001
    resources: Mapping[str, int] | None = None
    gpus: int = 0
    options: Sequence[str] = ()
    """Further options for ``ray start``."""
    image: str = ""
    """Run it in containers of this image, one for each GPU; empty: without containers."""


def container_names(request: NodeRequest, id: str) -> tuple[str, ...]:
    """The names of its containers: one for each GPU, or one."""
    return tuple(f"skipjack-node-{id}-{number}" for number in range(max(1, request.gpus)))


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node that was started, or whose start was begun."""

    id: str
    """The mark of all its processes, or a part of the names of its containers."""
    cluster: str
    ip: str
    temporary: str
    pid: int = 0
    """The process whose end ends all others."""
    containers: tuple[str, ...] = ()
    """Names of its containers; empty if it runs without."""

    @property
    def what(self) -> str:
        """A description for messages."""
        count = len(self.containers)
        if count:
            return f"{count} containers" if count > 1 else f"container {self.containers[0]}"
        return f"process {self.pid}"


def read_record(folder: Path) -> NodeRecord | None:
    """Read the record of the node; None if there is none."""
    try:
        return read_json((folder / _FILE).read_bytes()).without("format", _FORMAT).of(NodeRecord)
    except FileNotFoundError:
        return None
    except MalformedError as error:
        raise SkipjackError(
            f"{folder / _FILE} is damaged: {error}; end that node manually and delete the file"
        ) from None


def write_record(folder: Path, record: NodeRecord) -> None:
    """Write the record of a node."""
    atomic_write(folder / _FILE, json.dumps({"format": _FORMAT, **asdict(record)}).encode())


def write_token(folder: Path, token: str) -> Path:
    """Write the token to a file that only this user can read."""
    path = folder / _TOKEN
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token)
    return path


def forget(folder: Path, record: NodeRecord) -> None:
    """Remove all files of a node except its logs, which the next node overwrites."""
    for name in (_FILE, _TOKEN):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(record.temporary, ignore_errors=True)


# Processes with a mark in their environment, which their children inherit.
#
# It identifies all processes of a node, even after some of them died, and no others: another Ray on
# the same machine does not have the mark.

MARK = RAY_NODE.name
"""The variable with the mark; its value is the node's id."""
_GENTLE_S = 8.0
_PATIENT_S = 2.0
_HARD_S = 5.0
_LOOK_S = 0.05
END_S = _GENTLE_S + _PATIENT_S + _HARD_S
"""Time within which the processes end, or fail to end."""


def marked(id: str) -> list[int]:
    """Running processes of this user with the mark."""
    word = f"{MARK}={id}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if word in (entry / "environ").read_bytes().split(b"\0") and not _ended(entry):
                found.append(int(entry.name))
        except OSError:  # it ended, or belongs to another user
            continue
    return sorted(pid for pid in found if pid != os.getpid())


def end_marked(id: str, first: int = 0) -> list[int]:
    """End all marked processes, `first` before the others; returns those that did not end."""
    if first in marked(id):
        _send(first, signal.SIGTERM)  # it ends the others in order
        _wait_while(lambda: first in marked(id), _GENTLE_S)
    for pid in marked(id):
        _send(pid, signal.SIGTERM)
    _wait_while(lambda: bool(marked(id)), _PATIENT_S)
    deadline = time.monotonic() + _HARD_S
    # Repeatedly: a process may start another one meanwhile.
    while (rest := marked(id)) and time.monotonic() < deadline:
        for pid in rest:
            _send(pid, signal.SIGKILL)
        time.sleep(_LOOK_S)
    return marked(id)


def _wait_while(so: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while so() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _ended(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


# ``ray start`` on this machine: its command line, its environment, and its output.

START_S = 60.0
"""Time within which a node must be up."""
CONTAINER_S = 30.0
"""Time within which an engine starts or ends a container whose image exists."""
START_ALL_S = 2 * (CONTAINER_S + START_S)
"""Time for a node in containers: the first, then all others in parallel."""
END_ALL_S = 6 * CONTAINER_S
"""Time to end a node in containers: all but the first, the first, the rest by force, with a listing
before each step."""
REACH_S = 5.0
_LAST_LINES = 3
_LONGEST = 400


def ray_command(python: str, request: NodeRequest, ip: str, temporary: str, gpus: int) -> list[str]:
    """The command line of a node."""
    words = ["start", "--block", "--log-color=false"]
    words += [f"--node-name={request.machine}", "--include-log-monitor=false"]
    words.append(f"--temp-dir={temporary}/r")
    if ip:
        words.append(f"--node-ip-address={ip}")
    if gpus:
        words.append(f"--num-gpus={gpus}")
    if request.resources:
        words.append(f"--resources={json.dumps(request.resources)}")
    if request.head:
        words.append(f"--address={request.head}")
    else:
        words += ["--head", f"--port={request.port}", "--include-dashboard=false"]
        words.append(f"--ray-client-server-port={request.client_port}")
    return python_command("ray.scripts.scripts", *words, *request.options, python=python)


def ray_variables(machine: str, token: Path, mark: str) -> dict[str, str]:
    """Variables for its environment: the path of the token, never the token."""
    return {
        MARK: mark,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # evaluators need normal priority
        "SKIPJACK_MACHINE": machine,
    }


def own_ip() -> str:
    """The address that ssh connected to, by which other machines can reach this one."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else ""


def check_head(address: str) -> None:
    """Fail at once if the head does not answer; Ray itself tries for half a minute or more."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except OSError as error:
        raise SkipjackError(
            f"the head at {address} cannot be reached from here: {error.strerror or error}; allow "
            "connections between the machines, or choose a head that all of them can reach"
        ) from None


def started(printed: str) -> str | None:
    """The address that Ray chose, once its output says that it is up; None before."""
    if "Ray runtime started" not in printed:
        return None
    chosen = re.search(r"Local node IP: ([0-9A-Fa-f.:]+)", printed)
    return chosen[1] if chosen else ""


def not_started(printed: str, late: bool = False) -> SkipjackError:
    """The error with the reason why Ray is not up, according to its output."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if any("No module named" in line and "ray" in line for line in lines):
        return SkipjackError("Ray is not installed here; run pip install 'skipjack[ray]'")
    if any(re.search(r"Session name .* does not match", line) for line in lines):
        return SkipjackError(
            "another Ray uses the head's port here; end that one, or choose another port with "
            "skipjack fleet up --port"
        )
    if asked := re.search(r"lsof -i :(\d+)", printed):
        return SkipjackError(
            f"Ray did not start, most likely because another program uses port {asked[1]} here; "
            "end that one, or choose another port with skipjack fleet up --port"
        )
    telling = [line for line in lines if re.search(r"error|cannot|failed|refused", line, re.I)]
    reason = " ".join((telling or lines or ["no output"])[-_LAST_LINES:])[-_LONGEST:]
    within = f" within {START_S:g} s" if late else ""
    return SkipjackError(f"Ray did not start{within}: {reason}")
