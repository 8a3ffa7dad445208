"""Every setting, read in one place: explicit arguments, then the environment, then a file.

Each environment variable is declared here once, as a `Variable`, and read when it is used. The
README lists all but those that Skipjack sets for its own processes. Fields of `Settings` may also
stand in ``config.toml`` in the user directory, by the field's name; all but ``user_dir``.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Any, Generic, TypeVar

from skipjack.errors import MalformedError, StorageError, UsageError
from skipjack.reading import parse_toml, quoted, read_plain, whole_number

CONFIG_FILE = "config.toml"
ARTIFACTS = "artifacts"
"""The kernels' folder in the user directory."""
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")

T = TypeVar("T")
U = TypeVar("U")

log = logging.getLogger(__name__)

_WORKERS_PER_CORE = 4
"""More do not build faster, and each takes memory."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True, slots=True)
class Variable(Generic[T]):
    """An environment variable. An empty one counts as not set."""

    name: str
    type: Callable[[object], T]
    """Checks and converts; its `ValueError` says what to write."""
    default: str = ""
    """What holds without it, in the README's words."""
    field: str = ""
    """The key in ``config.toml``; empty if it has none."""
    internal: bool = False
    """Set by Skipjack for processes that it starts, and not by users."""

    def __str__(self) -> str:
        return self.name

    def text(self, environment: Mapping[str, str] | None = None) -> str:
        """What it is set to, here or in another environment; empty if it is not set."""
        return (os.environ if environment is None else environment).get(self.name, "")

    def value(self) -> T | None:
        """What it is set to, converted; None if it is not set, `UsageError` for a bad value."""
        text = self.text()
        if not text:
            return None
        try:
            return self.type(text)
        except ValueError as error:
            raise UsageError(f"{self.name} is {text!r}; {error}") from None


def _usable_cores() -> frozenset[int]:
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
        raise ValueError('write a path, as "/data/skipjack"')
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
        raise ValueError("write bytes, as 500000000, or 500 MB or 2 GiB") from None


def _gflops(value: object) -> float:
    try:
        rate = nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        rate = nan
    if not 0.0 < rate < inf:
        raise ValueError("write GFLOP/s as a number above 0")
    return rate


def _autotune(value: object) -> str:
    if value not in ("on", "off"):
        raise ValueError("write on or off")
    return str(value)


def _whole_number(value: object) -> int:
    # A bool is an int to Python, not to someone who writes `core = true`.
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
    most = _WORKERS_PER_CORE * len(_usable_cores())
    if count > most:
        _warn_of_workers(count, most)
    return min(count, most)


@functools.cache
def _warn_of_workers(count: int, most: int) -> None:
    log.warning(
        "%s build workers are too many for the cores of this process: %s are started", count, most
    )


