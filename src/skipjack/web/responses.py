"""Answers that do not repeat what the reader has: pages, parts of pages, JSON and CSV."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from skipjack.app.views import Workspace
from skipjack.web.content import (
    PageCall,
    PageNotFoundError,
    TableSection,
)
from skipjack.web.pages import PageRoute
from skipjack.web.rendering import RenderedPage, Viewer, render_page
from skipjack.web.tables import CSV, csv_lines
from skipjack.web.workspaces import WorkspaceReaders

PART = "x-part"
"""The header of requests for the part of a page that changes."""
_LINES_AT_ONCE = 4


def call_of(request: Request, viewer: Viewer) -> PageCall:
    """What a request asks for."""
    return PageCall(
        request.url.path,
        {name: str(value) for name, value in request.path_params.items()},
        dict(request.query_params),
        viewer.session is not None,
    )


def tag_of(body: bytes) -> str:
    """The ETag of an answer."""
    return f'"{hashlib.sha256(body).hexdigest()[:24]}"'


def tagged(request: Request, body: bytes, media_type: str) -> Response:
    """An answer with its tag; without a body if the reader has it already."""
    return unless_known(request, tag_of(body), lambda: Response(body, media_type=media_type))


def unless_known(request: Request, tag: str, make: Callable[[], Response]) -> Response:
    """An answer, or 304 if the request names its tag."""
    known = request.headers.get("if-none-match", "")
    if tag in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Response(status_code=304, headers={"etag": tag})
    response = make()
    response.headers["etag"] = tag
    return response


async def page_response(
    route: PageRoute, readers: WorkspaceReaders, request: Request, viewer: Viewer
) -> Response:
    """A page, its part that changes, or one of its tables as a CSV file."""
    call = call_of(request, viewer)
    wanted = call.chosen(CSV)
    if wanted:
        section = await readers.run(lambda workspace: _section(route, workspace, call, wanted))
        return await csv_response(readers, section, call.query)
    page = await readers.run(lambda workspace: _render(route, workspace, call))
    if PART in request.headers:
        return unless_known(request, page.tag, lambda: HTMLResponse(page.part))
    return HTMLResponse(page.whole(viewer))


def _render(route: PageRoute, workspace: Workspace, call: PageCall) -> RenderedPage:
    return render_page(route.read(workspace, call), call)


def _section(route: PageRoute, workspace: Workspace, call: PageCall, wanted: str) -> TableSection:
    content = route.read(workspace, call)
    tables = {one.id: one for one in content.sections if isinstance(one, TableSection)}
    if wanted not in tables:
        known = ", ".join(tables) or "none"
        raise PageNotFoundError(f"the page has no table {wanted!r}; it has {known}")
    return tables[wanted]


async def csv_response(
    readers: WorkspaceReaders, section: TableSection, query: Mapping[str, str]
) -> Response:
    """All rows of a table, read while they are sent."""
    lines = csv_lines(section, query)
    first = await readers.run(lambda _: _some(lines))

    async def rest() -> AsyncIterator[str]:
        part = first
        while part:
            yield "".join(part)
            part = await readers.run(lambda _: _some(lines))

    headers = {"content-disposition": f'attachment; filename="{section.id}.csv"'}
    return StreamingResponse(rest(), media_type="text/csv; charset=utf-8", headers=headers)


def _some(lines: Iterator[str]) -> list[str]:
    return [line for _, line in zip(range(_LINES_AT_ONCE), lines, strict=False)]
