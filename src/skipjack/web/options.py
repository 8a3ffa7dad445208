"""Options of ``skipjack web``, and their checks."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import MissingFileError, StorageError, UsageError
from skipjack.settings import WEB_TOKEN

DEFAULT_PORT = 8717
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class WebOptions:
    """The options of ``skipjack web``."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = DEFAULT_PORT
    """0 lets the system choose."""
    token: str = ""
    """Anyone with the token may read and act; empty: anyone who can reach the server may read."""
    names: tuple[str, ...] = ()
    """Further names by which browsers reach the server, such as that of a reverse proxy."""
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)

    @property
    def scheme(self) -> str:
        """What addresses begin with."""
        return "https" if self.tls_cert else "http"


def is_loopback(host: str) -> bool:
    """Whether an address, or ``localhost``, is that of this machine for itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_options(options: WebOptions) -> None:
    """Raise `UsageError` if the server must not or cannot be started with these."""
    if not 0 <= options.port <= 65535:
        raise UsageError(f"port {options.port} is out of range (0 to 65535)")
    if not options.is_local and not options.token:
        raise UsageError(
            f"{options.host} can be reached by other machines; give a token with --token-file or "
            f"{WEB_TOKEN.name}, or listen at 127.0.0.1"
        )
    if options.token and len(options.token) < SHORTEST_TOKEN:
        raise UsageError(
            f"the token has {len(options.token)} characters; use {SHORTEST_TOKEN} or more, such as "
            "those that openssl rand -hex 32 prints"
        )
    if not (options.token.isascii() and options.token.isprintable() and " " not in options.token):
        raise UsageError("the token has characters other than ASCII letters, digits and signs")
    if options.names and not options.token:
        raise UsageError(
            "--name is for servers that others reach through a proxy, which need a token; give one "
            f"with --token-file or {WEB_TOKEN.name}"
        )
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    for path in (options.tls_cert, options.tls_key):
        if path is not None and not path.is_file():
            raise MissingFileError(f"{path} does not exist, or is not a file")


def read_token(file: Path | None) -> str:
    """The token of a file, or of the environment; empty if there is none."""
    if file is None:
        return WEB_TOKEN.text().strip()
    try:
        text = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise MissingFileError(f"the token file {file} does not exist") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} does not hold a token: it is not text") from None
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror}") from None
    if not text:
        raise UsageError(f"the token file {file} is empty; openssl rand -hex 32 makes a token")
    return text


def served_names(options: WebOptions) -> frozenset[str]:
    """Names in the ``Host`` header that are answered, besides addresses."""
    own = {"localhost", options.host.lower(), *(name.lower() for name in options.names)}
    if not options.is_local:
        own |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(own)
