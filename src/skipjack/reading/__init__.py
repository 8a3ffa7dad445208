"""Numbers, texts, JSON and TOML that were stored or received: the one way to read them.

Whoever wrote them, what comes out is bounded in size and depth, every number is finite, whole
numbers have few digits, and texts can be written as UTF-8 again. Anything else is a
`MalformedError`, which is a `ValueError` too, and so is a field that is missing or of another kind
than its reader expects::

    field = read_json(path.read_bytes(), "devices.json")
    rate = field["peaks"]["f32"].number(least=0.0)
    device = field["device"].of(Device)

    devices.json: peaks.f32: expected a number, found "x"
"""

from skipjack.reading.documents import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIGITS,
    decoded,
    file_text,
    number,
    open_plain,
    parse_json,
    parse_toml,
    read_json,
    read_plain,
    read_toml,
    whole_number,
)
from skipjack.reading.field import INT64, Field, described, numbered, quoted

__all__ = [
    "INT64",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "Field",
    "decoded",
    "described",
    "file_text",
    "number",
    "numbered",
    "open_plain",
    "parse_json",
    "parse_toml",
    "quoted",
    "read_json",
    "read_plain",
    "read_toml",
    "whole_number",
]
