"""The settings in force: arguments come first, then environment variables, then ``config.toml``.

A field of `Settings` can also be set in ``config.toml`` in the user directory under the field's
name, except ``user_dir``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from skipjack.errors import MalformedError, StorageError, UsageError
from skipjack.reading import parse_toml, read_plain
from skipjack.settings.variables import (
    AUTOTUNE,
    BANKS,
    BUILD_WORKERS,
    CACHE_DIR,
    CACHE_LIMIT,
    CORE,
    FREE_DISK,
    LOG_LEVEL,
    MAX_GFLOPS,
    PLUGINS,
    SYSTEM_DIR,
    TVM_PYTHON,
    USER_DIR,
    VARIABLES,
    Variable,
    expanded,
    usable_cores,
)

CONFIG_FILE = "config.toml"
ARTIFACTS = "artifacts"
"""The folder of kernels in the user directory."""

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked settings in force."""

    user_dir: Path
    """The directory of ledger and bank, and of kernels unless `cache_dir` is set."""
    log_level: str = "warning"
    build_workers: int = 1
    core: int | None = None
    """The core to time on; None leaves the choice to the run session."""
    plugins: tuple[str, ...] = ()
    """Modules or .py files that register operations, solvers or searchers."""
    autotune: str = "on"
    """With ``off``, decorated kernels use the best known config or the first one, untuned."""
    banks: tuple[Path, ...] = ()
    """Banks that lookups use after the user's, in order: files or directories."""
    system_dir: Path | None = None
    """The directory of the system bank; None for the one that comes with Skipjack."""
    limits: Mapping[str, object] = field(default_factory=dict)
    """The table ``[limits]`` of the file, which is checked where it is used."""
    cache_dir: Path | None = None
    """The directory of new kernels; None for the folder in the user directory."""
    cache_limit: int = 1 << 30
    """Bytes that the kernel cache may take."""
    free_disk: int = 10**9
    """Bytes that must be free in the user directory before a program tunes."""
    max_gflops: float | None = None
    """The device's peak rate, in place of the measured one."""
    tvm_python: Path | None = None
    """A Python that has TVM."""

    @property
    def kernel_dirs(self) -> tuple[Path, ...]:
        """Directories of kernels: new ones are written to the first, all are read."""
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
    """The settings in force; None stands for an argument that is not given.

    A bad value raises `UsageError`. With `complain`, bad values of variables and of the file are
    reported to it and ignored, and so is a file that cannot be read; this is for programs that need
    few of the settings.
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
        build_workers=sources.pick(BUILD_WORKERS, max(1, len(usable_cores()) - 1)),
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
    """The sources of values, in order of precedence."""

    arguments: Mapping[str, object]
    path: Path
    file: Mapping[str, object]
    complain: Callable[[str], None] | None

    def pick(self, variable: Variable[T], default: U) -> T | U:
        """The first given value, checked; errors name its source."""
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
                    self.complain(f"{said}; it is ignored")
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
        # A machine that only evaluates bundles has only NumPy and the device's packages.
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
        return data.absolute() / "skipjack"
    return platformdirs.user_data_path("skipjack")


def _read_file(path: Path, complain: Callable[[str], None] | None) -> Mapping[str, object]:
    try:
        content = _parsed_file(path)
    except (StorageError, UsageError) as error:
        if complain is None:
            raise
        # If the directory is not accessible, its bank is reported instead.
        if os.access(path.parent, os.X_OK):
            complain(f"{error}; the file is ignored")
        return {}
    for key in content:
        if key not in _IN_FILE:
            said = f"{path} has an unknown key {key!r}; known keys are {', '.join(_IN_FILE)}"
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
        sources.complain(f"{said}; it is ignored")
        return {}
    return given
