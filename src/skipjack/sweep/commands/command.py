"""A command line with placeholders: split once, filled in per argument, never given to a shell."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from skipjack.core.naming import did_you_mean
from skipjack.errors import UsageError

SPECIAL = ("build_dir", "run_dir", "config", "point", "user_conf")
"""Placeholders besides the names of the config: directories and files of the run."""
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
# Not ``${name}``, which is the shell's, nor what awk's one-word programs look like.
_IN_SCRIPT = re.compile(r"(?<!\$)\{(?!(?:print|next|exit)\})([^\W\d]\w*)\}")
_GIVES_SCRIPT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_WITH_VALUE = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")
_NAME = re.compile(r"[^\W\d][\w.-]*")


@dataclass(frozen=True, slots=True)
class Command:
    """Arguments, some with placeholders: ``./run.sh {batch} --threads={threads}``.

    The script of a ``sh -c`` is left as it is, with the shell's own braces.
    """

    text: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, option: str = "command") -> Command:
        """Split as a shell would. `option` is where it was given, for complaints."""
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
        """Names that are filled in."""
        found = (match[1] for word in self._plain_words() for match in _PIECE.finditer(word))
        return frozenset(name for name in found if name is not None)

    def check(self, known: Iterable[str], directory: Path, option: str = "command") -> None:
        """Refuse what cannot work, before anything is run: names and the program itself."""
        names = {*known, *SPECIAL}
        for name in sorted(self.placeholders - names):
            raise UsageError(
                f"{option}: {{{name}}} is neither a parameter nor in the base config"
                f"{did_you_mean(name, names)} (a brace itself is written twice)"
            )
        if "{" not in self.words[0]:
            _check_program(self.words[0], directory, option)

    def filled(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The arguments with every placeholder replaced by its value, in one piece each."""
        scripts = _scripts(self.words)
        return tuple(
            word if number in scripts else fill(word, values, "command")
            for number, word in enumerate(self.words)
        )

    def _plain_words(self) -> list[str]:
        scripts = _scripts(self.words)
        return [word for number, word in enumerate(self.words) if number not in scripts]


def _check_program(word: str, directory: Path, option: str) -> None:
    """Refuse a first word that means no program, seen from `directory`."""
    if "/" in word:
        path = directory / word
        if not path.exists():
            raise UsageError(f"{option}: there is no {word} in {directory}")
        if path.is_dir():
            raise UsageError(f"{option}: {word} is a directory, not a program")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{option}: {word} is not executable; try `chmod +x {path}`")
    elif shutil.which(word) is None:
        here = f"; did you mean ./{word}?" if (directory / word).is_file() else ""
        raise UsageError(f"{option}: command not found: {word}{here}")


def _scripts(words: tuple[str, ...]) -> frozenset[int]:
    """Which words are scripts of a ``sh -c``, also of one that another program starts."""
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
    """What is filled into a script would be read as code."""
    for match in _IN_SCRIPT.finditer(script):
        variable = f"SKIPJACK_{match[1].upper()}" if match[1] in SPECIAL else match[1]
        raise UsageError(
            f"{option}: {match[0]} stands inside a script of `sh -c`, where its value would be "
            f'read as code; write "${variable}" there, every setting is in the environment'
        )


def fill(word: str, values: Mapping[str, str] | None, option: str) -> str:
    """One word with its placeholders replaced; without values it is only checked."""

    def replace(match: re.Match[str]) -> str:
        piece, name = match[0], match[1]
        if piece in ("{{", "}}"):
            return piece[0]
        if name is None or not _NAME.fullmatch(name):
            raise UsageError(
                f"{option}: {piece!r} in {word!r} is no placeholder; "
                "write {name}, and a brace itself twice: {{ }}"
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
