"""Environment variables: each is declared here once, and read when it is used.

The documentation lists all but those that Skipjack sets for its own processes.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any, Generic, TypeVar

from skipjack.errors import MalformedError, UsageError
from skipjack.reading import quoted, whole_number

LOG_LEVELS = ("debug", "info", "warning", "error", "critical")

T = TypeVar("T")

log = logging.getLogger(__name__)

_WORKERS_PER_CORE = 4
"""More workers do not build faster, and each takes memory."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True, slots=True)
class Variable(Generic[T]):
    """An environment variable. An empty one counts as unset."""

    name: str
    type: Callable[[object], T]
    """Checks and converts; its `ValueError` says what to write."""
    default: str = ""
    """The default as described in the documentation."""
    field: str = ""
    """The key in ``config.toml``; empty if it has none."""
    internal: bool = False
    """Set by Skipjack for processes that it starts, and not by users."""

    def __str__(self) -> str:
        return self.name

    def text(self, environment: Mapping[str, str] | None = None) -> str:
        """Its value here or in another environment; empty if it is not set."""
        return (os.environ if environment is None else environment).get(self.name, "")

    def value(self) -> T | None:
        """Its converted value; None if it is not set, `UsageError` if it is bad."""
        text = self.text()
        if not text:
            return None
        try:
            return self.type(text)
        except ValueError as error:
            raise UsageError(f"{self.name} is {text!r}; {error}") from None


def usable_cores() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _log_level(value: object) -> str:
    level = str(value).lower()
    if level not in LOG_LEVELS:
        raise ValueError(f"write one of {', '.join(LOG_LEVELS)}")
    return level


def _path(value: object) -> Path:
    if not isinstance(value, str | Path):
        raise ValueError('write a path, such as "/data/skipjack"')
    return expanded(value).absolute()


def _byte_count(value: object) -> int:
    text = str(value).strip().lower().removesuffix("b").rstrip()
    digits = text.rstrip("kmgti ")
    unit = text[len(digits) :].strip()
    factor = {**_UNITS, **_BINARY_UNITS}.get(unit)
    try:
        if factor is None or isinstance(value, bool | float):
            raise MalformedError("")
        count = whole_number(digits) * factor
        if count < 0:
            raise MalformedError("")
        return count
    except MalformedError:
        raise ValueError("write a number of bytes, such as 500000000, 500 MB or 2 GiB") from None


def _gflops(value: object) -> float:
    try:
        rate = nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        rate = nan
    if not 0.0 < rate < inf:
        raise ValueError("write GFLOP/s as a number above 0")
    return rate


def _on_or_off(value: object) -> str:
    if value not in ("on", "off"):
        raise ValueError("write on or off")
    return str(value)


def _whole_number(value: object) -> int:
    # In Python, a bool is an int, but `core = true` is a mistake.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return whole_number(value.strip())
        except MalformedError:
            pass
    raise ValueError("write a whole number")


def _workers(value: object) -> int:
    count = _whole_number(value)
    if count < 1:
        raise ValueError("at least one build worker is needed")
    most = _WORKERS_PER_CORE * len(usable_cores())
    if count > most:
        warn_of_workers(count, most)
    return min(count, most)


@functools.cache
def warn_of_workers(count: int, most: int) -> None:
    log.warning(
        "%s build workers are too many for the cores of this process; %s are started", count, most
    )


def _core(value: object) -> int:
    core = _whole_number(value)
    usable = usable_cores()
    if core not in usable:
        listed = ", ".join(map(str, sorted(usable)))
        raise ValueError(f"this process may use the cores {listed}")
    return core


def _plugins(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part for part in value.split(os.pathsep) if part)
    if isinstance(value, Sequence) and all(isinstance(part, str) and part for part in value):
        return tuple(value)
    raise ValueError("write a list of module names or .py files")


def _banks(value: object) -> tuple[Path, ...]:
    try:
        return tuple(expanded(part).absolute() for part in _plugins(value))
    except UsageError:
        raise
    except ValueError:
        raise ValueError("write a list of banks: their files or directories") from None


def expanded(path: str | Path) -> Path:
    """The path with ``~`` or ``~name`` replaced by the home directory."""
    if "\0" in str(path):
        raise UsageError(f"{quoted(str(path))} contains a null character, which paths cannot have")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{path} begins with the home directory of a user who is unknown on this machine; "
            "write the whole path"
        ) from None


