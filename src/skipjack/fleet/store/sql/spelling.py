"""How a database spells what the views need: JSON, times, parts of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar


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

    sample: ClassVar[Mapping[str, str]]
    """Of each sample that `each_sample` joined: ``metric`` and ``unit``; its ``number`` in the
    block, from 0; its ``value``, or the ``word`` that stands in its place."""

    @abstractmethod
    def each_sample(self, metrics: str) -> str:
        """A join with each sample of a ledger's metrics."""

    def integer(self, text: str) -> str:
        """A text as a whole number."""
        return f"CAST({text} AS integer)"

    def number(self, text: str) -> str:
        """A text as a number."""
        return f"CAST({text} AS double precision)"
