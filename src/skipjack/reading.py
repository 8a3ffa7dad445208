"""Numbers, texts, JSON and TOML that were stored or received: the one way to read them.

Whoever wrote them, what comes out is bounded in size and depth, every number is finite, whole
numbers have few digits, and texts can be written as UTF-8 again. Anything else is a
`MalformedError`, which is a `ValueError` too, and so is a field that is missing or of another kind
than its reader expects::

    field = read_json(path.read_bytes(), "devices.json")
    rate = field["peaks"]["f32"].number(least=0.0)

    devices.json: peaks.f32: expected a number, found "x"
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from skipjack.errors import MalformedError

MAX_BYTES = 64 << 20
"""Of a document; the largest that we write are the rows of a ledger."""
MAX_DEPTH = 64
"""Lists and objects inside of each other; ours have six or so."""
MAX_DIGITS = 40
"""Of a whole number in a document: 128 bits. As a float it is finite."""
INT64 = 2**63 - 1
"""The largest whole number that SQLite and JSON's other readers keep."""

_SHOWN = 60
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,5})?"
)

Pairs = Callable[[list[tuple[str, Any]]], Any]
"""Makes an object of its names and values, as `json.loads` has it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a document and where it stands; the document itself is one with an empty path."""

    plain: Any
    """None, bool, int, float, str, list or dict: what `json.loads` gives."""
    where: str = ""
    """The file, or what else the document came from."""
    path: str = ""

    def __getitem__(self, key: str | int) -> Field:
        """The field of an object or the element of a list; it must be there."""
        found = self.get(key)
        if found is None:
            what = f"field {key}" if isinstance(key, str) else f"element {key}"
            raise self.malformed(f"the {what} is missing")
        return found

    def get(self, key: str | int) -> Field | None:
        """As by index; None if it is not there. What is there and null is a field."""
        if isinstance(key, int):
            found = self._is(list, "a list")
            return self._below(found[key], key) if 0 <= key < len(found) else None
        found = self._is(dict, "an object")
        return self._below(found[key], key) if key in found else None

    @property
    def null(self) -> bool:
        """Whether it is there and says nothing."""
        return self.plain is None

    def text(self, most: int = MAX_BYTES) -> str:
        """A text of at most so many characters."""
        text: str = self._is(str, "a text")
        if len(text) > most:
            raise self.malformed(f"expected at most {most} characters, found {len(text)}")
        return text

    def number(self, least: float | None = None, most: float | None = None) -> float:
        """A finite number, whole or not."""
        if isinstance(self.plain, bool) or not isinstance(self.plain, int | float):
            raise self._unlike("a number")
        try:
            number = float(self.plain)
        except OverflowError:
            raise self._unlike("a finite number") from None
        if not isfinite(number):
            raise self._unlike("a finite number")
        self._within(number, least, most)
        return number

    def integer(self, least: int = -INT64 - 1, most: int = INT64) -> int:
        """A whole number, of 64 bits if nothing else is said."""
        if isinstance(self.plain, bool) or not isinstance(self.plain, int):
            raise self._unlike("a whole number")
        self._within(self.plain, least, most)
        return self.plain

    def flag(self) -> bool:
        """True or false."""
        flag: bool = self._is(bool, "true or false")
        return flag

    def elements(self, length: int | None = None) -> list[Field]:
        """The elements, of which there must be so many if that is said."""
        found = self._is(list, "a list")
        if length is not None and len(found) != length:
            raise self.malformed(f"expected {length} elements, found {len(found)}")
        return [self._below(element, place) for place, element in enumerate(found)]

    def fields(self) -> dict[str, Field]:
        """The fields of an object by their names."""
        return {
            name: self._below(value, name) for name, value in self._is(dict, "an object").items()
        }

    def mapping(self) -> dict[str, Any]:
        """An object as it is, for who passes it on unread."""
        return dict(self._is(dict, "an object"))

    def malformed(self, sentence: str) -> MalformedError:
        """An error to raise that says where this stands."""
        return MalformedError(": ".join(part for part in (self.where, self.path, sentence) if part))

    def _below(self, value: object, key: str | int) -> Field:
        if isinstance(key, int):
            return Field(value, self.where, f"{self.path}[{key}]")
        return Field(value, self.where, f"{self.path}.{shown(key)}" if self.path else shown(key))

    def _is(self, kind: type, expected: str) -> Any:
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


def read_json(data: str | bytes, where: str = "", *, most: int = MAX_BYTES) -> Field:
    """The document of a JSON text, ready to be read field by field."""
    return Field(parse_json(data, where, most=most), where)