def _seconds(value: object) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = 0.0
    if not seconds > 0.0:
        raise ValueError("write a number of seconds")
    return seconds


USER_DIR = Variable("SKIPJACK_USER_DB_PATH", _path, "`~/.local/share/skipjack`")
"""The directory of ledger, bank and artifacts."""
BANKS = Variable("SKIPJACK_BANKS", _banks, "none", "banks")
"""Banks that lookups use after the user's."""
SYSTEM_DIR = Variable(
    "SKIPJACK_SYSTEM_DB_PATH", _path, "the bank that comes with Skipjack", "system_dir"
)
"""The directory of the system bank."""
CACHE_DIR = Variable(
    "SKIPJACK_CUSTOM_CACHE_DIR", _path, "`artifacts` in the user directory", "cache_dir"
)
"""The directory of the kernel cache."""
CACHE_LIMIT = Variable("SKIPJACK_CACHE_LIMIT", _byte_count, "`1 GiB`", "cache_limit")
"""Maximum size of the kernel cache, in bytes."""
FREE_DISK = Variable("SKIPJACK_FREE_DISK", _byte_count, "`1 GB`", "free_disk")
"""Bytes that must be free in the user directory before a program tunes."""
LOG_LEVEL = Variable("SKIPJACK_LOG_LEVEL", _log_level, "`warning`", "log_level")
"""The lowest level of messages that are logged."""
BUILD_WORKERS = Variable(
    "SKIPJACK_BUILD_WORKERS", _workers, "one less than the usable cores", "build_workers"
)
"""Number of processes that compile, at most four for each core."""
MAX_GFLOPS = Variable("MAX_GFLOPS", _gflops, "the peak that was measured", "max_gflops")
"""The peak rate of the device, in place of the measured one, for loop nests."""
TVM_PYTHON = Variable("SKIPJACK_TVM_PYTHON", _path, "this one, or that of `make tvm`", "tvm_python")
"""The Python that has TVM."""
CPU_LEVEL = Variable("SKIPJACK_CPU_LEVEL", str, "all that it has")
"""The highest level of this CPU's instruction set to use."""
CORE = Variable("SKIPJACK_CORE", _core, "the last usable one", "core")
"""The core to time on."""
LOCK_DIR = Variable("SKIPJACK_LOCK_DIR", _path, "`/tmp/skipjack-locks`")
"""The folder of device locks, the same for all who share the devices."""
PLUGINS = Variable("SKIPJACK_PLUGINS", _plugins, "none", "plugins")
"""Modules or .py files that register operations, solvers or searchers."""
AUTOTUNE = Variable("SKIPJACK_AUTOTUNE", _on_or_off, "`on`", "autotune")
"""Whether decorated kernels are tuned when they are called."""
RETRY_FAILED_BUILDS = Variable("SKIPJACK_RETRY_FAILED_BUILDS", _on_or_off, "`off`")
"""Whether builds that a ledger knows to fail are tried again."""
FIND_ENFORCE = Variable("SKIPJACK_FIND_ENFORCE", str, "`db`")
"""What lookups may do; read once per process."""
FIND_MODE = Variable("SKIPJACK_FIND_MODE", str, "`fast`")
"""Which solvers are timed for a problem where the policy is db."""
ENABLE_LOGGING_CMD = Variable("SKIPJACK_ENABLE_LOGGING_CMD", str, "`0`")
"""Whether lookups log the command that tunes their problem."""
TUNING_SECONDS = Variable("SKIPJACK_TUNING_SECONDS", str, "`tune_seconds` of `[limits]`: 5")
"""Seconds for each problem that a program tunes."""
TUNING_BACKGROUND = Variable("SKIPJACK_TUNING_BACKGROUND", str, "`0`")
"""Whether a program continues while it tunes."""
REGRET = Variable("SKIPJACK_REGRET", str, "`5%`")
"""Share of a program's kernel time that trials in the background may take."""
TUNING_SEARCHERS = Variable("SKIPJACK_TUNING_SEARCHERS", str, "both, `auto`")
"""Classes of operations that programs tune, and the searcher for each."""
TORCH_OPS = Variable("SKIPJACK_TORCH_OPS", str, "all")
"""PyTorch operations that are tuned, separated by commas."""
TUNE_RESULT = Variable("SKIPJACK_TUNE_RESULT", str, "`0`")
"""1: the result file is written with any policy."""
TUNE_RESULT_PATH = Variable("SKIPJACK_TUNE_RESULT_PATH", _path, "the working directory")
"""The directory of the result file."""
ON_MISS = Variable("SKIPJACK_ON_MISS", str, "`ignore`")
"""What to do about problems that no bank knows."""
PROGRAM = Variable("SKIPJACK_PROGRAM", str, "the launcher's")
"""A name that is shared by all ranks of a program, and by no other program."""
DB = Variable("SKIPJACK_DB", str, "a file in the user directory")
"""The URL of the fleet's database."""
DB_PASSWORD_FILE = Variable("SKIPJACK_DB_PASSWORD_FILE", _path, "the password in the URL, if any")
"""The file that holds the database's password."""
FLEET_KEY = Variable("SKIPJACK_FLEET_KEY", _path, "`fleet.key` in the user directory")
"""The file of the key that signs the fleet's machine code."""
MACHINE = Variable("SKIPJACK_MACHINE", str, "its host name")
"""This machine's name in the fleet."""
SSH_CONFIG = Variable("SKIPJACK_SSH_CONFIG", str, "the user's own")
"""The configuration file of ssh for machines of the fleet."""
REMOTE_PYTHON = Variable("SKIPJACK_REMOTE_PYTHON", str, "`python3`")
"""The interpreter of machines that were registered without one."""
CONTAINER_ENGINE = Variable("SKIPJACK_CONTAINER_ENGINE", str, "docker, else podman")
"""Docker or podman, by name or path."""
MIOPEN_DRIVER = Variable("SKIPJACK_MIOPEN_DRIVER", _path, "on `PATH`, or in `/opt/rocm/bin`")
"""The path of MIOpenDriver."""
MIOPEN_TIMEOUT_S = Variable(
    "SKIPJACK_MIOPEN_TIMEOUT_S", _seconds, "4 hours for a search, else 30 minutes"
)
"""Time limit for a run of MIOpenDriver, in seconds."""
ENABLE_TUNE_DUMP = Variable("ENABLE_TUNE_DUMP", str, "`False`")
"""Whether a program's problems are dumped to be tuned later."""
TUNE_DUMP_PATH = Variable("TUNE_DUMP_PATH", _path, "`tune_dump` in the working directory")
"""The directory that problems are dumped to."""
WEB_TOKEN = Variable("SKIPJACK_WEB_TOKEN", str, "none: all who reach it may read, none may act")
"""The token that readers of ``skipjack web`` log in with."""
PLUGIN_FOLDERS = Variable("SKIPJACK_PLUGIN_FOLDERS", str, internal=True)
"""Folders that workers search last for plug-in modules."""
TVM_KERNELS = Variable("SKIPJACK_TVM_KERNELS", str, internal=True)
"""The folder that run workers load TVM's kernels from."""
TORCH = Variable("SKIPJACK_TORCH", str, internal=True)
"""1: the hook is enabled as soon as PyTorch is imported."""
TORCH_STARTED = Variable("SKIPJACK_TORCH_STARTED", str, internal=True)
"""The program's process id, and its start time by the monotonic clock."""
RAY_NODE = Variable("SKIPJACK_RAY_NODE", str, internal=True)
"""Marks the processes of a Ray node that the fleet started."""

_LONGEST_NAME = 64


def machine_name(name: str | None = None) -> str:
    """The name of this machine: `name`, the value of `SKIPJACK_MACHINE`, or its host name."""
    import socket  # most programs do not need it

    chosen = name or MACHINE.text() or socket.gethostname()
    legible = chosen.isprintable() and chosen.strip() and not chosen.startswith("-")
    if len(chosen) > _LONGEST_NAME or not legible:
        raise UsageError(
            f"a machine cannot be called {chosen!r}; set {MACHINE.name} to a name of at most "
            f"{_LONGEST_NAME} printable characters that does not begin with a dash"
        )
    return chosen


VARIABLES: tuple[Variable[Any], ...] = tuple(
    one for one in list(globals().values()) if isinstance(one, Variable)
)
"""All environment variables of Skipjack."""
