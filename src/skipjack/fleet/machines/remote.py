"""Skipjack's own programs on other machines, and the selection of those machines."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skipjack.errors import MalformedError, UsageError
from skipjack.fleet.machines.ssh import SshResult, run_everywhere
from skipjack.fleet.model import Registration
from skipjack.processes import python_command
from skipjack.reading import read_json
from skipjack.settings import REMOTE_PYTHON

if TYPE_CHECKING:
    from skipjack.fleet.store import Registrations


# Skipjack's own programs on other machines: a request by standard input, an answer as JSON.
#
# Requests may contain secrets, so they are passed by standard input only. Output of a login shell
# before the answer does no harm: only the last line is read.

NOT_FOUND = 127
_OURS_MISSING = re.compile(r"No module named '?skipjack")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a program of ours, or the reason why there is none."""

    machine: str
    content: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    """The reason of a failure, in one sentence."""
    reached: bool = True
    """Whether the machine itself answered."""
    began: bool = True
    """False if the program surely did not run."""


def interpreter(machine: Registration) -> str:
    """The Python interpreter with Skipjack on a machine."""
    return machine.python or REMOTE_PYTHON.text() or "python3"


def ask_everywhere(
    machines: Sequence[Registration],
    module: str,
    request: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 60.0,
    accept_new: bool = False,
    own: Callable[[Registration], Mapping[str, Any]] = lambda machine: {},
) -> list[Reply]:
    """Run a module of ours on machines; each gets the request with the fields that `own` adds."""

    def command(machine: Registration) -> str:
        return shlex.join(python_command(module, python=interpreter(machine)))

    def stdin(machine: Registration) -> bytes:
        return json.dumps({"format": FORMAT, **(request or {}), **own(machine)}).encode() + b"\n"

    answers = run_everywhere(
        machines, command, stdin=stdin, timeout_s=timeout_s, accept_new=accept_new
    )
    return [parse_reply(machine, answer) for machine, answer in zip(machines, answers, strict=True)]


def parse_reply(machine: Registration, answer: SshResult) -> Reply:
    """Parse the answer of a program of ours."""
    if answer.failure:
        return Reply(machine.name, failure=answer.failure, reached=False, began=answer.connected)
    last = next(reversed(answer.stdout.strip().splitlines()), "")
    try:
        printed = read_json(last)
        version, content = printed["format"].integer(), printed.mapping()
    except MalformedError:
        began = answer.exit_code != NOT_FOUND and not _OURS_MISSING.search(answer.stderr)
        return Reply(machine.name, failure=_why_not(machine, answer), began=began)
    if version != FORMAT:
        why = f"{machine.name} has another version of Skipjack, whose answers this one cannot read"
        return Reply(machine.name, failure=f"{why}; install the same version there")
    return Reply(machine.name, content, failure=str(content.get("failure", "")))


def _why_not(machine: Registration, answer: SshResult) -> str:
    python = interpreter(machine)
    how = f"name another one with skipjack machine add {machine.name} --replace --python PATH ..."
    if answer.exit_code == NOT_FOUND:
        return f"{machine.name} has no {python}; {how}"
    if "nknown option: -P" in answer.stderr:
        return f"the {python} of {machine.name} is older than Python 3.11; {how}"
    if "No module named" in answer.stderr:
        return (
            f"the {python} of {machine.name} lacks this version of Skipjack; install it, or {how}"
        )
    printed = next(reversed(answer.stderr.strip().splitlines()), "there was no output")
    return f"Skipjack on {machine.name} failed with exit code {answer.exit_code}: {printed}"


# Selection of machines: all enabled ones, those with a device, or some by name.


def select_machines(
    registrations: Registrations,
    names: Sequence[str] = (),
    device: str | None = None,
    *,
    disabled_too: bool = False,
) -> list[Registration]:
    """Machines with these names, or all; only those with the device. `UsageError` if none match.

    Disabled machines are left out, and refused if the user named them, unless `disabled_too`.
    """
    found = [registrations.get(name) for name in dict.fromkeys(names)]
    if not names:
        found = registrations.all()
        if not found:
            raise UsageError("no machine is registered yet; register one with skipjack machine add")
    chosen = [one for one in found if device is None or one.device == device]
    if not chosen:
        raise UsageError(f"no machine has {device}; list their devices with skipjack machine list")
    if disabled_too:
        return chosen
    disabled = [one.name for one in chosen if not one.enabled]
    if disabled and (names or len(disabled) == len(chosen)):
        listed = " ".join(disabled)
        verb = "is" if len(disabled) == 1 else "are"
        raise UsageError(
            f"{', '.join(disabled)} {verb} disabled; run skipjack machine enable {listed} first"
        )
    return [one for one in chosen if one.enabled]
