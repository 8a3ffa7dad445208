"""How each database spells what the views need: JSON, times, parts of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
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
    def each_row(self, facts: str, table: str, columns: Sequence[Column]) -> str:
        """A join with the rows that facts have of a table, under the name ``f``."""

    @abstractmethod
    def cell(self, column: Column) -> str:
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


class _SQLite(Spelling):
    def time(self, seconds: str) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f', {seconds}, 'unixepoch')"

    def before_slash(self, text: str) -> str:
        return f"substr({text}, 1, instr({text}, '/') - 1)"

    def after_slash(self, text: str) -> str:
        return f"substr({text}, instr({text}, '/') + 1)"

    def joined(self, text: str) -> str:
        return f"group_concat(DISTINCT {text})"

    def member(self, json: str, name: str) -> str:
        return f"json_extract({json}, '$.{name}')"

    def inner(self, json: str, *names: str) -> str:
        return f"json_extract({json}, '$.{'.'.join(names)}')"

    def each_row(self, facts: str, table: str, columns: Sequence[Column]) -> str:
        return f"JOIN json_each({_filled(facts)}, '$.tables.{table}.rows') f"

    def cell(self, column: Column) -> str:
        return f"json_extract(f.value, '$[{column.place}]')"


class _PostgreSQL(Spelling):
    def time(self, seconds: str) -> str:
        return f"to_timestamp({seconds})"

    def before_slash(self, text: str) -> str:
        return f"split_part({text}, '/', 1)"

    def after_slash(self, text: str) -> str:
        return f"split_part({text}, '/', 2)"

    def joined(self, text: str) -> str:
        return f"string_agg(DISTINCT {text}, ',' ORDER BY {text})"

    def member(self, json: str, name: str) -> str:
        return f"CAST({json} AS json) ->> '{name}'"

    def inner(self, json: str, *names: str) -> str:
        return f"CAST({json} AS json) #>> '{{{','.join(names)}}}'"

    def each_row(self, facts: str, table: str, columns: Sequence[Column]) -> str:
        rows = f"CAST({_filled(facts)} AS json) #> '{{tables,{table},rows}}'"
        return f"CROSS JOIN LATERAL json_array_elements({rows}) AS f (value)"

    def cell(self, column: Column) -> str:
        return self.converted(f"(f.value ->> {column.place})", column.kind)


_MARIADB_TYPES = {"text": "longtext CHARACTER SET utf8mb4", "integer": "bigint", "number": "double"}


class _MariaDB(Spelling):
    def time(self, seconds: str) -> str:
        return f"from_unixtime({seconds})"

    def before_slash(self, text: str) -> str:
        return f"substring_index({text}, '/', 1)"

    def after_slash(self, text: str) -> str:
        return f"substring_index({text}, '/', -1)"

    def joined(self, text: str) -> str:
        return f"group_concat(DISTINCT {text} ORDER BY {text})"

    def integer(self, text: str) -> str:
        return f"CAST({text} AS signed)"

    def number(self, text: str) -> str:
        return f"CAST({text} AS double)"

    def member(self, json: str, name: str) -> str:
        found = f"json_extract({json}, '$.{name}')"
        return f"CASE WHEN json_type({found}) <> 'NULL' THEN json_unquote({found}) END"

    def inner(self, json: str, *names: str) -> str:
        return f"json_extract({json}, '$.{'.'.join(names)}')"

    def each_row(self, facts: str, table: str, columns: Sequence[Column]) -> str:
        listed = ", ".join(
            f"{column.name} {_MARIADB_TYPES[column.kind]} PATH '$[{column.place}]'"
            for column in columns
        )
        rows = f"{_filled(facts)}, '$.tables.{table}.rows[*]' COLUMNS ({listed})"
        return f"JOIN json_table({rows}) AS f"

    def cell(self, column: Column) -> str:
        return f"f.{column.name}"


_SPELLINGS: dict[str, Spelling] = {
    "sqlite": _SQLite(),
    "postgresql": _PostgreSQL(),
    "mysql": _MariaDB(),
}


def spelling(dialect: str) -> Spelling:
    """That of a dialect, by SQLAlchemy's name."""
    return _SPELLINGS[dialect]


def _filled(facts: str) -> str:
    return f"coalesce(nullif({facts}, ''), '{{}}')"
