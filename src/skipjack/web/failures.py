"""What goes wrong, as a page or as JSON: one sentence, and the way on."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from skipjack.app.views import SourceMissingError, UnknownNameError
from skipjack.errors import SkipjackError, StorageError, UsageError
from skipjack.web.content import PageLink, PageNotFoundError
from skipjack.web.rendering import Viewer, render
from skipjack.web.security import HEADERS, NO_STORE

log = logging.getLogger(__name__)

_TITLES = {
    400: "Bad request",
    401: "Log in first",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    421: "Unknown host name",
    429: "Too many attempts",
    500: "Internal error",
    503: "Temporarily unavailable",
}


def status_of(error: Exception) -> int:
    """The HTTP status of an exception."""
    if isinstance(error, PageNotFoundError | SourceMissingError | UnknownNameError):
        return 404
    if isinstance(error, UsageError):
        return 400
    if isinstance(error, StorageError):
        return 503
    return 409 if isinstance(error, SkipjackError) else 500


def sentence_of(error: Exception) -> str:
    """What is said about an exception."""
    if isinstance(error, SkipjackError):
        return str(error)
    log.error("a request failed", exc_info=error)
    return f"an internal error ({type(error).__name__}); the server's log says where"


def failed(
    request: HTTPConnection,
    error: Exception,
    viewer: Viewer | None = None,
    status: int | None = None,
) -> Response:
    """The answer to a request that raised an exception."""
    answer = refused(request, status or status_of(error), sentence_of(error), viewer)
    # Of unforeseen exceptions, Starlette sends this answer past the guard.
    answer.headers.update({**HEADERS, "cache-control": NO_STORE})
    return answer


def refused(
    request: HTTPConnection,
    status: int,
    sentence: str,
    viewer: Viewer | None = None,
    links: Sequence[PageLink] | None = None,
) -> Response:
    """An answer that says why there is no other: JSON for programs, a page for people."""
    path = request.url.path
    if path.startswith("/api/"):
        return JSONResponse({"error": sentence}, status)
    if path == "/metrics" or "x-part" in request.headers:
        return PlainTextResponse(f"{sentence}\n", status)
    # Whoever is refused by the guard is not told what pages there are.
    way = [PageLink("To the overview", "/")] if links is None else links
    page = render(
        "message.html",
        viewer or Viewer(has_token=True),
        path,
        title=_TITLES.get(status, "Not possible"),
        text=f"{sentence[:1].upper()}{sentence[1:]}.".replace("..", "."),
        links=way if status not in (401, 421) else (),
    )
    return HTMLResponse(page, status)
