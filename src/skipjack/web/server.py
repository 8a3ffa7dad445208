"""Serving until Ctrl-C."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from skipjack.app.views import Workspace, WorkspacePlaces
from skipjack.errors import SkipjackError, StorageError, StoreUnavailableError, UsageError
from skipjack.settings import DB, Settings
from skipjack.web.options import WebOptions, check_options

_BACKLOG = 128
_END_S = 3


class WebMissingError(SkipjackError):
    """The packages of the extra ``web`` are not installed."""


def serve(
    options: WebOptions,
    settings: Settings,
    places: WorkspacePlaces,
    say: Callable[[str], None],
) -> None:
    """Serve pages until Ctrl-C. `say` is told the address as soon as it answers."""
    check_options(options)
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    except ModuleNotFoundError as error:
        raise WebMissingError(
            f"{error.name} is not installed; skipjack web needs it: pip install 'skipjack[web]'"
        ) from None

    from skipjack.web.application import create_app

    _check_database(settings, places)
    app = create_app(options, lambda: Workspace(settings, places))
    _check_certificate(options)
    listening = _listen(options)
    port = listening.getsockname()[1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=_END_S,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        # A reverse proxy on this machine may say where a request came from.
        proxy_headers=bool(options.names),
        forwarded_allow_ips="127.0.0.1",
    )
    server = _announcing(config, lambda: say(f"{options.scheme}://{host}:{port}/"))
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # uvicorn has ended and raises the signal again
    finally:
        listening.close()


def _check_database(settings: Settings, places: WorkspacePlaces) -> None:
    """Refuse a database that was named and is none; one that does not answer may come back."""
    if DB.text():
        with suppress(StoreUnavailableError), Workspace(settings, places) as workspace:
            _ = workspace.store


def _listen(options: WebOptions) -> socket.socket:
    """A socket at the address; a sentence if that is impossible."""
    where = f"{options.host}:{options.port}"
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise UsageError(f"{options.host!r} is not an address of this machine") from None
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise StorageError(
            f"cannot listen at {where}: {reason[:1].lower()}{reason[1:]}; choose another with "
            "--port or --host"
        ) from None
    return listening


def _check_certificate(options: WebOptions) -> None:
    if options.tls_cert is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            options.tls_cert, options.tls_key
        )
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"{options.tls_cert} and {options.tls_key} are not a certificate and its key: "
            f"{error.strerror or error}"
        ) from None


def _announcing(config: Any, ready: Callable[[], None]) -> Any:
    """uvicorn's server, which calls `ready` when it answers."""
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    return Announcing(config)
