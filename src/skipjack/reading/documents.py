"""Files, JSON and TOML documents, texts and numbers in texts, bounded and finite."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from skipjack.errors import MalformedError
from skipjack.reading.field import Field, described

MAX_BYTES = 64 << 20
"""Size of a document; the largest that Skipjack writes are rows of a ledger."""
MAX_DEPTH = 64
"""Levels of lists and objects; those of Skipjack have about six."""
MAX_DIGITS = 40
"""Digits of a whole number: 128 bits, and finite as a float."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,5})?"
)
_SHOWN = 40
_TOO_DEEP = f"this is nested more than {MAX_DEPTH} levels deep"

Pairs = Callable[[list[tuple[str, Any]]], Any]
"""Makes an object of its names and values, like the hook of `json.loads`."""


def read_json(
    data: str | bytes,
    where: str = "",
    *,
    most: int = MAX_BYTES,
    finite: bool = True,
    surrogates: bool = False,
) -> Field:
    """Parse a JSON text like `parse_json`, to be read field by field."""
    value = parse_json(data, where, most=most, finite=finite, surrogates=surrogates)
    return Field(value, where, finite=finite)


def parse_json(
    data: str | bytes,
    where: str = "",
    *,
    most: int = MAX_BYTES,
    pairs: Pairs | None = None,
    finite: bool = True,
    surrogates: bool = False,
) -> Any:
    """Like `json.loads` for untrusted data: bounded and finite, or a `MalformedError`.

    With `finite` False, NaN and Infinity are allowed, as Python writes them; this is for messages
    between Skipjack's own processes. With `surrogates`, texts may have lone surrogates, which stand
    for bytes that are not UTF-8, such as in file names or lines of other programs' databases.
    """
    text = decoded(data, where, most)
    try:
        value = _decoder(pairs, finite).decode(text)
    except RecursionError:
        raise _malformed(where, _TOO_DEEP) from None
    except _OddNumberError as odd:
        raise _malformed(_place(where, text, odd.text), odd.sentence) from None
    except json.JSONDecodeError as error:
        raise _malformed(
            _line(where, text, error.lineno), f"this is not JSON: {error.msg}"
        ) from None
    if text.count("[") + text.count("{") > MAX_DEPTH or "\\u" in text:
        _check(value, where, surrogates)
    return value


def read_toml(data: str | bytes, where: str = "", *, most: int = 1 << 20) -> Field:
    """Parse a TOML text like `parse_toml`, to be read field by field."""
    return Field(parse_toml(data, where, most=most), where)


def parse_toml(data: str | bytes, where: str = "", *, most: int = 1 << 20) -> dict[str, Any]:
    """Like `tomllib.loads`, but bounded and finite, or a `MalformedError`."""
    text = decoded(data, where, most)
    try:
        value = tomllib.loads(text, parse_float=_float)
    except RecursionError:
        raise _malformed(where, _TOO_DEEP) from None
    except _OddNumberError as odd:
        raise _malformed(_place(where, text, odd.text), odd.sentence) from None
    except tomllib.TOMLDecodeError as error:
        message, _, at = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", at)
        here = _line(where, text, int(line[1]) if line else len(text.splitlines()))
        raise _malformed(here, f"this is not TOML: {message}") from None
    except ValueError:  # Python's own limit, of 4,300 digits
        raise _malformed(where, f"a whole number has more than {MAX_DIGITS} digits") from None
    _check(value, where)
    return value


def decoded(data: str | bytes, where: str = "", most: int = MAX_BYTES) -> str:
    """Bytes as UTF-8 text; also refuses a text that cannot be encoded."""
    if len(data) > most:
        raise _malformed(where, f"this has {len(data)} bytes; at most {most} are read")
    try:
        if isinstance(data, str):
            if not data.isascii():
                data.encode()
            return data
        return data.decode()
    except UnicodeError:
        raise _malformed(where, "this is not UTF-8 text") from None


def file_text(path: Path, where: str = "", most: int = MAX_BYTES) -> str:
    """The text of an untrusted file; `OSError` if it cannot be opened."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise _malformed(where or str(path), f"this has more than {most} bytes")
    return decoded(data, where or str(path), most)


def whole_number(text: str, where: str = "") -> int:
    """An integer in a text: an optional sign and a limited number of ASCII digits."""
    if not _WHOLE.fullmatch(text):
        raise _malformed(where, f"expected a whole number, found {described(text)}")
    return int(text)


def number(text: str, where: str = "") -> float:
    """A finite decimal number in a text."""
    value = float(text) if _DECIMAL.fullmatch(text) else float("nan")
    if not isfinite(value):
        raise _malformed(where, f"expected a finite number, found {described(text)}")
    return value


class _OddNumberError(ValueError):
    """Raised by a parser's callback for numbers, which does not know the position."""

    def __init__(self, text: str, sentence: str) -> None:
        super().__init__(sentence)
        self.text, self.sentence = text, sentence


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise _OddNumberError(text, f"{text[:_SHOWN]} is not a finite number")
    return value


def _int(text: str) -> int:
    digits = len(text.lstrip("-")) if len(text) > MAX_DIGITS else 0
    if digits > MAX_DIGITS:
        said = f"{text[:20]}... has {digits} digits; at most {MAX_DIGITS} are read"
        raise _OddNumberError(text, said)
    return int(text)


def _constant(name: str) -> float:
    raise _OddNumberError(name, f"{name} is not a finite number")


# Created once, as json.loads would create one for each text.
_FINITE = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=_constant)
_ANY = json.JSONDecoder(parse_int=_int)


def _decoder(pairs: Pairs | None, finite: bool) -> json.JSONDecoder:
    if pairs is None:
        return _FINITE if finite else _ANY
    return json.JSONDecoder(
        parse_float=_float, parse_int=_int, parse_constant=_constant, object_pairs_hook=pairs
    )


def _check(document: object, where: str, surrogates: bool = False) -> None:
    """Check depth, whole numbers (of TOML) and texts of a document, level by level."""
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
                if not (surrogates or value.isascii()):
                    _utf8(value, where)
            elif isinstance(value, int) and value.bit_length() > 4 * MAX_DIGITS:
                raise _malformed(where, f"a whole number has {value.bit_length()} bits")
        depth += any(isinstance(value, dict | list) for value in level)
        if depth > MAX_DEPTH:
            raise _malformed(where, _TOO_DEEP)
        level = below


def _utf8(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _malformed(where, f"{described(text)} has a lone surrogate") from None


def _malformed(where: str, sentence: str) -> MalformedError:
    return MalformedError(f"{where}: {sentence}" if where else sentence)


def _place(where: str, text: str, part: str) -> str:
    """The line in which a part of a text occurs first."""
    return _line(where, text, text.count("\n", 0, max(text.find(part), 0)) + 1)


def _line(where: str, text: str, line: int) -> str:
    if where:
        return f"{where}:{line}"
    return f"line {line}" if "\n" in text else ""


def open_plain(path: Path) -> int:
    """Open a regular file for reading; `OSError` if it is anything else.

    This does not block on a FIFO, which otherwise waits for a writer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is not a plain file", str(path))


def read_plain(path: Path) -> bytes:
    """The contents of a regular file; `OSError` if it is anything else."""
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read()
