"""A value of a document with its position, read as an expected type."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from skipjack.errors import MalformedError

T = TypeVar("T")
INT64 = 2**63 - 1
"""The largest whole number that SQLite and other JSON readers support."""
_SHOWN = 60
_HUGE = 10**40


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a document and its path, which is empty for the document itself."""

    plain: Any
    """None, bool, int, float, str, list or dict: what `json.loads` gives."""
    where: str = ""
    """The file or other source of the document."""
    path: str = ""
    finite: bool = True
    """Whether numbers must be finite."""

    def __getitem__(self, key: str | int) -> Field:
        """A field of an object or an element of a list, which must exist."""
        found = self.get(key)
        if found is None:
            what = f"field {key}" if isinstance(key, str) else f"element {key}"
            raise self.malformed(f"the {what} is missing")
        return found

    def get(self, key: str | int) -> Field | None:
        """Like indexing, but None if it does not exist. An existing null is a field."""
        if isinstance(key, int):
            found = self._is((list, tuple), "a list")
            return self._below(found[key], key) if 0 <= key < len(found) else None
        found = self._is(dict, "an object")
        return self._below(found[key], key) if key in found else None

    @property
    def null(self) -> bool:
        """Whether the value is null."""
        return self.plain is None

    def text(self, most: int | None = None) -> str:
        """A text of at most `most` characters."""
        text: str = self._is(str, "a text")
        if most is not None and len(text) > most:
            raise self.malformed(f"expected at most {most} characters, found {len(text)}")
        return text

    def number(self, least: float | None = None, most: float | None = None) -> float:
        """A number, whole or not, which is finite unless the document allows others."""
        if isinstance(self.plain, bool) or not isinstance(self.plain, int | float):
            raise self._unlike("a number")
        try:
            number = float(self.plain)
        except OverflowError:
            raise self._unlike("a finite number") from None
        if self.finite and not isfinite(number):
            raise self._unlike("a finite number")
        self._within(number, least, most)
        return number

    def integer(self, least: int = -INT64 - 1, most: int = INT64) -> int:
        """A whole number, of 64 bits by default."""
        if isinstance(self.plain, bool) or not isinstance(self.plain, int):
            raise self._unlike("a whole number")
        self._within(self.plain, least, most)
        return self.plain

    def flag(self) -> bool:
        """A boolean."""
        flag: bool = self._is(bool, "true or false")
        return flag

    def elements(self, length: int | None = None) -> list[Field]:
        """The elements of a list, whose number must be `length` if given."""
        found = self._is((list, tuple), "a list")
        if length is not None and len(found) != length:
            raise self.malformed(f"expected {length} elements, found {len(found)}")
        return [self._below(element, place) for place, element in enumerate(found)]

    def fields(self) -> dict[str, Field]:
        """The fields of an object by name."""
        return {
            name: self._below(value, name) for name, value in self._is(dict, "an object").items()
        }

    def known_fields(self, names: Collection[str]) -> dict[str, Field]:
        """Like `fields`, but refuses other names than these."""
        found: dict[str, Field] = self.fields()
        odd = [quoted(name) for name in found if name not in names]
        if odd:
            raise self.malformed(f"unknown fields: {', '.join(odd[:5])}")
        return found

    def without(self, name: str, value: object) -> Field:
        """An object without a field that must have this value, such as ``format`` or ``kind``."""
        found = self[name]
        if found.plain != value:
            raise found.malformed(f"expected {value}, found {described(found.plain)}")
        rest = {key: one for key, one in self.plain.items() if key != name}
        return Field(rest, self.where, self.path, self.finite)

    def mapping(self) -> dict[str, Any]:
        """An object as a dictionary, unchecked."""
        return dict(self._is(dict, "an object"))

    def of(self, kind: type[T], **read: Any) -> T:
        """An object as a dataclass, with each field read by its annotation.

        Fields with a default may be missing; unknown ones are refused. `read` has fields that the
        caller has read. Annotations may be plain types, enumerations, dataclasses, tuples, mappings
        by name, and unions of these.
        """
        annotation: Any = kind
        made: T = _made(self, annotation, read) if read else _reader(annotation)(self)
        return made

    def malformed(self, sentence: str) -> MalformedError:
        """An error with the position of this value."""
        return MalformedError(": ".join(part for part in (self.where, self.path, sentence) if part))

    def _below(self, value: object, key: str | int) -> Field:
        if isinstance(key, int):
            path = f"{self.path}[{key}]"
        else:
            path = f"{self.path}.{quoted(key)}" if self.path else quoted(key)
        return Field(value, self.where, path, self.finite)

    def _is(self, kind: type | tuple[type, ...], expected: str) -> Any:
        if not isinstance(self.plain, kind):
            raise self._unlike(expected)
        return self.plain

    def _unlike(self, expected: str) -> MalformedError:
        return self.malformed(f"expected {expected}, found {described(self.plain)}")

    def _within(self, number: float, least: float | None, most: float | None) -> None:
        if least is not None and number < least:
            raise self.malformed(f"expected {least} or more, found {described(number)}")
        if most is not None and number > most:
            raise self.malformed(f"expected {most} or less, found {described(number)}")


