"""The first to see a request: checks Host, Origin and token, and adds headers to the answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from hmac import compare_digest
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skipjack.web.options import WebOptions, is_loopback, served_names
from skipjack.web.security.attempts import WrongTokens
from skipjack.web.security.headers import HEADERS, NO_STORE
from skipjack.web.security.sessions import COOKIE, WebSession, WebSessions

_OPEN = ("/login", "/static/", "/healthz")
"""Paths that need no token."""
_BY_PROGRAMS = ("/api/", "/metrics")
"""Paths whose failures are JSON or text, and lead to no form."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_BEARER = "bearer "


class Guard:
    """An ASGI middleware. `refuse` makes the answer to a request that is refused."""

    def __init__(
        self,
        app: ASGIApp,
        options: WebOptions,
        sessions: WebSessions,
        wrong: WrongTokens,
        refuse: Callable[[HTTPConnection, int, str], Response],
    ) -> None:
        self._app = app
        self._options = options
        self._names = served_names(options)
        self._sessions = sessions
        self._wrong = wrong
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", NO_STORE)
            await send(message)

        refusal = self._refusal(HTTPConnection(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: HTTPConnection) -> Response | None:
        if not self._is_ours(request.headers.get("host", "")):
            return self._refuse(request, 421, _FOREIGN_HOST)
        method = request.scope["method"]
        if method not in _SAFE and not _is_from_here(request):
            return self._refuse(request, 403, "the request comes from another site")
        request.scope.setdefault("state", {})
        state = request.scope["state"]
        state["session"], state["by_token"] = None, False
        if not self._options.token:
            return None
        header = request.headers.get("authorization", "")
        if header[: len(_BEARER)].lower() == _BEARER:
            return self._check_bearer(request, header[len(_BEARER) :].strip())
        state["session"] = self._session(request)
        if state["session"] or request.url.path.startswith(_OPEN):
            return None
        return self._ask_to_log_in(request)

    def _check_bearer(self, request: HTTPConnection, token: str) -> Response | None:
        address = address_of(request)
        if wait := self._wrong.wait_s(address):
            return too_many(self._refuse, request, wait)
        if not is_token(token, self._options):
            self._wrong.note(address)
            refused = self._refuse(request, 401, "the token is wrong")
            refused.headers["www-authenticate"] = 'Bearer error="invalid_token"'
            return refused
        request.scope["state"]["by_token"] = True
        return None

    def _ask_to_log_in(self, request: HTTPConnection) -> Response:
        path = request.url.path
        if path.startswith(_BY_PROGRAMS) or request.scope["method"] not in _SAFE:
            refused = self._refuse(request, 401, "send the token as Authorization: Bearer TOKEN")
            refused.headers["www-authenticate"] = "Bearer"
            return refused
        wanted = f"{path}?{request.url.query}" if request.url.query else path
        login = f"/login?next={quote(wanted, safe='/')}"
        if "hx-request" in request.headers:
            # A part of a page that asks for news: the browser shall load the whole form.
            return Response(status_code=204, headers={"hx-redirect": login})
        return RedirectResponse(login, 303)

    def _session(self, request: HTTPConnection) -> WebSession | None:
        return self._sessions.get(request.cookies.get(COOKIE, ""))

    def _is_ours(self, host: str) -> bool:
        """Whether the ``Host`` is this server's; other names may be those of an attacker."""
        try:
            name = urlsplit(f"//{host}").hostname if _is_plain(host) else None
        except ValueError:
            return False
        if not name:
            return False
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        # A page of another site cannot make a browser send an address that is not its own.
        return not self._options.is_local or is_loopback(name)


_FOREIGN_HOST = (
    "this server does not answer to the name in the request; use the address that skipjack web "
    "printed, or add the name with --name"
)


def is_token(text: str, options: WebOptions) -> bool:
    """Whether a text is the server's token; takes the same time for all."""
    return bool(options.token) and compare_digest(
        text.encode("utf-8", "replace"), options.token.encode()
    )


def address_of(request: HTTPConnection) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else ""


def too_many(
    refuse: Callable[[HTTPConnection, int, str], Response], request: HTTPConnection, wait_s: int
) -> Response:
    """The answer to one who sent too many wrong tokens."""
    refused = refuse(request, 429, f"too many wrong tokens; try again in {wait_s} s")
    refused.headers["retry-after"] = str(wait_s)
    return refused


def _is_plain(host: str) -> bool:
    return host.isascii() and not set(host) & set("/@?#\\ ")


def _is_from_here(request: HTTPConnection) -> bool:
    """Whether a request that changes something was sent by one of our pages, or by no browser."""
    headers: Headers = request.headers
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        referrer = headers.get("referer")
        # Programs send neither; browsers that do so send no cookie to other sites either.
        return referrer is None or _same_place(referrer, request)
    return _same_place(origin, request)


def _same_place(address: str, request: HTTPConnection) -> bool:
    try:
        place = urlsplit(address).netloc
    except ValueError:
        return False
    return place.lower() == request.headers.get("host", "").lower()
