"""OpenSSH's client: the command line to reach a machine, and the reasons of failures.

The client is the user's own, with its configuration, keys, agent and known hosts. It never prompts.
A machine with an unknown host key is refused unless the caller accepts new keys; a changed key is
always refused.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.fleet.model import Registration
from skipjack.settings import SSH_CONFIG

CONNECT_S = 10.0
"""Time within which a machine must identify itself."""
SSH_FAILED = 255
"""The exit code of ssh for its own failures; a command may return it too."""

_ALIVE_S = 15
_ALIVE_TIMES = 4


def command_line(
    machine: Registration, command: str, *, log: Path, connect_s: float, accept_new: bool = False
) -> list[str]:
    """The program and its arguments; error messages of ssh itself are written to `log`."""
    if not command.strip() or "\0" in command:
        raise UsageError("the command to run on the machines is empty; write one such as uptime")
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(math.ceil(connect_s)),
        "ConnectionAttempts": "1",
        "ServerAliveInterval": str(_ALIVE_S),
        "ServerAliveCountMax": str(_ALIVE_TIMES),
        # Existing shared connections are used; a new one would hold our pipes open.
        "ControlMaster": "no",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "RequestTTY": "no",
        "LogLevel": "ERROR",  # no banner
    }
    if accept_new:
        options["StrictHostKeyChecking"] = "accept-new"
    line = [_program(), "-T", "-E", str(log)]
    if machine.port:  # otherwise the ssh configuration decides
        line += ["-p", str(machine.port)]
    if config := SSH_CONFIG.text():
        line += ["-F", config]
    if machine.user:
        line += ["-l", machine.user]
    for name, value in options.items():
        line += ["-o", f"{name}={value}"]
    # After the dashes neither the host nor the command can be an option.
    return [*line, "--", machine.host.strip("[]"), command]


def _program() -> str:
    found = shutil.which("ssh")
    if found is None:
        raise UsageError(
            "ssh is not installed on this machine; install OpenSSH's client, for example Debian's "
            "package openssh-client"
        )
    return found


def failure(machine: Registration, log: str, connect_s: float) -> str:
    """The reason why ssh failed, in a sentence; `log` has its error messages."""
    where = machine.place
    if "HOST IDENTIFICATION HAS CHANGED" in log:
        return _changed(machine, log)
    if "Host key verification failed" in log:
        return (
            f"{where} has an unknown host key; to trust the key that it shows now, run "
            f"skipjack machine check {machine.name} --accept-new-keys"
        )
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for pattern, sentence in _SENTENCES:
        printed = next((line for line in lines if re.search(pattern, line)), None)
        if printed is not None:
            about = {"host": machine.host, "seconds": connect_s, "said": printed}
            return f"{where} {sentence.format(**about)}"
    if lines:
        return f"{where} cannot be reached: {lines[-1]}"
    return (
        f"the connection to {where} ended before its command did, or the command itself exited "
        f"with {SSH_FAILED}"
    )


def failed_before_login(log: str) -> bool:
    """Whether ssh surely failed before it could start anything there."""
    return any(re.search(pattern, log) for pattern in _BEFORE_LOGIN)


_BEFORE_LOGIN = (
    *("HOST IDENTIFICATION HAS CHANGED", "Host key verification failed"),
    *("Could not resolve hostname", "connect to host .* port", "during banner exchange"),
    *("Permission denied", "Too many authentication failures", "kex_exchange_identification"),
    *("Unable to negotiate", "Bad configuration option", "Bad owner or permissions"),
    "Can't open user config",
)
_SENTENCES = (
    (
        r"Could not resolve hostname",
        "cannot be reached: the host {host} is unknown; check its name or write an address",
    ),
    (
        r"Permission denied",
        "accepts none of your keys; add your key to its authorized_keys, or to the agent with "
        "ssh-add",
    ),
    (
        r"Too many authentication failures",
        "was offered too many keys; name the right one with IdentityFile and IdentitiesOnly in "
        "your ssh configuration",
    ),
    (
        r"Connection refused",
        "refuses connections; check that sshd is running there and that the port is right",
    ),
    (
        r"timed out|Timeout|Operation timed out",
        "did not answer within {seconds:g} s; check that it is on and that the port is right",
    ),
    (r"No route to host|Network is unreachable", "cannot be reached: there is no route to {host}"),
    (
        r"no matching|Unable to negotiate",
        "and this ssh have no cipher or key type in common; update the older of them",
    ),
    (
        r"Bad configuration option|Bad owner or permissions|Can't open user config",
        "was not tried, because ssh rejects its configuration: {said}",
    ),
    (
        r"kex_exchange_identification|banner exchange|Connection (closed|reset) by",
        "closed the connection before it identified itself; check that the port is that of an "
        "sshd that accepts this host",
    ),
)


def _changed(machine: Registration, log: str) -> str:
    kind = re.search(r"fingerprint for the (\S+) key .*? is\s+(\S+?)\.?\s", log, re.DOTALL)
    now = f" (now {kind[1]} {kind[2]})" if kind else ""
    known = re.search(r"(?:Offending|Matching) .*?key in (.+):(\d+)", log)
    host = machine.host.strip("[]")
    # ssh names the entry of the key, which its configuration may have changed.
    printed = re.search(r"[Hh]ost key for (\S+) has changed", log)
    entry = (
        printed[1] if printed else host if machine.port in (0, 22) else f"[{host}]:{machine.port}"
    )
    repair = ["ssh-keygen", *(["-f", known[1]] if known else []), "-R", entry]
    was = f", not that of line {known[2]} of {known[1]}" if known else ""
    return (
        f"the host key of {machine.place} has changed{now}{was}; nothing was sent to it; if it was "
        f"reinstalled, remove the old key with {shlex.join(repair)}, otherwise the connection may "
        "be intercepted"
    )
