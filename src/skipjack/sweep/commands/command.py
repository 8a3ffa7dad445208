"""A command line with placeholders, and the files and environment that it is given."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from skipjack.core import did_you_mean
from skipjack.errors import UsageError
from skipjack.storage import ensure_directory, write_failure

# A command line with placeholders: split once, filled per argument, not passed to a shell.

SPECIAL = ("build_dir", "run_dir", "config", "point", "user_conf")
"""Placeholders in addition to the names of the config: directories and files of the run."""
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
# Neither ``${name}``, which is the shell's, nor awk's one-word programs.
_IN_SCRIPT = re.compile(r"(?<!\$)\{(?!(?:print|next|exit)\})([^\W\d]\w*)\}")
_GIVES_SCRIPT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_WITH_VALUE = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")
_NAME = re.compile(r"[^\W\d][\w.-]*")


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """Arguments, some with placeholders: ``./run.sh {batch} --threads={threads}``.

    In the script of a ``sh -c``, braces are the shell's.
    """

    text: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, option: str = "command") -> CommandTemplate:
        """Split a command line as a shell does. `option` names it in messages."""
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            reason = str(error).lower()
            raise UsageError(f"{option}: {text!r} cannot be split ({reason})") from None
        if not words:
            raise UsageError(f"{option} is empty; give a program and its arguments")
        command = cls(text, words)
        for word in command._plain_words():
            fill(word, None, option)
        for number in _scripts(words):
            _refuse_in_script(words[number], option)
        return command

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the placeholders."""
        found = (match[1] for word in self._plain_words() for match in _PIECE.finditer(word))
        return frozenset(name for name in found if name is not None)

    def check(self, known: Iterable[str], directory: Path, option: str = "command") -> None:
        """Raise `UsageError` for unknown names or a missing program, before anything is run."""
        names = {*known, *SPECIAL}
        for name in sorted(self.placeholders - names):
            raise UsageError(
                f"{option}: {{{name}}} is neither a parameter nor in the base config"
                f"{did_you_mean(name, names)} (write a literal brace twice)"
            )
        if "{" not in self.words[0]:
            _check_program(self.words[0], directory, option)

    def filled(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The arguments with all placeholders replaced; a value never splits an argument."""
        scripts = _scripts(self.words)
        return tuple(
            word if number in scripts else fill(word, values, "command")
            for number, word in enumerate(self.words)
        )

    def _plain_words(self) -> list[str]:
        scripts = _scripts(self.words)
        return [word for number, word in enumerate(self.words) if number not in scripts]


def _check_program(word: str, directory: Path, option: str) -> None:
    """Raise `UsageError` if the first word is not a program, as seen from `directory`."""
    if "/" in word:
        path = directory / word
        if not path.exists():
            raise UsageError(f"{option}: {word} does not exist in {directory}")
        if path.is_dir():
            raise UsageError(f"{option}: {word} is a directory, not a program")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{option}: {word} is not executable; try `chmod +x {path}`")
    elif shutil.which(word) is None:
        here = f"; did you mean ./{word}?" if (directory / word).is_file() else ""
        raise UsageError(f"{option}: command not found: {word}{here}")


def _scripts(words: tuple[str, ...]) -> frozenset[int]:
    """The indices of words that are scripts of a ``sh -c``, wherever it is in the command."""
    found = set()
    for number, word in enumerate(words):
        if PurePath(word).name in _SHELLS:
            at, given = number + 1, False
            while at < len(words) and words[at][:1] in ("-", "+"):
                given |= _GIVES_SCRIPT.fullmatch(words[at]) is not None
                at += 2 if words[at] in _WITH_VALUE else 1
            if given:
                found.add(at)
    return frozenset(at for at in found if at < len(words))


def _refuse_in_script(script: str, option: str) -> None:
    """Raise `UsageError` for a placeholder in a script, where its value would be code."""
    for match in _IN_SCRIPT.finditer(script):
        variable = f"SKIPJACK_{match[1].upper()}" if match[1] in SPECIAL else match[1]
        raise UsageError(
            f"{option}: {match[0]} is inside a script of `sh -c`, where its value would be "
            f'executed as code; write "${variable}" instead: all settings are environment variables'
        )


def fill(word: str, values: Mapping[str, str] | None, option: str) -> str:
    """Replace the placeholders of one word; without values, only check them."""

    def replace(match: re.Match[str]) -> str:
        piece, name = match[0], match[1]
        if piece in ("{{", "}}"):
            return piece[0]
        if name is None or not _NAME.fullmatch(name):
            raise UsageError(
                f"{option}: {piece!r} in {word!r} is not a placeholder; "
                "write {name}, or write a literal brace twice: {{ }}"
            )
        if values is None:
            return piece
        try:
            return values[name]
        except KeyError:
            raise UsageError(
                f"{option}: there is no value for {{{name}}}{did_you_mean(name, values)}"
            ) from None

    return _PIECE.sub(replace, word)


# The files and environment variables of a command: every setting is a variable.

KEPT = 1000
"""The number of runs whose files are kept."""
OUTPUT = "output.log"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 1 << 14
"""The most characters of a variable: the system limits the size of the environment."""
_PREFIXES = ("LD_", "DYLD_", "PYTHON", "BASH", "LC_", "SKIPJACK_", "GIT_", "XDG_", "SSH_")
"""Prefixes of variables that could break the command."""
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
    """The files and directories of a command; None for those that it does not have."""

    config: Path
    """JSON of the whole config: base config, point and settings."""
    point: Path
    """JSON of the swept parameters alone."""
    build_dir: Path | None = None
    run_dir: Path | None = None
    user_conf: Path | None = None

    def named(self) -> Iterator[tuple[str, str]]:
        """Placeholders and paths of those that exist."""
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
        """Create an empty directory with the next number."""
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
    """Write the files that a command may read; without `user_conf`, no user.conf."""
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
    """A setting as text: strings as they are, the rest as JSON (true, 0.5, null)."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else json.dumps(value, default=str)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def withheld(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings that are not set as variables; like all settings, they are in the JSON file."""
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
    """The variables that are added to the environment of a command."""
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
    """The whole environment: that of this process, `own`, the settings and the files."""
    return {**os.environ, **(own or {}), **variables(config, files)}


def placeholders(config: Mapping[str, Any], files: RunFiles) -> dict[str, str]:
    """The values of placeholders: every setting by name, and the files."""
    return {name: as_text(value) for name, value in config.items()} | dict(files.named())