def _core(value: object) -> int:
    core = _whole_number(value)
    usable = _usable_cores()
    if core not in usable:
        listed = ", ".join(map(str, sorted(usable)))
        raise ValueError(f"the cores this process may use are {listed}")
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
    """The path with the home directory that ``~`` or ``~name`` stands for."""
    if "\0" in str(path):
        raise UsageError(f"{quoted(str(path))} has a null character, which no path can have")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{path} begins with the home directory of a user whom this machine does not know; "
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
"""Banks that a lookup asks behind the user's."""
SYSTEM_DIR = Variable(
    "SKIPJACK_SYSTEM_DB_PATH", _path, "the bank that comes with Skipjack", "system_dir"
)
"""The directory of the system bank."""
CACHE_DIR = Variable(
    "SKIPJACK_CUSTOM_CACHE_DIR", _path, "`artifacts` in the user directory", "cache_dir"
)
"""The directory of the kernel cache."""
CACHE_LIMIT = Variable("SKIPJACK_CACHE_LIMIT", _byte_count, "`1 GiB`", "cache_limit")
"""Bytes that the kernel cache may take."""
FREE_DISK = Variable("SKIPJACK_FREE_DISK", _byte_count, "`1 GB`", "free_disk")
"""Bytes that must be free in the user directory before a program tunes."""
LOG_LEVEL = Variable("SKIPJACK_LOG_LEVEL", _log_level, "`warning`", "log_level")
"""The lowest level of messages that are logged."""
BUILD_WORKERS = Variable(
    "SKIPJACK_BUILD_WORKERS", _workers, "one less than the usable cores", "build_workers"
)
"""Processes that compile, at most four for each core."""
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
AUTOTUNE = Variable("SKIPJACK_AUTOTUNE", _autotune, "`on`", "autotune")
"""Whether decorated kernels are tuned when they are called."""
FIND_ENFORCE = Variable("SKIPJACK_FIND_ENFORCE", str, "`db`")
"""What lookups may do; read once a process."""
FIND_MODE = Variable("SKIPJACK_FIND_MODE", str, "`fast`")
"""Which solvers are timed for a problem where the policy is db."""
ENABLE_LOGGING_CMD = Variable("SKIPJACK_ENABLE_LOGGING_CMD", str, "`0`")
"""Whether lookups log the command that tunes what they are asked for."""
TUNING_SECONDS = Variable("SKIPJACK_TUNING_SECONDS", str, "`tune_seconds` of `[limits]`: 5")
"""Seconds for each problem that a program tunes."""
TUNING_BACKGROUND = Variable("SKIPJACK_TUNING_BACKGROUND", str, "`0`")
"""Whether a program goes on while it tunes."""
REGRET = Variable("SKIPJACK_REGRET", str, "`5%`")
"""Share of a program's kernel time that trials in the background may take."""
TUNING_SEARCHERS = Variable("SKIPJACK_TUNING_SEARCHERS", str, "both, `auto`")
"""Classes of operations that programs tune, and the searcher for each."""
TORCH_OPS = Variable("SKIPJACK_TORCH_OPS", str, "all")
"""Operations of PyTorch that are tuned, with commas between them."""
TUNE_RESULT = Variable("SKIPJACK_TUNE_RESULT", str, "`0`")
"""1: the result file is written whatever the policy is."""
TUNE_RESULT_PATH = Variable("SKIPJACK_TUNE_RESULT_PATH", _path, "the working directory")
"""The directory of the result file."""
ON_MISS = Variable("SKIPJACK_ON_MISS", str, "`ignore`")
"""What becomes of problems that no bank knows."""
PROGRAM = Variable("SKIPJACK_PROGRAM", str, "the launcher's")
"""A name that all ranks of a program share and no other program has."""
DB = Variable("SKIPJACK_DB", str, "a file in the user directory")
"""The URL of the fleet's database."""
DB_PASSWORD_FILE = Variable("SKIPJACK_DB_PASSWORD_FILE", _path, "the password in the URL, if any")
"""The file that holds the database's password."""
FLEET_KEY = Variable("SKIPJACK_FLEET_KEY", _path, "`fleet.key` in the user directory")
"""The file of the key that seals machine code of the fleet."""
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
"""Seconds that one run of MIOpenDriver may take."""
ENABLE_TUNE_DUMP = Variable("ENABLE_TUNE_DUMP", str, "`False`")
"""Whether a program's problems are dumped to be tuned later."""
TUNE_DUMP_PATH = Variable("TUNE_DUMP_PATH", _path, "`tune_dump` in the working directory")
"""The directory that problems are dumped to."""
PLUGIN_FOLDERS = Variable("SKIPJACK_PLUGIN_FOLDERS", str, internal=True)
"""Where workers look last for modules that are plug-ins."""
TVM_KERNELS = Variable("SKIPJACK_TVM_KERNELS", str, internal=True)
"""The folder that run workers load TVM's kernels from."""
TORCH = Variable("SKIPJACK_TORCH", str, internal=True)
"""1: the hook is enabled as soon as PyTorch was imported."""
TORCH_STARTED = Variable("SKIPJACK_TORCH_STARTED", str, internal=True)
"""Id of the process that is the program, and when it began by the monotonic clock."""
RAY_NODE = Variable("SKIPJACK_RAY_NODE", str, internal=True)
"""Marks the processes of a Ray node that the fleet started."""

VARIABLES: tuple[Variable[Any], ...] = tuple(
    one for one in list(globals().values()) if isinstance(one, Variable)
)
"""All of them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user decided, checked."""

    user_dir: Path
    """Where ledger and bank live, and kernels too unless `cache_dir` says otherwise."""
    log_level: str = "warning"
    build_workers: int = 1
    core: int | None = None
    """The core to time on; None leaves the choice to the run session."""
    plugins: tuple[str, ...] = ()
    """Modules or .py files that register operations, solvers or searchers."""
    autotune: str = "on"
    """``off``: a decorated kernel takes what is known, or its first config, and is never tuned."""
    banks: tuple[Path, ...] = ()
    """Banks that a lookup asks behind the user's, in order: files, or directories with one."""
    system_dir: Path | None = None
    """Where the system's bank is; None for the one that comes with Skipjack."""
    limits: Mapping[str, object] = field(default_factory=dict)
    """Numbers of the study engine that the file's table ``[limits]`` sets; checked where used."""
    cache_dir: Path | None = None
    """Where new kernels are kept; None is the folder in the user directory."""
    cache_limit: int = 1 << 30
    """Bytes that the kernel cache may take."""
    free_disk: int = 10**9
    """Bytes that must be free in the user directory before a program tunes."""
    max_gflops: float | None = None
    """What the device reaches at most, in place of what was measured."""
    tvm_python: Path | None = None
    """A Python that has TVM."""

    @property
    def kernel_dirs(self) -> tuple[Path, ...]:
        """Where kernels are: new ones are written to the first, all are read."""
        own = self.user_dir / ARTIFACTS
        return (own,) if self.cache_dir is None or self.cache_dir == own else (self.cache_dir, own)


