"""Images on the machines of a fleet: the same command of docker or podman on all, over ssh."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.errors import SkipjackError
from skipjack.fleet.images import commands
from skipjack.fleet.images.container_engine import ContainerEngine, complaint
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.machines.ssh import Answer, Line, run_everywhere

PULL_S = 3600.0
"""Images are tens of gigabytes."""
ASK_S = 120.0
HERE = "here"
"""How this machine is called beside the registered ones, whose names may be the same as its own."""
_CHOOSE = (
    'engine=${SKIPJACK_CONTAINER_ENGINE:-}; if [ -z "$engine" ]; then '
    "for one in docker podman; do "
    'if command -v "$one" >/dev/null 2>&1; then engine=$one; break; fi; done; fi; '
    'if [ -z "$engine" ]; then echo "neither docker nor podman is installed" >&2; exit 127; fi; '
    'exec "$engine" "$@"'
)
"""Machines need not have the same engine; words come as arguments, never as text of the script."""

Observer = Callable[[Line], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it on one machine."""

    machine: str
    failure: str = ""
    """One sentence; empty if all went well."""
    stdout: str = ""


def remote_command(arguments: Sequence[str]) -> str:
    """A line for a machine's shell that gives these words to its container engine."""
    return shlex.join(["sh", "-c", _CHOOSE, "skipjack", *arguments])


def everywhere(
    machines: Sequence[Registration],
    arguments: Sequence[str],
    *,
    secret: str = "",
    timeout_s: float = ASK_S,
    observer: Observer | None = None,
) -> list[Result]:
    """Run a command of the engine on all machines at once; a secret goes by standard input.

    What a machine answers never holds the secret, whatever its engine prints.
    """
    answers = run_everywhere(
        machines,
        remote_command(arguments),
        stdin=f"{secret}\n".encode() if secret else b"",
        timeout_s=timeout_s,
        observer=None if secret else observer,
    )
    return [_result(answer, _verb(arguments), secret) for answer in answers]


def here(engine: ContainerEngine, arguments: Sequence[str], *, secret: str = "") -> Result:
    """The same on this machine."""
    done = engine.call(arguments, stdin=f"{secret}\n".encode() if secret else b"", timeout_s=PULL_S)
    answer = Answer(
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
) -> list[Result]:
    """Get an image on all machines, and here with an `engine`; then give it another `name` there.

    A machine that fails holds nobody up.
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
class Present:
    """An image that a machine has."""

    machine: str
    image: str
    id: str


def present(result: Result) -> list[Present]:
    """Read a machine's list of images; lines that say something else are left out."""
    found = []
    for line in result.stdout.splitlines():
        image, _, id = line.strip().rpartition(" ")
        if image and id.removeprefix("sha256:").isalnum():
            digest = id.removeprefix("sha256:")
            # Podman says where images live that were never anywhere else.
            plain = image.removeprefix("localhost/").removesuffix(":latest")
            found.append(Present(result.machine, plain, f"sha256:{digest}"))
    return found


def check(results: Sequence[Result], what: str) -> None:
    """Raise one sentence that names every machine that failed."""
    failed = [result for result in results if result.failure]
    if failed and len(results) == 1:
        raise SkipjackError(f"{what} failed: {failed[0].failure}")
    if failed:
        reasons = "; ".join(f"{result.machine}: {result.failure}" for result in failed)
        share = f"{len(failed)} of {len(results)} machines"
        raise SkipjackError(f"{what} failed on {share}: {reasons}")


def _verb(arguments: Sequence[str]) -> str:
    return " ".join(arguments[: 2 if arguments[0] == "image" else 1])


def _result(answer: Answer, verb: str, secret: str) -> Result:
    def safe(text: str) -> str:
        return text.replace(secret, "***") if secret else text

    failure = answer.failure
    if not failure and answer.exit_code:
        words = safe(complaint(answer.stderr or answer.stdout))
        failure = f"{verb} ended with exit code {answer.exit_code}: {words}"
    return Result(answer.machine, safe(failure), safe(answer.stdout))
