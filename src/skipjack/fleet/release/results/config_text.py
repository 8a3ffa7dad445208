"""Configs as parameters in a perf-db of MIOpen, and back.

::

    rows~6,vectors~4,unroll~4                       numbers
    fused~true,name~tiled,digits~"12",empty~""      truth values and texts
    schedule~m%3A4 n%3A64 k m/u n/v                 no colon, semicolon or equals sign
    axes~![1%2C2]                                   anything else, as JSON

Settings stand in the order of their names, joined by commas, each as ``name~value``. A text is
quoted where it would read as something else. Characters that the file gives a meaning, invisible
ones and those beyond ASCII are written as ``%`` and the two hexadecimal digits of each byte of
their UTF-8. So the text has none of ``; : =`` and no line ends, and says types as well: 1, 1.0,
true and "1" are four different values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from skipjack.core.config import Config
from skipjack.errors import UsageError
from skipjack.reading import parse_json, whole_number

_KEPT = re.compile(r"[A-Za-z0-9_.+/<>()\[\]{}|*@&!?^$#'\" -]+")
"""Characters that mean themselves."""
_WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_FLOAT = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def params_of(config: Mapping[str, Any]) -> str:
    """The config as one text; empty for one without settings."""
    pairs = sorted(config.items())
    return ",".join(f"{_escaped(name)}~{_value_text(value)}" for name, value in pairs)


def config_of(params: str) -> Config:
    """The config that `params_of` wrote; `UsageError` if the text is not such a one."""
    settings: dict[str, Any] = {}
    for pair in params.split(",") if params else ():
        written, tilde, text = pair.partition("~")
        try:
            name = _plain(written)
        except ValueError:
            raise UsageError(
                f"{params!r} is no config of Skipjack: {written!r} is no name of a setting"
            ) from None
        if not tilde or name in settings:
            wrong = "has no value" if not tilde else "is there twice"
            raise UsageError(f"{params!r} is no config of Skipjack: setting {name!r} {wrong}")
        try:
            settings[name] = _value_of(text)
        except ValueError:
            raise UsageError(
                f"{params!r} is no config of Skipjack: {text!r} is no value of {name!r}"
            ) from None
    return Config.of(settings)


def _value_text(value: object) -> str:
    if isinstance(value, str):
        plain = not (value in _WORDS or value[:1] in ('"', "!", "") or _FLOAT.fullmatch(value))
        return _escaped(value) if plain else f'"{_escaped(value)}"'
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _escaped(text if isinstance(value, bool | int | float | None) else f"!{text}")


def _value_of(text: str) -> object:
    text = _plain(text)
    if text[:1] == '"':
        return text[1:-1]
    if text[:1] == "!":
        return parse_json(text[1:])
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return whole_number(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _escaped(text: str) -> str:
    """As it is where that is safe; blanks at the ends get lost too easily."""
    if _KEPT.fullmatch(text) and text == text.strip():
        return text
    core = text.strip(" ")
    head, tail = text[: len(text) - len(text.lstrip(" "))], text[len(text.rstrip(" ")) :]
    blanks = (head, tail) if core else (head, "")
    inner = "".join(one if _KEPT.fullmatch(one) else _hexadecimal(one) for one in core)
    return _hexadecimal(blanks[0]) + inner + _hexadecimal(blanks[1])


def _hexadecimal(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _plain(text: str) -> str:
    return unquote(text, encoding="utf-8", errors="surrogatepass")
