"""Records of MIOpen's text databases: ``key=id:values;id:values``, with their texts as they are.

A key ends at the first ``=``, an id at the first ``:``; there is no escaping. What the values mean
depends on the database: find results (`find_values`) or a solver's parameters, which are opaque.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from skipjack.core.problem import shown
from skipjack.errors import UsageError

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class Item:
    """One solver's (or, in old find-dbs, one algorithm's) part of a record."""

    id: str
    values: str

    @property
    def text(self) -> str:
        """As in the file."""
        return f"{self.id}:{self.values}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Record:
    """A line of a text database. The items are cut out of it when they are asked for."""

    key: str
    contents: str
    """What stands behind the ``=``."""

    def __init__(self, key: str, items: Iterable[Item]) -> None:
        """`UsageError` if the texts could not be read back out of a file."""
        items = tuple(items)
        _check(key, items)
        _set(self, "key", key)
        _set(self, "contents", ";".join([f"{item.id}:{item.values}" for item in items]))

    @classmethod
    def of_texts(cls, key: str, contents: str) -> Self:
        """The record of a line that was found to be well-formed."""
        record = cls.__new__(cls)
        _set(record, "key", key)
        _set(record, "contents", contents)
        return record

    @classmethod
    def of_line(cls, line: str) -> Self:
        """The record of a whole line that was found to be well-formed."""
        key, _, contents = line.partition("=")
        return cls.of_texts(key, contents)

    @property
    def items(self) -> tuple[Item, ...]:
        """In the order of the file."""
        parts = [part.partition(":") for part in self.contents.split(";") if part]
        return tuple([Item(name, values) for name, _, values in parts])

    @property
    def item_texts(self) -> list[str]:
        """The items as they stand there: what reads all of a file has no need to cut them."""
        return [part for part in self.contents.split(";") if part]

    @property
    def ids(self) -> list[str]:
        """Of the items, in the order of the file."""
        return [part.partition(":")[0] for part in self.contents.split(";") if part]

    @property
    def line(self) -> str:
        """The whole line, without its end."""
        return f"{self.key}={self.contents}"

    def __repr__(self) -> str:
        return f"Record({self.key!r}, {self.items!r})"


def complaint_of(line: str) -> str | None:
    """What is wrong with a line that is to be a record; None if nothing is."""
    key, equals, contents = line.partition("=")
    if not equals:
        return "it has no '=' between a key and its items"
    if not key:
        return "there is no key before the '='"
    if not contents.strip(";"):
        return "there is nothing behind the '='"
    for part in contents.split(";"):
        if part and (":" not in part or part[0] == ":"):
            return f"{shown(part)!r} is not of the form id:values"
    return None


def _check(key: str, items: tuple[Item, ...]) -> None:
    if not key or "=" in key or "\n" in key:
        raise UsageError(f"{shown(key)!r} cannot be the key of a record")
    if not items:
        raise UsageError(f"the record of {shown(key)!r} has no items")
    for item in items:
        name, values = item.id, item.values
        if not name or ":" in name or ";" in name or "\n" in name:
            raise UsageError(f"{shown(name)!r} cannot be an id in the record of {shown(key)!r}")
        if ";" in values or "\n" in values:
            raise UsageError(f"{shown(values)!r} cannot be a value in the record of {shown(key)!r}")
