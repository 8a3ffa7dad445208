"""Every setting, read in one place: explicit arguments, then the environment, then a file.

=================  =============================  ===============================================
field              variable                       otherwise
=================  =============================  ===============================================
``user_dir``       ``SKIPJACK_USER_DB_PATH``      the platform's directory for user data
``log_level``      ``SKIPJACK_LOG_LEVEL``         ``warning``
``build_workers``  ``SKIPJACK_BUILD_WORKERS``     one less than the cores this process may use
``core``           ``SKIPJACK_CORE``              chosen when timing starts
``plugins``        ``SKIPJACK_PLUGINS``           none
``autotune``       ``SKIPJACK_AUTOTUNE``          ``on``: decorated kernels are tuned when called
``banks``          ``SKIPJACK_BANKS``             none: banks that are asked behind the user's
``system_dir``     ``SKIPJACK_SYSTEM_DB_PATH``    the bank that comes with Skipjack
``cache_dir``      ``SKIPJACK_CUSTOM_CACHE_DIR``  ``artifacts`` in the user directory
``cache_limit``    ``SKIPJACK_CACHE_LIMIT``       ``1 GiB``
``free_disk``      ``SKIPJACK_FREE_DISK``         ``1 GB``: must be free for a program to tune
``max_gflops``     ``MAX_GFLOPS``                 the peak that was measured, for games of loops
``tvm_python``     ``SKIPJACK_TVM_PYTHON``        this one if it has TVM; that of ``make tvm``
=================  =============================  ===============================================

At most four build workers for each core are started.

All but ``user_dir`` may also stand in ``config.toml`` in the user directory, by the field's name.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import TypeVar

from skipjack.errors import MalformedError, StorageError, UsageError
from skipjack.reading import parse_toml, read_plain, whole_number

CONFIG_FILE = "config.toml"
USER_DIR_VARIABLE = "SKIPJACK_USER_DB_PATH"
ARTIFACTS = "artifacts"
"""The kernels' folder in the user directory."""
CACHE_DIR_VARIABLE = "SKIPJACK_CUSTOM_CACHE_DIR"
CACHE_LIMIT_VARIABLE = "SKIPJACK_CACHE_LIMIT"
FREE_DISK_VARIABLE = "SKIPJACK_FREE_DISK"
BANKS_VARIABLE = "SKIPJACK_BANKS"
SYSTEM_DIR_VARIABLE = "SKIPJACK_SYSTEM_DB_PATH"
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")

T = TypeVar("T")

log = logging.getLogger(__name__)

_WORKERS_PER_CORE = 4
"""More do not build faster, and each takes memory."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


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
        log_level=sources.pick("log_level", "SKIPJACK_LOG_LEVEL", _log_level, "warning"),
        build_workers=sources.pick(
            "build_workers", "SKIPJACK_BUILD_WORKERS", _workers, max(1, len(_usable_cores()) - 1)
        ),
        core=sources.pick("core", "SKIPJACK_CORE", _core, None),
        plugins=sources.pick("plugins", "SKIPJACK_PLUGINS", _plugins, ()),
        autotune=sources.pick("autotune", "SKIPJACK_AUTOTUNE", _autotune, "on"),
        banks=sources.pick("banks", BANKS_VARIABLE, _banks, ()),
        system_dir=sources.pick("system_dir", SYSTEM_DIR_VARIABLE, _directory, None),
        limits=_limits(sources),
        cache_dir=sources.pick("cache_dir", CACHE_DIR_VARIABLE, _directory, None),
        cache_limit=sources.pick("cache_limit", CACHE_LIMIT_VARIABLE, _byte_count, 1 << 30),
        free_disk=sources.pick("free_disk", FREE_DISK_VARIABLE, _byte_count, 10**9),
        max_gflops=sources.pick("max_gflops", "MAX_GFLOPS", _gflops, None),
        tvm_python=sources.pick("tvm_python", "SKIPJACK_TVM_PYTHON", _program, None),
    )


_IN_FILE = (
    *("log_level", "build_workers", "core", "plugins", "autotune", "limits"),
    *("banks", "system_dir", "cache_dir", "cache_limit", "max_gflops", "tvm_python"),
    "free_disk",
)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The places a value may come from, strongest first."""

    arguments: Mapping[str, object]
    path: Path
    file: Mapping[str, object]
    complain: Callable[[str], None] | None

    def pick(self, field: str, variable: str, check: Callable[[object], T], default: T) -> T:
        """The first value given, checked; a complaint names the place it came from."""
        places = (
            (f"argument {field}", self.arguments[field]),
            (variable, os.environ.get(variable) or None),
            (f"{self.path}: {field}", self.file.get(field)),
        )
        for place, value in places:
            if value is not None:
                try:
                    return check(value)
                except (ValueError, UsageError) as error:
                    said = f"{place} is {value!r}; {error}"
                    if self.complain is None or self.arguments[field] is not None:
                        raise UsageError(said) from None
                    self.complain(f"{said}; it is left out")
                    break
        return default


def _user_dir(argument: Path | str | None) -> Path:
    given = argument or os.environ.get(USER_DIR_VARIABLE)
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


def _usable_cores() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _log_level(value: object) -> str:
    level = str(value).lower()
    if level not in LOG_LEVELS:
        raise ValueError(f"write one of {', '.join(LOG_LEVELS)}")
    return level


def _limits(sources: _Sources) -> Mapping[str, object]:
    given = sources.file.get("limits", {})
    if not isinstance(given, Mapping):
        said = f"{sources.path}: limits is {given!r}; write a table [limits]"
        if sources.complain is None:
            raise UsageError(said)
        sources.complain(f"{said}; it is left out")
        return {}
    return given


def _directory(value: object) -> Path | None:
    if not isinstance(value, str | Path):
        raise ValueError("write the path of a directory")
    return expanded(value).absolute()


def _program(value: object) -> Path | None:
    if not isinstance(value, str | Path):
        raise ValueError("write the path of a program")
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
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{path} begins with the home directory of a user whom this machine does not know; "
            "write the whole path"
        ) from None
