"""The dashboard: pages, an HTTP API and metrics of what `skipjack.app.views` reads.

``create_app(options, open_workspace)`` is an ASGI application; `serve` runs it. Needs the extra
``web``.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.web.application import create_app
    from skipjack.web.options import DEFAULT_PORT, WebOptions, check_options, read_token
    from skipjack.web.server import WebMissingError, serve

__all__ = [
    "DEFAULT_PORT",
    "WebMissingError",
    "WebOptions",
    "check_options",
    "create_app",
    "read_token",
    "serve",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "application": "create_app",
        "options": "DEFAULT_PORT WebOptions check_options read_token",
        "server": "WebMissingError serve",
    },
)
