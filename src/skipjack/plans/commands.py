"""What a plan may say: the commands and what each of them takes.

The command line describes itself with these (`skipjack.cli.command_book`), so that a plan is
checked against the very commands that will run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or argument of a command."""

    name: str
    """Its key in plans: the long name without dashes, or the argument's name."""
    word: str = ""
    """As it stands on a command line; empty for an argument."""
    off_word: str = ""
    """What turns a flag off, if there is such a word."""
    flag: bool = False
    repeatable: bool = False
    width: int = 1
    """Values that it takes each time."""
    required: bool = False
    short: str = ""
    """Its short name without dash, which plans do not use."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """What the command's own parser says about a command line, and about which parameter."""

    sentence: str
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of several words, as ``export find-db``."""

    words: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    parse: Callable[[Sequence[str]], Complaint | None]
    """Tries the words after the command and starts nothing."""

    @property
    def name(self) -> str:
        """The words with blanks between them."""
        return " ".join(self.words)

    def find(self, key: str) -> Parameter | None:
        """The parameter that a plan's key means."""
        wanted = spelled(key)
        return next((one for one in self.parameters if one.name == wanted), None)


CommandBook = Mapping[str, Command]
"""Commands by name."""


def spelled(key: str) -> str:
    """Underscores are as good as dashes."""
    return key.replace("_", "-")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` if something known is near, else nothing."""
    near = difflib.get_close_matches(word, sorted(known), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""
