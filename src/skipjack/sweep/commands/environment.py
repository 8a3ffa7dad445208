"""What a command is given: a directory with files, and every setting as an environment variable."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.storage import ensure_directory, write_failure

KEPT = 1000
"""Runs whose files are kept."""
OUTPUT = "output.log"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 1 << 14
"""Characters of a variable; the system takes some of them, and not too many together."""
_PREFIXES = ("LD_", "DYLD_", "PYTHON", "BASH", "LC_", "SKIPJACK_", "GIT_", "XDG_", "SSH_")
"""What could break the command itself."""
_NAMES = frozenset(
    (
        *("PATH", "HOME", "SHELL", "IFS", "ENV", "PWD", "OLDPWD", "USER", "LOGNAME", "LANG"),
        *("LANGUAGE", "TERM", "TMPDIR", "TMP", "TEMP", "TZ", "PS1", "PS2", "PS4", "CDPATH"),
        *("GLOBIGNORE", "SHELLOPTS", "PROMPT_COMMAND", "PPID", "UID", "EUID", "GID", "HOSTNAME"),
        *("HOSTTYPE", "MACHTYPE", "OSTYPE", "SHLVL", "LINES", "COLUMNS", "EDITOR", "PAGER"),
        *("DISPLAY", "MAIL", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "VIRTUAL_ENV", "NODE_OPTIONS"),
        *("PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "GCONV_PATH", "OPTARG", "OPTIND"),
        *("path", "fpath", "cdpath", "_"),
    )
)


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where a command finds its files; those that are None are not there."""

    config: Path
    """JSON of the whole config: base, point, settings."""
    point: Path
    """JSON of the swept parameters alone."""
    build_dir: Path | None = None
    run_dir: Path | None = None
    user_conf: Path | None = None

    def named(self) -> Iterator[tuple[str, str]]:
        """Placeholder and path of those that are there."""
        for name in ("config", "point", "build_dir", "run_dir", "user_conf"):
            if (path := getattr(self, name)) is not None:
                yield name, str(path)


class RunDirectories:
    """A numbered directory per run below one root."""

    def __init__(self, root: Path, kept: int = KEPT) -> None:
        self._root, self._most = ensure_directory(root), kept
        names = (one.name for one in root.iterdir())
        self._kept = deque(sorted(int(name) for name in names if name.isdecimal()))

    def new(self) -> Path:
        """An empty directory with the next number."""
        number = self._kept[-1] + 1 if self._kept else 1
        while True:
            path = self._root / f"{number:06d}"
            try:
                path.mkdir()
                break
            except FileExistsError:  # of another process
                number += 1
            except OSError as error:
                raise write_failure(path, error) from error
        self._kept.append(number)
        while len(self._kept) > self._most:
            oldest = self._root / f"{self._kept.popleft():06d}"
            shutil.rmtree(oldest, ignore_errors=True)
        return path


def write_files(
    directory: Path,
    config: Mapping[str, Any],
    point: Mapping[str, Any],
    build_dir: Path | None = None,
    run_dir: Path | None = None,
    user_conf: tuple[str, ...] | None = None,
) -> RunFiles:
    """Write what a command may read. `user_conf` None: there is none."""
    config_file, point_file = directory / "config.json", directory / "point.json"
    conf_file = None if user_conf is None else directory / "user.conf"
    try:
        for file, content in ((config_file, config), (point_file, point)):
            file.write_text(json.dumps(dict(content), default=str) + "\n")
        if conf_file is not None and user_conf is not None:
            conf_file.write_text("".join(f"{line}\n" for line in user_conf))
    except OSError as error:
        raise write_failure(directory, error) from error
    return RunFiles(config_file, point_file, build_dir, run_dir, conf_file)


def as_text(value: Any) -> str:
    """A setting as commands get it: words as they are, the rest as JSON (true, 0.5, null)."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else json.dumps(value, default=str)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def withheld(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings that are not set as variables; they are in the JSON file like all others."""
    return tuple(
        name
        for name, value in config.items()
        if _is_scalar(value)
        and (
            not _IDENTIFIER.fullmatch(name)
            or name in _NAMES
            or name.startswith(_PREFIXES)
            or (isinstance(value, str) and len(value) > _LONGEST)
        )
    )


def variables(config: Mapping[str, Any], files: RunFiles) -> dict[str, str]:
    """What is added to the environment of a command."""
    kept_back = set(withheld(config))
    added = {
        name: as_text(value).replace("\0", "")
        for name, value in config.items()
        if name not in kept_back and _is_scalar(value)
    }
    return added | {f"SKIPJACK_{name.upper()}": path for name, path in files.named()}


def environment(
    config: Mapping[str, Any], files: RunFiles, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole environment: ours, what the user asked for, the settings, the files."""
    return {**os.environ, **(own or {}), **variables(config, files)}


def placeholders(config: Mapping[str, Any], files: RunFiles) -> dict[str, str]:
    """What can be filled into a command: every setting by name, and the files."""
    return {name: as_text(value) for name, value in config.items()} | dict(files.named())
