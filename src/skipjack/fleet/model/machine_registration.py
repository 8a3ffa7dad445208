"""The registration of a machine: how to reach it, and which devices it has."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from skipjack.core import parse_device_name
from skipjack.errors import UsageError

LONGEST_NAME = 64
"""The same limit as for names of machines with workers, which are the same names."""
MOST_GPUS = 1024
_LONGEST = 255
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9_:.\[][A-Za-z0-9_.:%\]-]*")
_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:]+):(\d+)")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@\\$-]*")


@dataclass(frozen=True, slots=True)
class Registration:
    """A machine as the user registered it. There is no password: ssh uses keys and its agent.

    Values that ssh could take for an option, or a shell for a command, are refused when the object
    is made, so that a record from a shared database is as safe as one that was typed.
    """

    name: str
    """Its workers use the same name."""
    host: str
    """A host name, an address, or an alias in the user's ssh configuration."""
    port: int = 0
    """Port of its sshd; 0: as configured for ssh."""
    user: str = ""
    """Login name; empty: as configured for ssh."""
    device: str = ""
    """The device that is measured there, such as ``gfx908/120``; empty if unknown."""
    gpus: int = 0
    """Number of these GPUs; 0 for a machine that measures on its CPU, or only builds."""
    enabled: bool = True
    remarks: str = ""
    python: str = ""
    """The interpreter with Skipjack there; empty: ``python3``."""
    disabled_why: str = ""
    """Who disabled it and why; set by the store, and ignored when a machine is added."""
    aborted: bool = False
    """Whether it was aborted until it is resumed, even before it was ever seen."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_host(self.host)
        if not 0 <= self.port <= 65535:
            raise UsageError(
                f"port {self.port} of {self.name} is out of range; write a port from 1 to 65535"
            )
        _check_user(self.name, self.user)
        if self.device:
            parse_device_name(self.device)
        if not 0 <= self.gpus <= MOST_GPUS:
            raise UsageError(
                f"{self.gpus} GPUs of {self.name} are out of range; write 0 to {MOST_GPUS}"
            )
        for what, text in (("remarks", self.remarks), ("python", self.python)):
            if len(text) > _LONGEST or not (text.isprintable() or not text):
                raise UsageError(
                    f"the {what} of {self.name} must be one line of at most {_LONGEST} characters"
                )
        if self.python.startswith("-"):
            raise UsageError(
                f"{self.python!r} is not an interpreter; write its path on {self.name}"
            )

    @property
    def place(self) -> str:
        """Name and address for messages: ``gpu7 (tuner@10.0.0.7 port 22)``."""
        user = f"{self.user}@" if self.user else ""
        return f"{self.name} ({user}{self.address})"

    @property
    def address(self) -> str:
        """Host, and port if one is set."""
        return f"{self.host} port {self.port}" if self.port else self.host


def _check_name(name: str) -> None:
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise UsageError(
            f"a machine cannot be called {name!r}; write at most {LONGEST_NAME} letters, digits, "
            "dots, dashes and underscores, starting with a letter or digit"
        )


def _check_host(host: str) -> None:
    if "://" in host:
        raise UsageError(
            f"a host is a name or an address, and does not begin with {host.partition('://')[0]}"
            "://; write --host HOST, and --user and --port if ssh needs them"
        )
    if "@" in host:
        user, _, address = host.rpartition("@")
        # Text after a colon may be a password, which is not repeated.
        if ":" in user:
            user = user.partition(":")[0]
            raise UsageError(
                f"a host is written without a password: --host {address} --user {user}; Skipjack "
                "stores none, use a key or the ssh agent"
            )
        raise UsageError(f"the user is a separate option: write --host {address} --user {user}")
    if len(host) > _LONGEST or not _HOST.fullmatch(host):
        raise _no_host(host)
    if ":" in host and not _is_ipv6(host):
        parts = _WITH_PORT.fullmatch(host)
        if parts is not None:
            raise UsageError(
                f"the port is a separate option: write --host {parts[1]} --port {parts[2]}"
            )
        raise UsageError(f"{host!r} is not a host; only IPv6 addresses such as fe80::7 have colons")
    bare = host.removeprefix("[").removesuffix("]")
    if bare != host and not (host == f"[{bare}]" and _is_ipv6(host)):
        raise _no_host(host)


def _no_host(host: str) -> UsageError:
    return UsageError(
        f"{host!r} is not a host; write a name or an address, as 10.0.0.7 or gpu7.example.org"
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
            f"the user of {name} contains a colon; Skipjack stores no passwords, use a key or the "
            "ssh agent"
        )
    if user and (len(user) > _LONGEST or not _USER.fullmatch(user)):
        raise UsageError(f"{user!r} cannot be the user of {name}; write a login name")
