"""Inputs that a reader has not seen: sound ones with a few things changed, the same for a seed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

LARGEST = 16 << 10
"""Bytes of an input. What takes long on so few does not end on a file."""

NUMBERS = (
    *(b"0", b"-1", b"1e309", b"-1e309", b"NaN", b"Infinity", b"-Infinity", b"1e-400", b"0.0"),
    *(b"1.5", b"99999999999999999999", b"9223372036854775808", b"-9223372036854775809", b"010"),
    *(b"9" * 41, b"1" * 4301, b"0x" + b"f" * 4000, b"1_000", b"0.99999999", b"1e308", b"1e5"),
)
WORDS = (
    *(b"", b"null", b"true", b"{}", b"[]", b'""', b'"x"', b"\x00", b"\xff", b"\xed\xa0\x80"),
    *(
        b"\\ud800",
        b"\xc3\xa9",
        b"\xe2\x80\xa8",
        b"\xd9\xa1",
        b"\r",
        b"\n",
        b"\t",
        b" ",
        b"\x1b[31m",
    ),
    *(b"[" * 2000, b'{"a":' * 400, b"(" * 300, b"a<" * 500, b"../", b"~", b"%", b"$", b"-", b"="),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, -0.0, 10**19, -(10**19), 10**400, 2**63, 2**31, 1e308),
    *(float("inf"), float("nan"), "", "x", "0", "\ud800", "\x00", "a" * 300, "1e309", "../../x"),
    *([], {}, [[]], [1, "x"], [None], {"": 0}, {"x": {}}, {"format": 99}),
)
_SQLITE = b"SQLite format 3"
_TOKEN = re.compile(rb"[0-9]+(?:\.[0-9]+)?|[A-Za-z_]+|[^\w\s]")


def mutated(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with a few changes; of JSON often a change of what it says."""
    data = source.choice(seeds)
    if data[:1] in b"{[" and source.random() < 0.6:
        return _of_json(source, data)
    if data.startswith(_SQLITE) and source.random() < 0.8:
        return _of_pages(source, data)
    for _ in range(source.choice((1, 1, 2, 4))):
        data = _changed(source, data, seeds)[: max(LARGEST, 2 * len(data))]
    return data


def _of_pages(source: random.Random, data: bytes) -> bytes:
    """A file of SQLite with some bytes changed in their places, mostly those that are used."""
    changed = bytearray(data)
    used = [at for at, byte in enumerate(data) if byte]
    for _ in range(source.choice((1, 1, 2, 8))):
        at = source.choice(used) if source.random() < 0.9 else source.randrange(len(data))
        values = (0, 255, 128, source.randrange(256), changed[at] ^ 1 << source.randrange(8))
        changed[at] = source.choice(values)
    return bytes(changed)


def _of_json(source: random.Random, data: bytes) -> bytes:
    """JSON, or lines of it, with values exchanged, left out, repeated or put elsewhere."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    at = source.randrange(len(lines))
    try:
        value = json.loads(data)
        lines, at = [data], 0
    except ValueError:
        try:
            value = json.loads(lines[at])
        except ValueError:
            return data
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        value = altered(source, value)
    lines[at] = json.dumps(value).encode()[: 4 * LARGEST]
    return b"\n".join(lines)


def altered(source: random.Random, value: Any) -> Any:
    """A copy of what JSON holds with one thing in it changed."""
    places = list(_places(value, ()))
    path = source.choice(places)
    if not path:
        return source.choice(ODD)
    copy = json.loads(json.dumps(value))
    holder: Any = copy
    for key in path[:-1]:
        holder = holder[key]
    key = path[-1]
    match source.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[source.choice(("", "x", "\ud800", f"{key}2"))] = holder.pop(key)
        case 2:
            other: Any = value
            for step in source.choice(places):
                other = other[step]
            holder[key] = json.loads(json.dumps(other))
        case 3:
            holder[key] = [holder[key]]
        case _:
            holder[key] = source.choice(ODD)
    return copy


def _places(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    found = [path]
    below = value.items() if isinstance(value, dict) else ()
    below = enumerate(value) if isinstance(value, list) else below
    for key, inner in below:
        found += _places(inner, (*path, key))
    return found


def _changed(source: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """One change of bytes or of words."""
    at, to = sorted((source.randrange(len(data) + 1), source.randrange(len(data) + 1)))
    if source.random() < 0.5:
        to = min(to, at + source.choice((1, 2, 8)))
    match source.randrange(10):
        case 0:
            return data[:at] + bytes([source.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:to] + data[at:]
        case 3:
            times = source.choice((2, 10, 1000))
            return data[:at] + data[at:to] * min(times, 1 + LARGEST // max(1, to - at)) + data[to:]
        case 4:
            return data[:at] + source.choice(WORDS) + data[to:]
        case 5:
            other = source.choice(seeds)
            return data[:at] + other[source.randrange(len(other) + 1) :]
        case 6:
            return data[:at]
    return _exchanged(source, data)


def _exchanged(source: random.Random, data: bytes) -> bytes:
    """A word or a number replaced by another one, or by an odd one."""
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return data + source.choice(WORDS)
    token = source.choice(tokens)
    if token[0][:1].isdigit():
        new = source.choice(NUMBERS)
    else:
        new = source.choice(
            (source.choice(tokens)[0], source.choice(WORDS), source.choice(NUMBERS))
        )
    return data[: token.start()] + new + data[token.end() :]
