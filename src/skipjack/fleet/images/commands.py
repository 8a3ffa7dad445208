"""Command lines for docker and podman, as lists of words. Nothing is run here.

No value of a secret is ever among the words: variables are passed on by name, passwords by standard
input. No container is privileged.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from skipjack.fleet.images import build_access
from skipjack.fleet.images.container_engine import ContainerEngine
from skipjack.fleet.images.gpus import GpuRef, pass_through

LABEL = "skipjack"
"""Every container of ours has it: ``docker ps --filter label=skipjack`` lists them."""
VERSION_LABEL = "skipjack.version"
"""Images that were built by us say what they hold."""
STOP_S = 10


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file that is at the same place inside."""

    path: str
    read_only: bool = False

    def option(self) -> str:
        """The value of ``--mount``, which engines read as a line of CSV."""
        fields = ["type=bind", f"source={self.path}", f"target={self.path}"]
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(fields + ["readonly"] * self.read_only)
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class WorkerContainer:
    """A container for one worker: its pipes are ours, and it sees what it works on alone."""

    image: str
    name: str
    user: str
    """As ``1000:1000``: files that it writes belong to who started it."""
    env_names: tuple[str, ...] = ()
    """Variables that it is given with our values."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Those with values that differ from ours; these can be read by anybody here."""
    mounts: tuple[Mount, ...] = ()
    cores: tuple[int, ...] = ()
    gpu: GpuRef | None = None
    memory_bytes: int = 0
    """More than this ends it, and nobody else; 0 for no limit."""


def worker_container(
    engine: ContainerEngine, container: WorkerContainer, command: Sequence[str]
) -> list[str]:
    """Start a worker: ``docker run --rm -i --init ... IMAGE python3 -m skipjack.fleet.worker``."""
    line = [engine.program, "run", "--rm", "--interactive", "--init", "--pull", "never"]
    line += ["--name", container.name, "--label", f"{LABEL}=worker"]
    # Frames of tasks and machine code are no log.
    line += ["--log-driver", "none", "--network", "none", "--ipc", "private", "--workdir", "/"]
    line += _as_user(engine.name, container.user, engine.rootless)
    line += ["--ulimit", "core=0"]
    if container.memory_bytes and "memory" in engine.controllers:
        limit = f"{container.memory_bytes}b"
        line += ["--memory", limit, "--memory-swap", limit]
    if container.cores and "cpuset" in engine.controllers:
        line += ["--cpuset-cpus", ",".join(map(str, container.cores))]
    if container.gpu is not None:
        if not engine.rootless:
            line += ["--ulimit", "memlock=-1"]
        line += pass_through(engine.name, container.gpu, rootless=engine.rootless)
    line += _surroundings(container.mounts, container.env_names, container.env)
    return [*line, "--entrypoint", command[0], container.image, *command[1:]]


def node_container(
    engine_name: str,
    image: str,
    gpu: GpuRef | None,
    name: str,
    command: Sequence[str],
    env_names: Sequence[str] = (),
    mounts: Sequence[Mount] = (),
    *,
    user: str = "",
    env: Mapping[str, str] | None = None,
    rootless: bool = False,
) -> list[str]:
    """Start a container that stays, with one GPU of the machine or none, as a node of a cluster.

    It shares the machine's network and shared memory, as Ray wants it. `stop_container` ends it; so
    does the end of `command`.
    """
    line = [engine_name, "run", "--detach", "--rm", "--init", "--pull", "never"]
    line += ["--name", name, "--label", f"{LABEL}=node", "--network", "host", "--ipc", "host"]
    kind = "podman" if PurePosixPath(engine_name).name == "podman" else "docker"
    line += _as_user(kind, user, rootless)
    line += ["--ulimit", "core=0"]
    if gpu is not None:
        line += pass_through(kind, gpu, rootless=rootless)
    line += _surroundings(mounts, env_names, env or {})
    return [*line, "--entrypoint", command[0], image, *command[1:]]


def stop_container(engine_name: str, name: str, seconds: int = STOP_S) -> list[str]:
    """Ask a container to end, and end it after so many seconds; it is removed then."""
    return [engine_name, "stop", "-t", str(seconds), name]


def kill_container(engine_name: str, name: str) -> list[str]:
    """End a container now, also one that was made and not started yet."""
    return [engine_name, "rm", "--force", name]


def _as_user(kind: str, user: str, rootless: bool) -> list[str]:
    options = ["--security-opt", "no-new-privileges"]
    # Mounted directories keep the label that they have outside.
    options += ["--security-opt", "label=disable"]
    if kind == "podman" and rootless:
        return ["--userns", "keep-id", *(["--user", user] if user else []), *options]
    if kind == "docker" and rootless:
        # Who is root inside is this user outside; any other number would be nobody.
        return options
    return [*(["--user", user] if user else []), *options]


def _surroundings(
    mounts: Sequence[Mount], env_names: Sequence[str], env: Mapping[str, str]
) -> list[str]:
    line = [word for mount in mounts for word in ("--mount", mount.option())]
    line += [word for name in env_names for word in ("--env", name)]
    return line + [word for name, text in env.items() for word in ("--env", f"{name}={text}")]


# Images


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an image is built of; checked by `images.building`."""

    tag: str
    branch: str = "develop"
    rocm_version: str = ""
    repository: str = ""
    """Where MIOpen's sources come from; empty: as the Dockerfile says."""
    build_arguments: tuple[str, ...] = ()
    no_cache: bool = False
    ssh: tuple[str, ...] = ()
    """Agents that the build may use, as ``default``."""
    secrets: tuple[str, ...] = ()
    """Where secrets of the build are, as ``id=git_credentials,src=FILE``; never their values."""


def build_image(recipe: Recipe, dockerfile: str, context: str, version: str) -> list[str]:
    """Build an image; `version` is ours."""
    given = [f"MIOPEN_BRANCH={recipe.branch}"]
    given += [f"ROCM_VERSION={recipe.rocm_version}"] if recipe.rocm_version else []
    given += [f"MIOPEN_REPOSITORY={recipe.repository}"] if recipe.repository else []
    words = [word for text in (*given, *recipe.build_arguments) for word in ("--build-arg", text)]
    line = ["build", "--tag", recipe.tag, "--file", dockerfile, *words]
    line += ["--label", f"{VERSION_LABEL}={version}"]
    line += build_access.options(recipe.ssh, recipe.secrets)
    return [*line, *(["--no-cache"] if recipe.no_cache else []), context]


def tag_image(image: str, new: str) -> list[str]:
    """Give an image another name."""
    return ["tag", image, new]


def push_image(image: str) -> list[str]:
    """Send an image to its registry."""
    return ["push", image]


def pull_image(image: str) -> list[str]:
    """Get an image from its registry."""
    return ["pull", image]


def log_in(user: str, registry: str) -> list[str]:
    """Log in to a registry; the password comes by standard input."""
    return ["login", "--username", user, "--password-stdin", *([registry] if registry else [])]


def inspect_image(image: str) -> list[str]:
    """All about an image, as JSON."""
    return ["image", "inspect", image]


def list_images(image: str = "") -> list[str]:
    """Names and ids of images: those of one name, or all that we built."""
    which = [image] if image else ["--filter", f"label={VERSION_LABEL}"]
    form = "{{.Repository}}:{{.Tag}} {{.ID}}"
    return ["image", "ls", "--no-trunc", "--format", form, *which]
