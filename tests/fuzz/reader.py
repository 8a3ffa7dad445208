"""A reader that is fuzzed, and how it is given bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutations import mutated

Read = Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Reader:
    """A reader of stored or received data."""

    name: str
    read: Read
    """Takes bytes and a directory of the test's own; gives anything or raises one of our errors."""
    seeds: Callable[[], Sequence[bytes]]
    """Sound inputs, which are read without an error."""
    inputs: int = 1500
    """How many are tried in ``make test``: as many as take half a second or so."""
    mutate: Callable[[random.Random, Sequence[bytes]], bytes] = mutated
    """Makes an input of the seeds."""


def these(*seeds: bytes) -> Callable[[], Sequence[bytes]]:
    """Seeds that need not be computed."""
    return lambda: seeds


def as_json(*values: Any) -> Callable[[], Sequence[bytes]]:
    """A seed for each value."""
    return these(*(json.dumps(value).encode() for value in values))


def of_text(read: Callable[[str], object]) -> Read:
    """For a reader of words of a command line, which may have bytes that are no text in them."""
    return lambda data, _: read(data.decode(errors="surrogateescape"))


def of_bytes(read: Callable[[bytes], object]) -> Read:
    """For a reader of bytes."""
    return lambda data, _: read(data)


def of_file(name: str, read: Callable[[Path], object]) -> Read:
    """For a reader of a file, which is given this name."""

    def read_file(data: bytes, directory: Path) -> object:
        path = directory / name
        path.write_bytes(data)
        return read(path)

    return read_file
