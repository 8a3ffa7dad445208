"""The application: what answers which address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from mimetypes import guess_type

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from skipjack.app.views import Workspace
from skipjack.errors import SkipjackError
from skipjack.web.actions import action_routes
from skipjack.web.api import api_routes
from skipjack.web.failures import failed, refused
from skipjack.web.logins import login_routes
from skipjack.web.options import WebOptions
from skipjack.web.pages import PAGES, PageRoute
from skipjack.web.rendering import STATIC_FILES, Viewer, static_file
from skipjack.web.responses import page_response
from skipjack.web.security import Guard, WebSessions, WrongTokens
from skipjack.web.workspaces import WorkspaceReaders

Endpoint = Callable[[Request], Awaitable[Response]]
_A_YEAR = "public, max-age=31536000, immutable"


def create_app(options: WebOptions, open_workspace: Callable[[], Workspace]) -> Starlette:
    """The application that shows a workspace. Opens it when a page first needs it."""
    readers = WorkspaceReaders(open_workspace)
    sessions, wrong = WebSessions(), WrongTokens()
    viewer = partial(_viewer, options)

    def page(route: PageRoute) -> Endpoint:
        async def answer(request: Request) -> Response:
            return await page_response(route, readers, request, viewer(request))

        return answer

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        readers.close()

    async def on_failure(request: Request, error: Exception) -> Response:
        return failed(request, error, viewer(request))

    async def on_http_failure(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = {404: "there is no such page", 405: "this address does not take such requests"}
        sentence = said.get(error.status_code, error.detail)
        answer = refused(request, error.status_code, sentence, viewer(request))
        answer.headers.update(error.headers or {})
        return answer

    return Starlette(
        routes=[
            *(Route(route.path, page(route), methods=["GET"]) for route in PAGES),
            *login_routes(options, sessions, wrong),
            *(action_routes(readers, viewer) if options.token else ()),
            *api_routes(options, readers),
            Route("/static/{name:path}", _static, methods=["GET"]),
            Route("/healthz", _health, methods=["GET"]),
        ],
        middleware=[
            Middleware(Guard, options=options, sessions=sessions, wrong=wrong, refuse=refused)
        ],
        exception_handlers={
            HTTPException: on_http_failure,
            SkipjackError: on_failure,
            Exception: on_failure,
        },
        lifespan=lifespan,
    )


def _viewer(options: WebOptions, request: Request) -> Viewer:
    session = getattr(request.state, "session", None)
    return Viewer(session, bool(options.token))


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC_FILES:
        raise HTTPException(404)
    kind = guess_type(name)[0] or "text/plain"
    headers = {"cache-control": _A_YEAR if request.query_params else "no-cache"}
    return Response(static_file(name), media_type=kind, headers=headers)


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")
