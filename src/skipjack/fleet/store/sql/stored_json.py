"""Columns that hold JSON: read as what anybody may have written who may write into the store."""

from __future__ import annotations

from typing import Any

from skipjack.reading import parse_json


def stored(text: str) -> Any:
    """What a column holds; `MalformedError` if that is no JSON of ours."""
    return parse_json(text, "the store", surrogates=True)
