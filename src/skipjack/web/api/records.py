"""Records as JSON, and the JSON schemas of their classes."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import getattr_static
from math import isfinite
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from skipjack.app.views import RecordTable, Unit, ViewColumn
from skipjack.bank import BankEntry
from skipjack.core import Config

Json = Any
Schema = dict[str, Any]
_OPEN: Schema = {}
_REFERENCE = "#/components/schemas/"


def to_json(value: object) -> Json:
    """A record with all that is in it, for `json`. Numbers that are not finite are null."""
    match value:
        case None | bool() | str() | int():
            return str(value) if isinstance(value, Enum) else value
        case float():
            return value if isfinite(value) else None
        case Enum():
            return to_json(value.value)
        case PurePath():
            return str(value)
        case RecordTable():
            return table_json(value)
        case BankEntry():
            return _entry_json(value)
        case Mapping():
            return {_key(name): to_json(one) for name, one in value.items()}
        case Sequence() | AbstractSet():
            return [to_json(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        own = {one.name: to_json(getattr(value, one.name)) for one in fields(value)}
        told = {name: to_json(getattr(value, name)) for name in _properties(type(value))}
        return {**own, **told}
    return str(value)


def _key(name: object) -> str:
    return str(name) if isinstance(name, str) else settings_of(name)


def settings_of(name: object) -> str:
    """The key of a mapping as text."""
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _entry_json(entry: BankEntry) -> Json:
    """An entry of a bank without its machine code and where it was measured."""
    shown = (
        *("problem", "device", "device_name", "solver", "solver_version", "config", "time_ns"),
        *("default_ns", "vendor_ns", "vendor", "speedup", "evidence", "created", "kind"),
        *("protocol", "toolchain"),
    )
    return {name: to_json(getattr(entry, name)) for name in shown}


def _properties(kind: type) -> list[str]:
    """Properties that a record's class defines."""
    return [
        name
        for name, one in vars(kind).items()
        if isinstance(one, property) and not name.startswith("_")
    ]


def table_json(table: RecordTable[Any]) -> Json:
    """A page of a table: each row with the values of its columns."""
    return {
        "name": table.name,
        "total": table.total,
        "page": table.request.page,
        "pages": table.pages,
        "rows": [
            {column.name: to_json(column.value(row)) for column in table.columns}
            for row in table.rows
        ],
    }


# Schemas.


def table_schema(columns: Sequence[ViewColumn[Any]]) -> Schema:
    """The schema of a table with these columns."""
    row = {
        "type": "object",
        "required": [column.name for column in columns],
        "properties": {column.name: _column_schema(column) for column in columns},
    }
    whole = {"type": "integer", "minimum": 0}
    return {
        "type": "object",
        "required": ["name", "total", "page", "pages", "rows"],
        "properties": {
            "name": {"type": "string"},
            "total": whole,
            "page": {"type": "integer", "minimum": 1},
            "pages": {"type": "integer", "minimum": 1},
            "rows": {"type": "array", "items": row},
        },
    }


_UNITS: Mapping[Unit, str] = {
    "ns": "nanoseconds",
    "s": "seconds",
    "bytes": "bytes",
    "time": "seconds since 1970",
    "share": "a share of 1",
    "ratio": "a ratio",
}


def _column_schema(column: ViewColumn[Any]) -> Schema:
    text = f"{column.title}, in {_UNITS[column.unit]}" if column.unit in _UNITS else column.title
    if column.unit in _UNITS or column.unit == "count":
        return {"type": ["number", "null"], "description": text}
    return {"type": ["string", "number", "boolean", "null"], "description": text}


class SchemaBook:
    """The schemas of classes, by name."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}

    def of(self, hint: Any) -> Schema:
        """The schema of a type."""
        origin = get_origin(hint)
        if origin is Literal:
            return {"enum": list(get_args(hint))}
        if origin in (Union, types.UnionType):
            return self._union(get_args(hint))
        if origin is not None and isinstance(origin, type):
            return self._generic(origin, get_args(hint))
        if not isinstance(hint, type):
            return _OPEN
        return self._plain(hint)

    def _plain(self, kind: type) -> Schema:
        if kind is bool:
            return {"type": "boolean"}
        if issubclass(kind, Enum):
            return {"enum": [to_json(one) for one in kind]}
        if issubclass(kind, int):
            return {"type": "integer"}
        if issubclass(kind, float):
            return {"type": ["number", "null"]}
        if issubclass(kind, str | PurePath):
            return {"type": "string"}
        if kind is type(None):
            return {"type": "null"}
        if issubclass(kind, BankEntry | Config | Mapping):
            return {"type": "object"}
        if is_dataclass(kind):
            return self._record(kind)
        return _OPEN

    def _union(self, kinds: Sequence[Any]) -> Schema:
        found = [self.of(kind) for kind in kinds]
        return _OPEN if _OPEN in found else {"anyOf": found}

    def _generic(self, origin: type, kinds: Sequence[Any]) -> Schema:
        if origin is RecordTable:
            return {"type": "object"}
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(kinds[1])}
        if issubclass(origin, tuple) and not (len(kinds) == 2 and kinds[1] is Ellipsis):
            items = [self.of(kind) for kind in kinds]
            return {"type": "array", "prefixItems": items, "minItems": len(items)}
        if issubclass(origin, Sequence | AbstractSet):
            return {"type": "array", "items": self.of(kinds[0])}
        return _OPEN

    def _record(self, kind: type) -> Schema:
        name = kind.__name__
        if name not in self.schemas:
            self.schemas[name] = {}  # classes may contain themselves
            hints = _hints(kind)
            properties = {one.name: self.of(hints[one.name]) for one in fields(kind)}
            for told in _properties(kind):
                getter = getattr_static(kind, told).fget
                properties[told] = self.of(_hints(getter).get("return", Any))
            text = (kind.__doc__ or "").strip().partition("\n")[0]
            self.schemas[name] = {
                "type": "object",
                "description": text,
                "required": list(properties),
                "properties": properties,
            }
        return {"$ref": f"{_REFERENCE}{name}"}


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(thing)
    except NameError:  # a class that is only imported for type checkers
        names = getattr(thing, "__annotations__", {})
        return dict.fromkeys(names, Any)
