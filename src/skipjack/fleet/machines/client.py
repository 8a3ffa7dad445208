"""OpenSSH's client: the command line that reaches a machine, and why it did not.

The client is the user's own, with its configuration, keys, agent and known hosts. It never asks
anything. A machine whose key nobody has confirmed yet is refused unless the caller accepts new
keys; one whose key changed is refused always.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.fleet.machines.registration import Registration
from skipjack.settings import SSH_CONFIG

CONNECT_S = 10.0
"""A machine that does not say who it is within this time is not there."""
SSH_FAILED = 255
"""What ssh exits with if it failed itself; a command may do so too."""

_ALIVE_S = 15
_ALIVE_TIMES = 4


def command_line(
    machine: Registration, command: str, *, log: Path, connect_s: float, accept_new: bool = False
) -> list[str]:
    """The program and its arguments; ssh's own complaints go to `log`, apart from the command's."""
    if not command.strip() or "\0" in command:
        raise UsageError("the command to run on the machines is empty; write one, as uptime")
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(math.ceil(connect_s)),
        "ConnectionAttempts": "1",
        "ServerAliveInterval": str(_ALIVE_S),
        "ServerAliveCountMax": str(_ALIVE_TIMES),
        # Who shares connections keeps them; none is left behind that holds our pipes open.
        "ControlMaster": "no",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "RequestTTY": "no",
        "LogLevel": "ERROR",  # and no banner, on as many machines as there are
    }
    if accept_new:
        options["StrictHostKeyChecking"] = "accept-new"
    line = [_program(), "-T", "-E", str(log)]
    if machine.port:  # else an alias of the configuration may have its own
        line += ["-p", str(machine.port)]
    if config := SSH_CONFIG.text():
        line += ["-F", config]
    if machine.user:
        line += ["-l", machine.user]
    for name, value in options.items():
        line += ["-o", f"{name}={value}"]
    # After the dashes nothing is an option, neither the host nor the command.
    return [*line, "--", machine.host.strip("[]"), command]


def _program() -> str:
    found = shutil.which("ssh")
    if found is None:
        raise UsageError(
            "there is no ssh on this machine; install OpenSSH's client, as the package "
            "openssh-client of Debian"
        )
    return found


def failure(machine: Registration, log: str, connect_s: float) -> str:
    """Why ssh gave up, in a sentence; `log` is what it complained about."""
    where = machine.place
    if "HOST IDENTIFICATION HAS CHANGED" in log:
        return _changed(machine, log)
    if "Host key verification failed" in log:
        return (
            f"{where} is not known yet: nobody confirmed its host key; skipjack machine check "
            f"{machine.name} --accept-new-keys trusts the key it shows now"
        )
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for pattern, sentence in _SENTENCES:
        said = next((line for line in lines if re.search(pattern, line)), None)
        if said is not None:
            about = {"host": machine.host, "seconds": connect_s, "said": said}
            return f"{where} {sentence.format(**about)}"
    if lines:
        return f"{where} cannot be reached: {lines[-1]}"
    return (
        f"the connection to {where} ended before its command did, or the command itself exited "
        f"with {SSH_FAILED}"
    )


def never_got_in(log: str) -> bool:
    """Whether ssh gave up before it could begin anything there; if in doubt, it did not."""
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
        "cannot be reached: no host is known as {host}; check its name or write an address",
    ),
    (
        r"Permission denied",
        "lets nobody in with the keys at hand: add yours to its authorized_keys, or to the agent "
        "by ssh-add",
    ),
    (
        r"Too many authentication failures",
        "was offered too many keys: name the right one by IdentityFile and IdentitiesOnly in your "
        "ssh configuration",
    ),
    (r"Connection refused", "refuses connections: is sshd running there, and is the port right?"),
    (
        r"timed out|Timeout|Operation timed out",
        "did not answer within {seconds:g} s: is it on, and is the port right?",
    ),
    (r"No route to host|Network is unreachable", "cannot be reached: there is no way to {host}"),
    (
        r"no matching|Unable to negotiate",
        "and this ssh have no cipher or key type in common: update the older of them",
    ),
    (
        r"Bad configuration option|Bad owner or permissions|Can't open user config",
        "was not tried, since ssh does not take its configuration: {said}",
    ),
    (
        r"kex_exchange_identification|banner exchange|Connection (closed|reset) by",
        "hung up before it said who it is: is that port an sshd, and does it let this host in?",
    ),
)


def _changed(machine: Registration, log: str) -> str:
    kind = re.search(r"fingerprint for the (\S+) key .*? is\s+(\S+?)\.?\s", log, re.DOTALL)
    now = f" (now {kind[1]} {kind[2]})" if kind else ""
    known = re.search(r"(?:Offending|Matching) .*?key in (.+):(\d+)", log)
    host = machine.host.strip("[]")
    # ssh says what the key is kept by, which its configuration may have decided.
    said = re.search(r"[Hh]ost key for (\S+) has changed", log)
    entry = said[1] if said else host if machine.port in (0, 22) else f"[{host}]:{machine.port}"
    repair = ["ssh-keygen", *(["-f", known[1]] if known else []), "-R", entry]
    was = f", not that of line {known[2]} of {known[1]}" if known else ""
    return (
        f"the host key of {machine.place} has changed{now}{was}: nothing was sent to it; if it was "
        f"reinstalled, forget the old key by {shlex.join(repair)}, else somebody may listen"
    )
