"""Forms and JSON that browsers and programs send: small, and read whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from skipjack.errors import MalformedError, UsageError
from skipjack.reading import parse_json

_LONGEST = 64 << 10
_MOST_FIELDS = 50


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "send a form, as application/x-www-form-urlencoded")
    text = (await _body(request)).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise UsageError("the form has too many fields") from None


async def read_object(request: Request) -> Mapping[str, Any]:
    """A JSON object; an empty one for an empty body."""
    body = await _body(request)
    if not body.strip():
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "send JSON, as application/json")
    try:
        found = parse_json(body.decode())
    except (UnicodeDecodeError, MalformedError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("the body is not a JSON object")
    return found


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _LONGEST:
            raise HTTPException(413, f"more than {_LONGEST >> 10} KiB were sent")
        parts.append(part)
    return b"".join(parts)
