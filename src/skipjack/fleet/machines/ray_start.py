"""``ray start`` on this machine: its command line, its surroundings, and what it says."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

from skipjack.children import python_command
from skipjack.errors import SkipjackError
from skipjack.fleet.machines.marked import MARK
from skipjack.fleet.machines.node_record import NodeRequest

START_S = 60.0
"""Within this time a node is up, or it is given up."""
CONTAINER_S = 30.0
"""Longer than an engine takes to start or end a container; the image is here."""
START_ALL_S = 2 * (CONTAINER_S + START_S)
"""A node in containers: the first, then all others at once."""
END_ALL_S = 6 * CONTAINER_S
"""Those that joined a head at once, the first, by force who is left; and a look before each."""
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
    """What is set in its environment: where the token is, never the token."""
    return {
        MARK: mark,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # who stands back measures badly
        "SKIPJACK_MACHINE": machine,
    }


def own_ip() -> str:
    """The address that ssh came to: others of the fleet reach this machine by it, too."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else ""


def check_head(address: str) -> None:
    """Complain at once; Ray itself tries for half a minute and more."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except OSError as error:
        raise SkipjackError(
            f"the head at {address} cannot be reached from here: {error.strerror or error}; let "
            "the machines talk to each other, or name a head that all of them reach"
        ) from None


def started(said: str) -> str | None:
    """The address that Ray chose, once it is up; None before."""
    if "Ray runtime started" not in said:
        return None
    chosen = re.search(r"Local node IP: ([0-9A-Fa-f.:]+)", said)
    return chosen[1] if chosen else ""


def not_started(said: str, late: bool = False) -> SkipjackError:
    """Why Ray is not up, by what it said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any("No module named" in line and "ray" in line for line in lines):
        return SkipjackError("Ray is not installed here; pip install 'skipjack[ray]'")
    if any(re.search(r"Session name .* does not match", line) for line in lines):
        return SkipjackError(
            "another Ray uses the head's port here; end that one, or choose a port by skipjack "
            "fleet up --port"
        )
    if asked := re.search(r"lsof -i :(\d+)", said):
        return SkipjackError(
            f"Ray did not start, most likely since another program has port {asked[1]} here; end "
            "that one, or choose a port by skipjack fleet up --port"
        )
    telling = [line for line in lines if re.search(r"error|cannot|failed|refused", line, re.I)]
    reason = " ".join((telling or lines or ["it said nothing"])[-_LAST_LINES:])[-_LONGEST:]
    within = f" within {START_S:g} s" if late else ""
    return SkipjackError(f"Ray did not start{within}: {reason}")
