"""What a build is given access to: agents of ssh and secrets, by name and never by value.

The engine mounts them for single steps of a Dockerfile; nothing of them is in the image, in its
history or in a command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from skipjack.errors import UsageError

GIT_CREDENTIALS = "git_credentials"
"""The secret that Skipjack's Dockerfile logs in to MIOpen's repository with."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_STEP = "RUN git init"
"""The step of Skipjack's Dockerfile that gets MIOpen's sources."""


def check_ssh(text: str) -> str:
    """``default``, which is the agent of this terminal, or ``NAME=SOCKET`` or ``NAME=KEY``."""
    name, equals, path = text.partition("=")
    if not _NAME.fullmatch(name) or (equals and not path):
        raise UsageError(
            f"--ssh {text!r} is not an ssh agent; write default, or default=PATH of a socket or a "
            "key"
        )
    if not equals and not os.environ.get("SSH_AUTH_SOCK"):
        raise UsageError(
            f"--ssh {text} needs an ssh agent, and SSH_AUTH_SOCK names none; start one with "
            "ssh-agent and ssh-add, or write default=KEY_FILE"
        )
    for each in path.split(",") if equals else ():
        if not Path(each).exists():
            raise UsageError(f"--ssh {name}: there is no {each}")
    return text


def check_secret(text: str) -> str:
    """``id=NAME,src=FILE`` or ``id=NAME,env=VARIABLE``. The text is not repeated in messages:
    what is no such thing may be the secret itself."""
    said = dict(part.partition("=")[::2] for part in text.split(","))
    file, variable = said.get("src") or said.get("source"), said.get("env")
    known = {"id", "type", "src", "source", "env"}
    if (
        not said.keys() <= known
        or not _NAME.fullmatch(said.get("id", ""))
        or not (file or variable)
    ):
        raise UsageError(
            "--secret wants id=NAME,src=FILE or id=NAME,env=VARIABLE; the secret itself belongs in "
            "no command line"
        )
    if file and not Path(file).is_file():
        raise UsageError(f"--secret {said['id']}: there is no file {file}")
    if variable and variable not in os.environ:
        raise UsageError(f"--secret {said['id']}: the variable {variable} is not set")
    return text


def options(ssh: Sequence[str], secrets: Sequence[str]) -> list[str]:
    """For ``docker build`` and ``podman build``."""
    words = [word for text in ssh for word in ("--ssh", text)]
    return words + [word for text in secrets for word in ("--secret", text)]


def with_mounts(dockerfile: str, ssh: Sequence[str], secrets: Sequence[str]) -> str:
    """Skipjack's Dockerfile, whose step that gets MIOpen has access to all of them.

    They are not in the file itself: a docker without BuildKit refuses such a step.
    """
    mounts = [f"--mount=type=ssh,id={text.partition('=')[0]}" for text in ssh]
    ids = [dict(part.partition("=")[::2] for part in text.split(","))["id"] for text in secrets]
    mounts += [f"--mount=type=secret,id={id}" for id in ids]
    return dockerfile.replace(_STEP, " ".join(("RUN", *mounts, _STEP.removeprefix("RUN "))), 1)