def parse_json(
    data: str | bytes, where: str = "", *, most: int = MAX_BYTES, pairs: Pairs | None = None
) -> Any:
    """As `json.loads`, of what others wrote: bounded and finite, or a `MalformedError`."""
    text = decoded(data, where, most)
    try:
        value = (_decoder(pairs) if pairs else _DECODER).decode(text)
    except RecursionError:
        raise _malformed(where, f"it is nested more than {MAX_DEPTH} deep") from None
    except MalformedError as error:
        raise _malformed(where, str(error)) from None
    except ValueError as error:
        raise _malformed(where, f"it is not JSON: {error}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH or "\\u" in text:
        _check(value, where)
    return value


def read_toml(data: str | bytes, where: str = "", *, most: int = 1 << 20) -> Field:
    """The document of a TOML text, ready to be read field by field."""
    return Field(parse_toml(data, where, most=most), where)


def parse_toml(data: str | bytes, where: str = "", *, most: int = 1 << 20) -> dict[str, Any]:
    """As `tomllib.loads`, bounded and finite, or a `MalformedError`."""
    text = decoded(data, where, most)
    try:
        value = tomllib.loads(text, parse_float=_float)
    except RecursionError:
        raise _malformed(where, f"it is nested more than {MAX_DEPTH} deep") from None
    except MalformedError as error:
        raise _malformed(where, str(error)) from None
    except ValueError as error:
        raise _malformed(where, f"it is not valid TOML: {error}") from None
    _check(value, where)
    return value


def decoded(data: str | bytes, where: str = "", most: int = MAX_BYTES) -> str:
    """Bytes as UTF-8 text; a text that could not be written as such is refused likewise."""
    if len(data) > most:
        raise _malformed(where, f"it has {len(data)} bytes; at most {most} are read")
    try:
        if isinstance(data, str):
            if not data.isascii():
                data.encode()
            return data
        return data.decode()
    except UnicodeError:
        raise _malformed(where, "it is not UTF-8 text") from None


def file_text(path: Path, where: str = "", most: int = MAX_BYTES) -> str:
    """The text of a file that may be anything; `OSError` where it cannot be opened."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise _malformed(where or str(path), f"it has more than {most} bytes")
    return decoded(data, where or str(path), most)


def whole_number(text: str, where: str = "") -> int:
    """An integer in a text: a sign perhaps, ASCII digits, not many."""
    if not _WHOLE.fullmatch(text):
        raise _malformed(where, f"expected a whole number, found {described(text)}")
    return int(text)


def number(text: str, where: str = "") -> float:
    """A finite decimal number in a text."""
    value = float(text) if _DECIMAL.fullmatch(text) else float("nan")
    if not isfinite(value):
        raise _malformed(where, f"expected a finite number, found {described(text)}")
    return value


def described(value: object) -> str:
    """What was found instead, short, on one line, in ASCII."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**MAX_DIGITS:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float | str):
        return _cut(json.dumps(value if not isinstance(value, str) else value[: _SHOWN + 1]))
    return f"a {type(value).__name__}"


def shown(text: str) -> str:
    """A text of others as part of a sentence: plain if it is a word, else quoted and cut."""
    return (
        text if text.isascii() and text.isprintable() and len(text) <= _SHOWN else described(text)
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise MalformedError(f"{_cut(text)} is no finite number")
    return value


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise MalformedError(
            f"{text[:20]}... has {len(text)} digits; at most {MAX_DIGITS} are read"
        )
    return int(text)


def _constant(name: str) -> float:
    raise MalformedError(f"{name} is no finite number")


def _decoder(pairs: Pairs | None) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_float=_float, parse_int=_int, parse_constant=_constant, object_pairs_hook=pairs
    )


# Made once: json.loads makes a new one for each text that is read with an option.
_DECODER = _decoder(None)


def _check(document: object, where: str) -> None:
    """Depth, whole numbers (of TOML) and texts of everything in a document, level by level."""
    level, depth = [document], 0
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                if not value.isascii():
                    _utf8(value, where)
            elif isinstance(value, int) and value.bit_length() > 4 * MAX_DIGITS:
                raise _malformed(where, f"a whole number has {value.bit_length()} bits")
        depth += any(isinstance(value, dict | list) for value in level)
        if depth > MAX_DEPTH:
            raise _malformed(where, f"it is nested more than {MAX_DEPTH} deep")
        level = below


def _utf8(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _malformed(where, f"{described(text)} has half of a surrogate pair") from None


def _malformed(where: str, sentence: str) -> MalformedError:
    return MalformedError(f"{where}: {sentence}" if where else sentence)
