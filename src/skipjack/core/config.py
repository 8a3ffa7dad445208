"""A config: one point of a space, immutable and hashable, with one canonical text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from skipjack.reading import read_json

# Configs and their values.

Value = bool | int | float | str
WHOLE_EXTENT = 1 << 30
"""A block size that means the whole extent: the dimension is not split."""


def settings_text(config: Mapping[str, object]) -> str:
    """A kernel's settings for display, for example ``tile=6x4 panels=all``."""
    shown = (
        (name, "all" if type(value) is int and value == WHOLE_EXTENT else value)
        for name, value in config.items()
    )
    return " ".join(f"{name}={value}" for name, value in shown)


def value_text(value: Value) -> str:
    """A value as it is written on the command line: ``true``, ``64``, ``two_pass``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def has_settings(config: Mapping[str, Value], pins: Mapping[str, str]) -> bool:
    """Whether a config has these settings, whose values are given as text."""
    return all(name in config and value_text(config[name]) == text for name, text in pins.items())


class Config(Mapping[str, Value]):
    """Named settings. Configs with the same items are equal regardless of their order."""

    __slots__ = ("_items", "_key")

    def __init__(self, items: Mapping[str, Value] | None = None, **settings: Value) -> None:
        self._items: dict[str, Value] = {**(items or {}), **settings}
        self._key = json.dumps(self._items, sort_keys=True, separators=(",", ":"))

    @property
    def key(self) -> str:
        """Canonical JSON text; equal configs have equal keys."""
        return self._key

    @classmethod
    def of(cls, items: Mapping[str, Any]) -> Config:
        """A config from a user's file, whose values may be anything that JSON allows."""
        return cls(items)

    @classmethod
    def from_key(cls, key: str) -> Config:
        """The config with this key; `MalformedError` if the text is not a key."""
        return cls(read_json(key, "config").mapping())

    def replace(self, **settings: Value) -> Config:
        """A copy with some settings changed."""
        return Config({**self._items, **settings})

    def __getitem__(self, name: str) -> Value:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and other._key == self._key

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._items.items())

    def __repr__(self) -> str:
        return f"Config({self._items!r})"


# Digests of values that JSON can hold, which are the same on every machine.


def digest_of(parts: object) -> str:
    """SHA-256 in hexadecimal; the order of fields matters."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
