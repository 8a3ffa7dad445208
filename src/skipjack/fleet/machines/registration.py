"""What is written down about a machine of the fleet: how to reach it, and what it has."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from skipjack.core.device import parse_device_name
from skipjack.errors import UsageError

LONGEST_NAME = 64
"""As long as what a worker may be called, which is the same name."""
MOST_GPUS = 1024
_LONGEST = 255
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9_:.\[][A-Za-z0-9_.:%\]-]*")
_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:]+):(\d+)")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@\\$-]*")


@dataclass(frozen=True, slots=True)
class Registration:
    """A machine as somebody registered it. There is no password: keys and the agent are used.

    Anything that ssh could take for an option, or a shell for a command, is refused when it is
    made, so that a record from a shared database is as harmless as one that was typed.
    """

    name: str
    """Its workers are known by the same name."""
    host: str
    """A name or address, or an alias of the user's ssh configuration."""
    port: int = 0
    """Of its sshd; 0: as ssh decides, by its configuration."""
    user: str = ""
    """Empty: as ssh decides."""
    device: str = ""
    """What can be measured there, as ``gfx908/120``; empty if nobody said."""
    gpus: int = 0
    """How many of that device; 0 for a machine that measures on its CPU, or only builds."""
    enabled: bool = True
    remarks: str = ""
    python: str = ""
    """The interpreter that has Skipjack there; empty: ``python3``."""
    disabled_why: str = ""
    """Who disabled it and why, as the store says; what is added is as it was."""
    aborted: bool = False
    """Told to stop until it is resumed, perhaps before it was ever seen at work."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_host(self.host)
        if not 0 <= self.port <= 65535:
            raise UsageError(f"port {self.port} of {self.name} is none: write one up to 65535")
        _check_user(self.name, self.user)
        if self.device:
            parse_device_name(self.device)
        if not 0 <= self.gpus <= MOST_GPUS:
            raise UsageError(
                f"{self.gpus} GPUs of {self.name} cannot be: write a number from 0 to {MOST_GPUS}"
            )
        for what, text in (("remarks", self.remarks), ("python", self.python)):
            if len(text) > _LONGEST or not (text.isprintable() or not text):
                raise UsageError(
                    f"the {what} of {self.name} must be one line of at most {_LONGEST} characters"
                )
        if self.python.startswith("-"):
            raise UsageError(f"{self.python!r} is no interpreter: write its path on {self.name}")

    @property
    def place(self) -> str:
        """Where it is, for people: ``gpu7 (tuner@10.0.0.7 port 22)``."""
        user = f"{self.user}@" if self.user else ""
        return f"{self.name} ({user}{self.address})"

    @property
    def address(self) -> str:
        """Host and port, if one was said."""
        return f"{self.host} port {self.port}" if self.port else self.host


def _check_name(name: str) -> None:
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise UsageError(
            f"a machine cannot be called {name!r}; write at most {LONGEST_NAME} letters, digits, "
            "dots, dashes and underscores, a letter or digit first"
        )


def _check_host(host: str) -> None:
    if "://" in host:
        raise UsageError(
            f"a host is a name or an address, not one that begins with {host.partition('://')[0]}"
            "://; write --host HOST, and --user and --port if ssh needs them"
        )
    if "@" in host:
        user, _, address = host.rpartition("@")
        # Whatever stands after a colon may be a password: it is not repeated.
        if ":" in user:
            user = user.partition(":")[0]
            raise UsageError(
                f"a host is written without a password: --host {address} --user {user}; Skipjack "
                "stores none, use a key or the ssh agent"
            )
        raise UsageError(f"the user is said apart from the host: --host {address} --user {user}")
    if len(host) > _LONGEST or not _HOST.fullmatch(host):
        raise _no_host(host)
    if ":" in host and not _is_ipv6(host):
        parts = _WITH_PORT.fullmatch(host)
        if parts is not None:
            raise UsageError(
                f"the port is said apart from the host: --host {parts[1]} --port {parts[2]}"
            )
        raise UsageError(f"{host!r} is no host: of colons only IPv6 addresses are made, as fe80::7")
    bare = host.removeprefix("[").removesuffix("]")
    if bare != host and not (host == f"[{bare}]" and _is_ipv6(host)):
        raise _no_host(host)


def _no_host(host: str) -> UsageError:
    return UsageError(
        f"{host!r} is no host; write a name or an address, as 10.0.0.7 or gpu7.example.org"
    )


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _check_user(name: str, user: str) -> None:
    if ":" in user:
        raise UsageError(
            f"the user of {name} has a colon in it; Skipjack stores no password, use a key or the "
            "ssh agent"
        )
    if user and (len(user) > _LONGEST or not _USER.fullmatch(user)):
        raise UsageError(f"{user!r} is no user of {name}; write a login name")
