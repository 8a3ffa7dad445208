"""Reading of stored or received numbers, texts, JSON and TOML.

Values are bounded in size and depth, all numbers are finite, whole numbers have few digits, and
texts are valid UTF-8. Anything else raises `MalformedError`, which is also a `ValueError`, and so
does a field that is missing or of another type than expected::

    field = read_json(path.read_bytes(), "devices.json")
    rate = field["peaks"]["f32"].number(least=0.0)
    device = field["device"].of(Device)

    devices.json: peaks.f32: expected a number, found "x"
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "documents": (
            "MAX_BYTES MAX_DEPTH MAX_DIGITS decoded file_text number open_plain parse_json "
            "parse_toml read_json read_plain read_toml whole_number"
        ),
        "field": "Field INT64 described numbered quoted",
    },
)
