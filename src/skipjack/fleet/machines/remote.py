"""Skipjack's own programs on other machines: a request by standard input, an answer as JSON.

Requests may hold secrets, so they travel by standard input alone. What a login shell prints before
the answer does no harm: only the last line counts.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skipjack.children import python_command
from skipjack.errors import MalformedError
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.machines.ssh import Answer, run_everywhere
from skipjack.reading import read_json
from skipjack.settings import REMOTE_PYTHON

NOT_FOUND = 127
_OURS_MISSING = re.compile(r"No module named '?skipjack")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """What a program of ours said, or why it did not."""

    machine: str
    content: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    """In one sentence."""
    reached: bool = True
    """Whether the machine itself answered."""
    began: bool = True
    """False if the program cannot have run: nothing was begun there."""


def interpreter(machine: Registration) -> str:
    """The Python that has Skipjack there."""
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
    """Run a module of ours on machines; each gets the request, and what `own` adds for it."""

    def command(machine: Registration) -> str:
        return shlex.join(python_command(module, python=interpreter(machine)))

    def stdin(machine: Registration) -> bytes:
        return json.dumps({"format": FORMAT, **(request or {}), **own(machine)}).encode() + b"\n"

    answers = run_everywhere(
        machines, command, stdin=stdin, timeout_s=timeout_s, accept_new=accept_new
    )
    return [understood(machine, answer) for machine, answer in zip(machines, answers, strict=True)]


def understood(machine: Registration, answer: Answer) -> Reply:
    """The answer of a program of ours."""
    if answer.failure:
        return Reply(machine.name, failure=answer.failure, reached=False, began=answer.connected)
    last = next(reversed(answer.stdout.strip().splitlines()), "")
    try:
        said = read_json(last)
        version, content = said["format"].integer(), said.mapping()
    except MalformedError:
        began = answer.exit_code != NOT_FOUND and not _OURS_MISSING.search(answer.stderr)
        return Reply(machine.name, failure=_why_not(machine, answer), began=began)
    if version != FORMAT:
        why = f"{machine.name} has another Skipjack, whose answers this one does not understand"
        return Reply(machine.name, failure=f"{why}; install the same there")
    return Reply(machine.name, content, failure=str(content.get("failure", "")))


def _why_not(machine: Registration, answer: Answer) -> str:
    python = interpreter(machine)
    how = f"skipjack machine add {machine.name} --replace --python PATH ... names another one"
    if answer.exit_code == NOT_FOUND:
        return f"there is no {python} on {machine.name}; {how}"
    if "nknown option: -P" in answer.stderr:
        return f"the {python} of {machine.name} is older than Python 3.11; {how}"
    if "No module named" in answer.stderr:
        return f"the {python} of {machine.name} has no Skipjack like this one; install it, or {how}"
    said = next(reversed(answer.stderr.strip().splitlines()), "nothing was said")
    return f"Skipjack on {machine.name} failed with exit code {answer.exit_code}: {said}"
