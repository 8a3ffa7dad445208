"""Images on the machines of a fleet: a command of docker or podman on all of them, over ssh."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.errors import SkipjackError
from skipjack.fleet.images import ContainerEngine, commands, complaint
from skipjack.fleet.machines.ssh import OutputLine, SshResult, run_everywhere
from skipjack.fleet.model import Registration

PULL_S = 3600.0
"""Timeout of pulls: images have tens of gigabytes."""
ASK_S = 120.0
HERE = "here"
"""The name of this machine in results, since a registered machine may have its host name."""
_CHOOSE = (
    'engine=${SKIPJACK_CONTAINER_ENGINE:-}; if [ -z "$engine" ]; then '
    "for one in docker podman; do "
    'if command -v "$one" >/dev/null 2>&1; then engine=$one; break; fi; done; fi; '
    'if [ -z "$engine" ]; then echo "neither docker nor podman is installed" >&2; exit 127; fi; '
    'exec "$engine" "$@"'
)
"""Machines may have different engines; arguments are never part of the script's text."""

Observer = Callable[[OutputLine], None]


@dataclass(frozen=True, slots=True)
class ImageCommandResult:
    """The result of a command on one machine."""

    machine: str
    failure: str = ""
    """One sentence; empty if the command succeeded."""
    stdout: str = ""


def remote_command(arguments: Sequence[str]) -> str:
    """A shell command that runs the machine's container engine with these arguments."""
    return shlex.join(["sh", "-c", _CHOOSE, "skipjack", *arguments])


def everywhere(
    machines: Sequence[Registration],
    arguments: Sequence[str],
    *,
    secret: str = "",
    timeout_s: float = ASK_S,
    observer: Observer | None = None,
) -> list[ImageCommandResult]:
    """Run a command of the engine on all machines in parallel; a secret is passed by stdin.

    The secret is removed from all output.
    """
    answers = run_everywhere(
        machines,
        remote_command(arguments),
        stdin=f"{secret}\n".encode() if secret else b"",
        timeout_s=timeout_s,
        observer=None if secret else observer,
    )
    return [_result(answer, _verb(arguments), secret) for answer in answers]


def here(
    engine: ContainerEngine, arguments: Sequence[str], *, secret: str = ""
) -> ImageCommandResult:
    """Run a command of the engine on this machine."""
    done = engine.call(arguments, stdin=f"{secret}\n".encode() if secret else b"", timeout_s=PULL_S)
    answer = SshResult(
        HERE,
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
        0.0,
    )
    return _result(answer, _verb(arguments), secret)


def pull(
    machines: Sequence[Registration],
    engine: ContainerEngine | None,
    image: str,
    name: str = "",
    observer: Observer | None = None,
) -> list[ImageCommandResult]:
    """Pull an image on all machines, and here with an `engine`; then add another `name` there.

    A failure on one machine does not affect others.
    """
    results = [here(engine, commands.pull_image(image))] if engine else []
    results += everywhere(machines, commands.pull_image(image), timeout_s=PULL_S, observer=observer)
    if not name or name == image:
        return results
    good = {result.machine for result in results if not result.failure}
    tag = commands.tag_image(image, name)
    named = [here(engine, tag)] if engine and HERE in good else []
    named += everywhere([one for one in machines if one.name in good], tag)
    later = {result.machine: result for result in named}
    return [later.get(result.machine, result) for result in results]


@dataclass(frozen=True, slots=True)
class PresentImage:
    """An image on a machine."""

    machine: str
    image: str
    id: str


def present(result: ImageCommandResult) -> list[PresentImage]:
    """Parse a machine's list of images; other lines are ignored."""
    found = []
    for line in result.stdout.splitlines():
        image, _, id = line.strip().rpartition(" ")
        if image and id.removeprefix("sha256:").isalnum():
            digest = id.removeprefix("sha256:")
            # Podman adds a prefix to images without a registry.
            plain = image.removeprefix("localhost/").removesuffix(":latest")
            found.append(PresentImage(result.machine, plain, f"sha256:{digest}"))
    return found


def check(results: Sequence[ImageCommandResult], what: str) -> None:
    """Raise one error that names every machine that failed."""
    failed = [result for result in results if result.failure]
    if failed and len(results) == 1:
        raise SkipjackError(f"{what} failed: {failed[0].failure}")
    if failed:
        reasons = "; ".join(f"{result.machine}: {result.failure}" for result in failed)
        share = f"{len(failed)} of {len(results)} machines"
        raise SkipjackError(f"{what} failed on {share}: {reasons}")


def _verb(arguments: Sequence[str]) -> str:
    return " ".join(arguments[: 2 if arguments[0] == "image" else 1])


def _result(answer: SshResult, verb: str, secret: str) -> ImageCommandResult:
    def safe(text: str) -> str:
        return text.replace(secret, "***") if secret else text

    failure = answer.failure
    if not failure and answer.exit_code:
        words = safe(complaint(answer.stderr or answer.stdout))
        failure = f"{verb} ended with exit code {answer.exit_code}: {words}"
    return ImageCommandResult(answer.machine, safe(failure), safe(answer.stdout))
