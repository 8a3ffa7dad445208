"""Processes of ours: how they are started, and whether one that was started still runs."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Whether a process still runs, and which process of which machine it was.
#
# A process id has no meaning on another machine, after a reboot, in another container, or once it
# is reused: therefore the boot and the start time of the process are compared, too.

_MACHINE, _BOOT = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id")
_ENDED = ("Z", "X")
"""States of a dead process that its parent has not waited for."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A unique identity of a process; `boot` is empty if unknown."""

    host: str
    pid: int
    boot: str = ""
    """Equal for the same boot of the same machine with the same process ids."""
    began: str = ""
    """The start time in the kernel's ticks."""

    @property
    def gone(self) -> bool:
        """Whether it has certainly ended; False for other machines, and if in doubt."""
        here = this_process()
        if not self.boot or (self.host, self.boot) != (here.host, here.boot):
            return False
        if not exists(self.pid):
            return True
        state, began = _stat(self.pid)
        return state in _ENDED or bool(began and self.began and began != self.began)


def exists(pid: int) -> bool:
    """Whether a process of any user has this id, including one that was not reaped."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it exists, and is another user's
    return True


def this_process() -> ProcessIdentity:
    """The identity of the current process."""
    pid = os.getpid()
    return ProcessIdentity(os.uname().nodename, pid, _this_boot(), began(pid))


def began(pid: int) -> str:
    """The start time of a process in the kernel's ticks; empty if it cannot be read."""
    return _stat(pid)[1]


def _stat(pid: int) -> tuple[str, str]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""


def _this_boot() -> str:
    try:
        # Containers share a boot, but not process ids.
        namespace = Path("/proc/self/ns/pid").readlink()
        boot = _BOOT.read_text().strip()
    except OSError:
        return ""
    try:
        machine = _MACHINE.read_text().strip()
    except OSError:
        machine = ""
    # According to machine-id(5), the id must not be exposed: only a digest is used.
    return hashlib.sha256(f"{machine} {boot} {namespace}".encode()).hexdigest()[:32]


# How Skipjack starts its processes: command lines and environments.

_PATHS = (
    *("SKIPJACK_USER_DB_PATH", "SKIPJACK_LOCK_DIR", "SKIPJACK_FLEET_KEY"),
    *("SKIPJACK_DB_PASSWORD_FILE", "SKIPJACK_MIOPEN_DRIVER"),
    *("RAY_AUTH_TOKEN_PATH", "TMPDIR"),
)
SECRETS = frozenset(
    (
        *("SKIPJACK_DB", "SKIPJACK_DB_PASSWORD_FILE", "SKIPJACK_FLEET_KEY", "SKIPJACK_SSH_CONFIG"),
        *("PGPASSWORD", "PGPASSFILE", "MYSQL_PWD"),
    )
)
"""Variables that hold secrets or their locations. Workers do not get them, as they run code of
others; they open no database and sign nothing."""
_PROGRAMS_OWN = frozenset(("SKIPJACK_TORCH",))
"""Variables of the program itself: in workers, PyTorch is measured without the hook."""
_ENGINE, _SSH = "SKIPJACK_CONTAINER_ENGINE", "SKIPJACK_SSH_CONFIG"
_RELATIVE_SQLITE = "sqlite:///"

SAFE_DIRECTORY = Path("/")
"""Only root can put modules here: for programs that import from their working directory."""


def python_command(module: str, *words: str, python: str = sys.executable) -> list[str]:
    """The command line that runs a module, for all processes that Skipjack starts.

    -P keeps the current directory out of the module search path: a file ``json.py`` in it may be
    another user's and must not be imported.
    """
    return [python, "-P", "-m", module, *words]


def worker_environment() -> dict[str, str]:
    """The environment of workers: that of this process without some variables."""
    kept_back = SECRETS | _PROGRAMS_OWN
    return {name: value for name, value in os.environ.items() if name not in kept_back}


def environment_for(directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process in `directory`, with relative paths made absolute."""
    here = Path.cwd()
    found = dict(environment)
    if directory.resolve() == here.resolve():
        return found
    paths = list(_PATHS)
    if "/" in found.get(_ENGINE, ""):  # else it is the name of a program
        paths.append(_ENGINE)
    if found.get(_SSH) != "none":  # which ssh reads as "no file"
        paths.append(_SSH)
    for name in paths:
        if found.get(name) and not found[name].startswith("~"):
            found[name] = str(here / found[name])
    url = found.get("SKIPJACK_DB", "")
    if url.startswith(_RELATIVE_SQLITE) and not url.startswith(f"{_RELATIVE_SQLITE}/"):
        found["SKIPJACK_DB"] = f"{_RELATIVE_SQLITE}{here / url.removeprefix(_RELATIVE_SQLITE)}"
    if found.get("PYTHONPATH"):
        entries = found["PYTHONPATH"].split(os.pathsep)
        found["PYTHONPATH"] = os.pathsep.join(str(here / one) for one in entries)
    plugins = found.get("SKIPJACK_PLUGINS", "").split(os.pathsep)
    if plugins != [""]:
        absolute = (str(here / one) if one.endswith(".py") else one for one in plugins)
        found["SKIPJACK_PLUGINS"] = os.pathsep.join(absolute)
    return found
