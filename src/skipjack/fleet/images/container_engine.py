"""Docker or podman: which of them is here, calling it, and what it says when it fails."""

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
"""Docker or podman by name or path, instead of the first that is found."""
ENGINES = ("docker", "podman")
CALL_S = 120.0
"""Longer than the engine takes for anything that moves no data."""

EngineName = Literal["docker", "podman"]

_CONTROLLERS = frozenset({"cpuset", "memory"})
_CHATTER = ("run 'docker", "see 'docker", "see 'podman", "deprecated:", "install the buildx")
_PREFIXES = ("docker: ", "Error response from daemon: ", "Error: ", "error: ")


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """A program that runs containers."""

    name: EngineName
    """How it wants its options: some programs called docker are podman."""
    program: str
    rootless: bool = False
    """It runs as this user, who has other numbers in a container than outside."""
    controllers: frozenset[str] = _CONTROLLERS
    """What of a container it may limit, of ``cpuset`` and ``memory``."""

    def call(
        self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = CALL_S
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it and keep what it says; secrets go by `stdin`."""
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
                f"{self.program} {arguments[0]} gave no answer within {timeout_s:g} s; "
                f"does {self.program} info answer?"
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
        """Run it with our terminal for its output; gives the exit code."""
        try:
            return subprocess.run(
                [self.program, *arguments],
                stdin=subprocess.DEVNULL,
                # With --json our standard output is for one object.
                stdout=2 if quiet_stdout else None,
                env={**os.environ, **(more_env or {})},
                check=False,
            ).returncode
        except OSError as error:
            raise SkipjackError(f"{self.program} cannot be started: {error.strerror}") from None


def find_engine() -> ContainerEngine:
    """The engine that the user named, or docker, or podman; nothing is asked of a daemon yet."""
    wish = CONTAINER_ENGINE.text()
    names = (wish,) if wish else ENGINES
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None and wish:
        raise UsageError(
            f"{VARIABLE} is {wish!r}, which is no program here; write docker, podman or a path"
        )
    if program is None:
        raise UsageError(
            "there is neither docker nor podman on this machine; install one of them, or name "
            f"yours by {VARIABLE}"
        )
    engine = ContainerEngine("docker", program)
    said = engine.call(["--version"]).stdout.lower()
    name: EngineName = "podman" if b"podman" in said or "podman" in Path(program).name else "docker"
    return ContainerEngine(name, program)


def ready_engine() -> ContainerEngine:
    """The engine, with what it can do; if its daemon does not run, its words are the error's."""
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
    """What a user may limit; systemd often keeps ``cpuset`` for root, and asking for it fails."""
    place = cgroups / f"user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
    try:
        return _CONTROLLERS & frozenset(place.read_text().split())
    except OSError:
        return frozenset()


def telling(lines: Sequence[str]) -> list[str]:
    """Lines of an error output that say something, without what comes with every error."""
    found = [line.strip() for line in lines]
    return [line for line in found if line and not line.lower().startswith(_CHATTER)]


def complaint(stderr: bytes | str, instead: str = "it does not say why") -> str:
    """The last sentence of an error output, for one of ours."""
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr
    lines = telling(text.splitlines())
    last = lines[-1] if lines else instead
    for prefix in _PREFIXES:
        last = last.removeprefix(prefix)
    return last