def described(value: object) -> str:
    """A short description of a value in one line of ASCII."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _HUGE:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float | str):
        return _cut(json.dumps(value if not isinstance(value, str) else value[: _SHOWN + 1]))
    return f"a {type(value).__name__}"


def quoted(text: str) -> str:
    """An untrusted text within a sentence: quoted unless it is short and printable."""
    return (
        text if text.isascii() and text.isprintable() and len(text) <= _SHOWN else described(text)
    )


def numbered(count: int, noun: str) -> str:
    """``1 problem``, ``2 problems``, ``2 entries``, ``2 searches``."""
    if count == 1:
        return f"{count} {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_PLAIN: dict[object, Callable[[Field], Any]] = {
    str: Field.text,
    int: Field.integer,
    float: Field.number,
    bool: Field.flag,
    Any: lambda field: field.plain,
    object: lambda field: field.plain,
    dict: Field.mapping,
}


@cache
def _reader(kind: Any) -> Callable[[Field], Any]:
    """The function that reads a field of the annotated type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _of_union(inner)
    if origin is Literal:
        return lambda field: _choice(field, inner)
    if origin is tuple and inner[-1] is Ellipsis:
        element = _reader(inner[0])
        return lambda field: tuple(map(element, field.elements()))
    if origin is tuple:
        each = [_reader(one) for one in inner]
        return lambda field: tuple(
            read(one) for read, one in zip(each, field.elements(len(each)), strict=True)
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        value = _reader(inner[1])
        return lambda field: {name: value(one) for name, one in field.fields().items()}
    if origin is None and isinstance(kind, type) and issubclass(kind, Enum):
        return lambda field: _member(field, kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return lambda field: _made(field, kind, {})
    raise TypeError(f"no reader for {kind}")


def _of_union(kinds: tuple[Any, ...]) -> Callable[[Field], Any]:
    """Read None if the field is null and may be; otherwise, the first type that fits."""
    readers = [_reader(kind) for kind in kinds if kind is not NoneType]

    def read(field: Field) -> Any:
        if field.null and NoneType in kinds:
            return None
        failure: MalformedError | None = None
        for one in readers:
            try:
                return one(field)
            except MalformedError as error:
                failure = error
        assert failure is not None
        raise failure

    return read


def _member(field: Field, kind: type[Enum]) -> Enum:
    """A member of an enumeration of texts."""
    return kind(_choice(field, tuple(member.value for member in kind)))


def _choice(field: Field, known: tuple[Any, ...]) -> Any:
    if field.text() not in known:
        listed = ", ".join(map(str, known))
        raise field.malformed(f"expected one of {listed}, found {described(field.plain)}")
    return field.plain


def _made(field: Field, kind: Any, read: Mapping[str, Any]) -> Any:
    """Read a dataclass."""
    known, needed = _fields_of(kind)
    given = field.known_fields(known)
    for name in needed:
        if name not in read:
            field[name]  # raises if it is missing
    values = {name: _reader(known[name])(one) for name, one in given.items() if name not in read}
    return kind(**values, **read)


@cache
def _fields_of(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The annotations of a dataclass by field, and the fields that have no default."""
    hints = get_type_hints(kind)
    own = [one for one in fields(kind) if one.init]
    needed = [one for one in own if one.default is MISSING and one.default_factory is MISSING]
    return {one.name: hints[one.name] for one in own}, tuple(one.name for one in needed)