def load_settings(
    *,
    user_dir: Path | str | None = None,
    log_level: str | None = None,
    build_workers: int | None = None,
    core: int | None = None,
    plugins: Sequence[str] | None = None,
    autotune: str | None = None,
    cache_dir: Path | str | None = None,
    cache_limit: str | int | None = None,
    banks: Sequence[str] | None = None,
    system_dir: Path | str | None = None,
    max_gflops: float | None = None,
    free_disk: str | int | None = None,
    tvm_python: Path | str | None = None,
    complain: Callable[[str], None] | None = None,
) -> Settings:
    """The settings in force; an argument that is None was not given. Bad values: `UsageError`.

    With `complain`, which is told what is wrong, a bad value of a variable or of the file counts as
    not given, and so does a file that cannot be read: for programs that need few of the settings.
    """
    directory = _user_dir(user_dir)
    sources = _Sources(
        arguments={
            "log_level": log_level,
            "build_workers": build_workers,
            "core": core,
            "plugins": plugins,
            "autotune": autotune,
            "cache_dir": cache_dir,
            "cache_limit": cache_limit,
            "banks": banks,
            "system_dir": system_dir,
            "max_gflops": max_gflops,
            "free_disk": free_disk,
            "tvm_python": tvm_python,
        },
        path=directory / CONFIG_FILE,
        file=_read_file(directory / CONFIG_FILE, complain),
        complain=complain,
    )
    return Settings(
        user_dir=directory,
        log_level=sources.pick(LOG_LEVEL, "warning"),
        build_workers=sources.pick(BUILD_WORKERS, max(1, len(_usable_cores()) - 1)),
        core=sources.pick(CORE, None),
        plugins=sources.pick(PLUGINS, ()),
        autotune=sources.pick(AUTOTUNE, "on"),
        banks=sources.pick(BANKS, ()),
        system_dir=sources.pick(SYSTEM_DIR, None),
        limits=_limits(sources),
        cache_dir=sources.pick(CACHE_DIR, None),
        cache_limit=sources.pick(CACHE_LIMIT, 1 << 30),
        free_disk=sources.pick(FREE_DISK, 10**9),
        max_gflops=sources.pick(MAX_GFLOPS, None),
        tvm_python=sources.pick(TVM_PYTHON, None),
    )


_IN_FILE = (*(one.field for one in VARIABLES if one.field), "limits")


@dataclass(frozen=True, slots=True)
class _Sources:
    """The places a value may come from, strongest first."""

    arguments: Mapping[str, object]
    path: Path
    file: Mapping[str, object]
    complain: Callable[[str], None] | None

    def pick(self, variable: Variable[T], default: U) -> T | U:
        """The first value given, checked; a complaint names the place it came from."""
        field = variable.field
        places = (
            (f"argument {field}", self.arguments[field]),
            (variable.name, variable.text() or None),
            (f"{self.path}: {field}", self.file.get(field)),
        )
        for place, value in places:
            if value is not None:
                try:
                    return variable.type(value)
                except (ValueError, UsageError) as error:
                    said = f"{place} is {value!r}; {error}"
                    if self.complain is None or self.arguments[field] is not None:
                        raise UsageError(said) from None
                    self.complain(f"{said}; it is left out")
                    break
        return default


def _user_dir(argument: Path | str | None) -> Path:
    given = argument or USER_DIR.text()
    if not given:
        return _platforms_directory()
    return expanded(given).absolute()


def _platforms_directory() -> Path:
    try:
        import platformdirs
    except ModuleNotFoundError:
        # A machine that only evaluates bundles has NumPy and the device's packages, no more.
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
        return data.absolute() / "skipjack"
    return platformdirs.user_data_path("skipjack")


def _read_file(path: Path, complain: Callable[[str], None] | None) -> Mapping[str, object]:
    try:
        content = _parsed_file(path)
    except (StorageError, UsageError) as error:
        if complain is None:
            raise
        # Where nothing in the directory can be reached, its bank is complained of.
        if os.access(path.parent, os.X_OK):
            complain(f"{error}; the file is left out")
        return {}
    for key in content:
        if key not in _IN_FILE:
            said = f"{path} has an unknown key {key!r}; known are {', '.join(_IN_FILE)}"
            if complain is None:
                raise UsageError(said)
            complain(said)
    return content


def _parsed_file(path: Path) -> Mapping[str, object]:
    try:
        return parse_toml(read_plain(path), str(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise StorageError(f"cannot read settings from {path}: {error.strerror}") from error
    except MalformedError as error:
        raise UsageError(str(error)) from None


def _limits(sources: _Sources) -> Mapping[str, object]:
    given = sources.file.get("limits", {})
    if not isinstance(given, Mapping):
        said = f"{sources.path}: limits is {given!r}; write a table [limits]"
        if sources.complain is None:
            raise UsageError(said)
        sources.complain(f"{said}; it is left out")
        return {}
    return given
