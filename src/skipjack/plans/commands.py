"""The commands that a plan may have, and the parameters of each.

The command line describes itself with these (`skipjack.cli.command_book`), so that a plan is
checked against the same commands that will run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandParameter:
    """An option or argument of a command."""

    name: str
    """Its key in plans: the long name without dashes, or the argument's name."""
    word: str = ""
    """The option on a command line; empty for an argument."""
    off_word: str = ""
    """The option that turns a flag off, if there is one."""
    flag: bool = False
    repeatable: bool = False
    width: int = 1
    """How many values it takes each time."""
    required: bool = False
    short: str = ""
    """Its short name without dash, which plans do not use."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """The complaint of a command's parser about a command line, and the parameter concerned."""

    sentence: str
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class PlanCommand:
    """A command of one or more words, such as ``export find-db``."""

    words: tuple[str, ...]
    parameters: tuple[CommandParameter, ...]
    parse: Callable[[Sequence[str]], Complaint | None]
    """Checks the arguments of the command, and starts nothing."""

    @property
    def name(self) -> str:
        """The words, joined by spaces."""
        return " ".join(self.words)

    def find(self, key: str) -> CommandParameter | None:
        """The parameter for a key of a plan."""
        wanted = spelled(key)
        return next((one for one in self.parameters if one.name == wanted), None)


CommandBook = Mapping[str, PlanCommand]
"""Commands by name."""


def spelled(key: str) -> str:
    """The key with dashes for underscores: a plan may use either."""
    return key.replace("_", "-")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` if a known word is similar, else an empty text."""
    near = difflib.get_close_matches(word, sorted(known), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""
