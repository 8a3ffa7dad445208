"""Docker or podman: finding it, calling it, and its error messages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skipjack.errors import SkipjackError, UsageError
from skipjack.settings import CONTAINER_ENGINE

VARIABLE = CONTAINER_ENGINE.name
"""Variable with docker or podman, by name or path, instead of the first one found."""
ENGINES = ("docker", "podman")
CALL_S = 120.0
"""Timeout for commands that transfer no data."""

EngineName = Literal["docker", "podman"]

_CONTROLLERS = frozenset({"cpuset", "memory"})
_CHATTER = ("run 'docker", "see 'docker", "see 'podman", "deprecated:", "install the buildx")
_PREFIXES = ("docker: ", "Error response from daemon: ", "Error: ", "error: ")


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """A program that runs containers."""

    name: EngineName
    """Which options it takes: some programs called docker are podman."""
    program: str
    rootless: bool = False
    """Whether it runs as this user, whose ids in a container differ from those outside."""
    controllers: frozenset[str] = _CONTROLLERS
    """Limits that it can set on containers: ``cpuset`` and ``memory``."""

    def call(
        self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = CALL_S
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it and capture its output; secrets are passed by `stdin`."""
        try:
            return subprocess.run(
                [self.program, *arguments],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SkipjackError(
                f"{self.program} {arguments[0]} did not finish within {timeout_s:g} s; "
                f"check that {self.program} info works"
            ) from None
        except OSError as error:
            raise SkipjackError(f"{self.program} cannot be started: {error.strerror}") from None

    def show(
        self,
        arguments: Sequence[str],
        *,
        quiet_stdout: bool = False,
        more_env: Mapping[str, str] | None = None,
    ) -> int:
        """Run it with its output on our terminal; returns the exit code."""
        try:
            return subprocess.run(
                [self.program, *arguments],
                stdin=subprocess.DEVNULL,
                # With --json, standard output is reserved for one object.
                stdout=2 if quiet_stdout else None,
                env={**os.environ, **(more_env or {})},
                check=False,
            ).returncode
        except OSError as error:
            raise SkipjackError(f"{self.program} cannot be started: {error.strerror}") from None


def find_engine() -> ContainerEngine:
    """The engine that the user named, or docker, or podman. The daemon is not contacted yet."""
    wish = CONTAINER_ENGINE.text()
    names = (wish,) if wish else ENGINES
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None and wish:
        raise UsageError(
            f"{VARIABLE} is {wish!r}, which is not a program here; write docker, podman or a path"
        )
    if program is None:
        raise UsageError(
            "neither docker nor podman is installed on this machine; install one of them, or set "
            f"{VARIABLE} to the path of another engine"
        )
    engine = ContainerEngine("docker", program)
    printed = engine.call(["--version"]).stdout.lower()
    name: EngineName = (
        "podman" if b"podman" in printed or "podman" in Path(program).name else "docker"
    )
    return ContainerEngine(name, program)


def ready_engine() -> ContainerEngine:
    """The engine with its capabilities; the error has its message if its daemon is not running."""
    engine = find_engine()
    if engine.name == "podman":
        rootless = os.getuid() != 0
        controllers = _delegated(os.getuid()) if rootless else _CONTROLLERS
        return ContainerEngine("podman", engine.program, rootless, controllers)
    asked = engine.call(["info", "--format", "{{json .SecurityOptions}}"])
    if asked.returncode:
        raise SkipjackError(f"docker does not answer: {complaint(asked.stderr)}")
    return ContainerEngine("docker", engine.program, b"name=rootless" in asked.stdout)


def _delegated(uid: int, cgroups: Path = Path("/sys/fs/cgroup")) -> frozenset[str]:
    """Limits that a user may set: systemd often reserves ``cpuset`` for root."""
    place = cgroups / f"user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
    try:
        return _CONTROLLERS & frozenset(place.read_text().split())
    except OSError:
        return frozenset()


def informative_lines(lines: Sequence[str]) -> list[str]:
    """Informative lines of an error output, without standard hints."""
    found = [line.strip() for line in lines]
    return [line for line in found if line and not line.lower().startswith(_CHATTER)]


def complaint(stderr: bytes | str, instead: str = "it gives no reason") -> str:
    """The last line of an error output, for a message of ours."""
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr
    lines = informative_lines(text.splitlines())
    last = lines[-1] if lines else instead
    for prefix in _PREFIXES:
        last = last.removeprefix(prefix)
    return last
