"""How a database spells what the views need: JSON, times, parts of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of a ledger's table, by its place there."""

    name: str
    place: int
    kind: str = "text"
    """``text``, ``integer`` or ``number``."""


class Spelling(ABC):
    """One database's way."""

    @abstractmethod
    def time(self, seconds: str) -> str:
        """Seconds since 1970 as a timestamp."""

    @abstractmethod
    def before_slash(self, text: str) -> str:
        """What stands before the first slash."""

    @abstractmethod
    def after_slash(self, text: str) -> str:
        """What stands after it."""

    @abstractmethod
    def joined(self, text: str) -> str:
        """The different texts of a group with commas between, in any order; NULL for none."""

    @abstractmethod
    def member(self, json: str, name: str) -> str:
        """A member of a JSON object as text; NULL if there is none."""

    @abstractmethod
    def inner(self, json: str, *names: str) -> str:
        """What lies at the end of these names inside JSON objects, as JSON."""

    @abstractmethod
    def each_row(self, facts: str, table: str, columns: Sequence[Cell]) -> str:
        """A join with the rows that facts have of a table, under the name ``f``."""

    @abstractmethod
    def cell(self, column: Cell) -> str:
        """A column of a row that `each_row` joined."""

    def integer(self, text: str) -> str:
        """A text as a whole number."""
        return f"CAST({text} AS integer)"

    def number(self, text: str) -> str:
        """A text as a number."""
        return f"CAST({text} AS double precision)"

    def converted(self, text: str, kind: str) -> str:
        """A text as what a column holds."""
        return {"text": text, "integer": self.integer(text), "number": self.number(text)}[kind]


def filled(facts: str) -> str:
    """Facts of a stage, also where it has none."""
    return f"coalesce(nullif({facts}, ''), '{{}}')"
