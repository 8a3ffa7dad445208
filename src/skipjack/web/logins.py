"""Logging in with the token and a name, and logging out."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from skipjack.web.failures import refused
from skipjack.web.forms import read_form
from skipjack.web.options import WebOptions
from skipjack.web.rendering import Viewer, render
from skipjack.web.security import (
    COOKIE,
    LONGEST_NAME,
    LONGEST_S,
    WebSessions,
    WrongTokens,
    address_of,
    is_token,
    person_name,
    too_many,
)


def login_routes(
    options: WebOptions, sessions: WebSessions, wrong: WrongTokens
) -> tuple[Route, ...]:
    """The addresses for logging in and out."""

    async def show(request: Request) -> Response:
        if not options.token:
            return _nothing_to_log_in_to(request)
        if request.state.session:
            return RedirectResponse(local_path(request.query_params.get("next", "")), 303)
        return _form(request.query_params.get("next", ""))

    async def log_in(request: Request) -> Response:
        if not options.token:
            return _nothing_to_log_in_to(request)
        form = await read_form(request)
        path, given = form.get("next", ""), form.get("name", "")
        address = address_of(request)
        if wait := wrong.wait_s(address):
            return too_many(refused, request, wait)
        if not is_token(form.get("token", "").strip(), options):
            wrong.note(address)
            return _form(path, given, "The token is wrong.", 403)
        name = person_name(given)
        if not name:
            complaint = f"Write your name, with at most {LONGEST_NAME} printable characters."
            return _form(path, given, complaint, 400)
        answer = RedirectResponse(local_path(path), 303)
        answer.set_cookie(
            COOKIE,
            sessions.start(name),
            max_age=int(LONGEST_S),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def log_out(request: Request) -> Response:
        session = getattr(request.state, "session", None)
        form = await read_form(request)
        if session and not session.has_sent(form.get("csrf", "")):
            return refused(request, 403, "the form is not from this page; load it again")
        sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login" if options.token else "/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    return (
        Route("/login", show, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    )


def local_path(text: str) -> str:
    """A path on this server to go on to; the overview for all else."""
    parts = urlsplit(text)
    is_local = text.startswith("/") and not text.startswith(("//", "/\\"))
    if not is_local or parts.netloc or parts.scheme or not text.isprintable():
        return "/"
    return text


def _form(path: str, name: str = "", complaint: str = "", status: int = 200) -> Response:
    viewer = Viewer(has_token=True)
    values = {"next": local_path(path), "name": name, "complaint": complaint}
    return HTMLResponse(render("login.html", viewer, "/login", **values), status)


def _nothing_to_log_in_to(request: Request) -> Response:
    return refused(
        request,
        404,
        "this server has no token, so that it can only be read; start it with --token-file to "
        "abort, resume and reset jobs",
        Viewer(),
    )
