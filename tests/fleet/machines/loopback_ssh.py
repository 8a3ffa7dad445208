"""Real sshd on loopback: each with a host key, a port and a user directory of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from needs import lacking
from processes import PATIENCE_S
from skipjack.fleet.model import Registration
from skipjack.testing.servers import free_port

_SETTINGS = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv {variables}
"""
_CLIENT = """\
Host *
  IdentityFile {folder}/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  KexAlgorithms curve25519-sha256
"""


def sshd_program() -> str:
    """The server's path; without it the test is not run, or fails where everything must be."""
    found = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None or shutil.which("ssh") is None:
        lacking("OpenSSH", "its server or client is not installed")
    return found


class Sshd:
    """A running server."""

    def __init__(self, folder: Path, name: str, key: Path, variables: Mapping[str, str]) -> None:
        self.name, self.folder, self.port = name, folder, free_port()
        program = sshd_program()
        if os.getuid() == 0:  # where it goes without privileges
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        folder.mkdir(parents=True)
        make_key(folder / "host_key")
        (folder / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
        settings = {"SKIPJACK_USER_DB_PATH": str(folder / "user"), **variables}
        listed = " ".join(f"{name}={text}" for name, text in settings.items())
        text = _SETTINGS.format(port=self.port, folder=folder, variables=listed)
        (folder / "sshd_config").write_text(text)
        with (folder / "log").open("wb") as log:
            line = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
            self._process = subprocess.Popen(line, stdout=log, stderr=log)
        _wait_for_port(self.port, self._process, folder / "log")

    @property
    def user_dir(self) -> Path:
        """Where Skipjack keeps things over there."""
        return self.folder / "user"

    def registration(self, **more: object) -> Registration:
        """How it is reached."""
        fields: dict[str, object] = {"user": getpass.getuser(), "python": sys.executable, **more}
        return Registration(self.name, "127.0.0.1", self.port, **fields)  # type: ignore[arg-type]

    @property
    def options(self) -> list[str]:
        """What ``skipjack machine add`` is given."""
        return [
            *(self.name, "--host", "127.0.0.1", "--port", str(self.port)),
            *("--user", getpass.getuser(), "--python", sys.executable),
        ]

    def public_key(self) -> str:
        """Its host key, as in known_hosts."""
        kind, key, *_ = (self.folder / "host_key.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


def client_settings(folder: Path, known: Path) -> Path:
    """A configuration for ssh with only the key and the hosts of the tests."""
    path = folder / f"{known.name}.config"
    path.write_text(_CLIENT.format(folder=folder, known=known))
    return path


def make_key(path: Path) -> None:
    """A pair of keys without a password."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
