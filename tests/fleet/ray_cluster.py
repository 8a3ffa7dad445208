"""A real Ray on loopback: a head and further nodes, each with a name, all ended by their ids."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from needs import need_ray
from processes import PATIENCE_S


@dataclass
class RayNode:
    """What one ``ray start --block`` began."""

    name: str
    process: subprocess.Popen[bytes]

    def pids(self, program: str = "") -> list[int]:
        """The processes of the node, or those of one program, as ``raylet`` or ``gcs_server``."""
        family = _descendants(self.process.pid)
        return [pid for pid in family if program in _program(pid)]

    def kill(self) -> None:
        """End the node like a power failure."""
        family = [*_descendants(self.process.pid), self.process.pid]
        for pid in family:
            _kill(pid, signal.SIGSTOP)  # so that no process starts another one meanwhile
        for pid in {*family, *_descendants(self.process.pid)}:
            _kill(pid, signal.SIGKILL)
        self.process.wait()


class RayCluster:
    """A head, which runs work too, and nodes that come and go."""

    def __init__(self) -> None:
        need_ray()
        # Names of sockets must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="sjray", dir="/tmp"))
        self.port, self.client_port = _free_port(), _free_port()
        self.nodes: dict[str, RayNode] = {}
        self.variables = {
            "HOME": str(self.folder),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            # By default a dead node is noticed after half a minute.
            "RAY_health_check_initial_delay_ms": "0",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": "3",
        }

    @property
    def address(self) -> str:
        """For drivers on a machine of the cluster."""
        return f"127.0.0.1:{self.port}"

    @property
    def client_address(self) -> str:
        """For drivers anywhere."""
        return f"ray://127.0.0.1:{self.client_port}"

    def start_head(self, name: str, *, cpus: int = 2) -> None:
        """The first node."""
        ports = [f"--port={self.port}", f"--ray-client-server-port={self.client_port}"]
        places = [f"--temp-dir={self.folder / 'ray'}", "--include-dashboard=false"]
        self._start(name, cpus, ["--head", *ports, *places])
        _wait_for_port(self.port)

    def add(self, name: str, *, cpus: int = 2, resources: str = "{}") -> RayNode:
        """Another node; it is there soon after."""
        return self._start(name, cpus, [f"--address={self.address}", f"--resources={resources}"])

    def _start(self, name: str, cpus: int, arguments: list[str]) -> RayNode:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            **self.variables,
            "SKIPJACK_MACHINE": name,
            "SKIPJACK_USER_DB_PATH": str(home / "user"),
            "SKIPJACK_LOCK_DIR": str(home),
        }
        common = [
            f"--num-cpus={cpus}",
            "--object-store-memory=80000000",
            "--node-ip-address=127.0.0.1",
            "--min-worker-port=0",
            "--max-worker-port=0",
            f"--dashboard-agent-listen-port={_free_port()}",
            "--include-log-monitor=false",
            "--block",
        ]
        with (home / "ray.log").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", *arguments, *common],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.nodes[name] = RayNode(name, process)
        return self.nodes[name]

    def close(self) -> None:
        """End every node."""
        for node in self.nodes.values():
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for_port(port: int, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(entry.name))
    found = list(parents.get(pid, []))
    for child in found:
        found.extend(parents.get(child, []))
    return found


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
