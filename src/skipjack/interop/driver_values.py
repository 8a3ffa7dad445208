"""The values of a command's flags, checked against a table of flags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from skipjack.core.problem import shown
from skipjack.errors import ProblemError
from skipjack.interop.driver_flags import Flag

_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
"""With more digits it would be larger than any memory."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A value, and the flag as it was spelt before it."""

    spelt: str
    value: str


@dataclass(frozen=True, slots=True)
class Values:
    """What a command says, by the long names of its flags; defaults where it says nothing."""

    flags: Mapping[str, Flag]
    given: Mapping[str, _Given]
    where: str
    """The command, for messages."""

    def says(self, name: str) -> bool:
        """Whether the command has this flag."""
        return name in self.given

    def word(self, name: str) -> str:
        """The value as it is written."""
        return self.given[name].value if name in self.given else self.flags[name].default

    def number(self, name: str, *, most: int | None = None) -> int:
        """A whole number in the flag's range."""
        value, least = int(self.word(name)), self.flags[name].least
        if value < least or (most is not None and value > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise ProblemError(f"{self._at(name)} wants a whole number {limits}, {value} is not")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        value = self.word(name)
        if value not in choices:
            *some, last = choices
            raise ProblemError(
                f"{self._at(name)} is {', '.join(some)} or {last}, {shown(value)!r} is none of them"
            )
        return value

    def unusual(self) -> tuple[tuple[str, str], ...]:
        """Flags whose defaults alone can be computed here, and that say something else."""
        return tuple(
            (name, given.value)
            for name, given in sorted(self.given.items())
            if self.flags[name].use == "plain" and given.value != self.flags[name].default
        )

    def obstacles(self) -> tuple[str, ...]:
        """Why a kernel here cannot compute what those flags say."""
        return tuple(f"--{name} {value} is not computed here" for name, value in self.unusual())

    def _at(self, name: str) -> str:
        flag = self.given[name].spelt if name in self.given else f"--{name}"
        return f"command {self.where!r}: flag {flag}"


def read_values(words: Sequence[str], table: Sequence[Flag], where: str) -> Values:
    """Pair flags with their values. A flag that is given twice counts as the driver counts it:
    the last one wins, and the long name and the letter are the same flag."""
    known = _spellings(table)
    given: dict[str, _Given] = {}
    at = 0
    while at < len(words):
        flag = _find(words[at], known, where)
        if at + 1 == len(words) or words[at + 1] in known:
            raise ProblemError(
                f"command {where!r}: flag {words[at]} has no value; write one after it"
            )
        given[flag.name] = _Given(words[at], _checked(flag, words[at], words[at + 1], where))
        at += 2
    return Values({flag.name: flag for flag in table}, given, where)


_known: dict[int, tuple[Sequence[Flag], dict[str, Flag]]] = {}
"""By the identity of a table, which is kept alive: there are few, and hashing one takes long."""


def _spellings(table: Sequence[Flag]) -> dict[str, Flag]:
    if id(table) not in _known:
        _known[id(table)] = table, spellings(table)
    return _known[id(table)][1]


def spellings(table: Sequence[Flag]) -> dict[str, Flag]:
    """Every way to write a flag of the table."""
    letters = {f"-{flag.letter}": flag for flag in table}
    names = {f"--{name}": flag for flag in table for name in (flag.name, *flag.aliases)}
    return letters | names


def _find(word: str, spellings: Mapping[str, Flag], where: str) -> Flag:
    if word in spellings:
        return spellings[word]
    name, equals, value = word.partition("=")
    if equals and name in spellings:
        raise ProblemError(
            f"command {where!r}: {shown(word)} is one word; "
            f"the driver wants two: {name} {shown(value)}"
        )
    if not word.startswith("-"):
        raise ProblemError(
            f"command {where!r}: {shown(word)!r} stands where a flag should; "
            "every flag has one value"
        )
    close = get_close_matches(shown(word), spellings, 1)
    hint = f"; did you mean {close[0]}?" if close and len(word) > 2 else ""
    raise ProblemError(f"command {where!r}: unknown flag {shown(word)}{hint}")


def _checked(flag: Flag, spelt: str, value: str, where: str) -> str:
    if flag.use == "number" and not _WHOLE.fullmatch(value):
        raise ProblemError(
            f"command {where!r}: flag {spelt} wants a whole number, {shown(value)!r} is none"
        )
    return value
