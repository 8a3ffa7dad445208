"""Command lines for docker and podman, as lists of arguments. Nothing is run here."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from skipjack.errors import UsageError
from skipjack.fleet.images.container_engine import ContainerEngine
from skipjack.fleet.images.gpus import GpuRef, pass_through

# Access of a build to ssh agents and secrets, by name and never by value.
#
# The engine mounts them for single steps of a Dockerfile. They appear neither in the image nor in
# its history nor in a command line.

GIT_CREDENTIALS = "git_credentials"
"""The secret with which Skipjack's Dockerfile logs in to MIOpen's repository."""
_ACCESS_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_STEP = "RUN git init"
"""The step of Skipjack's Dockerfile that fetches MIOpen's sources."""


def check_ssh(text: str) -> str:
    """Check ``default``, the agent of this terminal, or ``NAME=SOCKET`` or ``NAME=KEY``."""
    name, equals, path = text.partition("=")
    if not _ACCESS_NAME.fullmatch(name) or (equals and not path):
        raise UsageError(
            f"--ssh {text!r} is not an ssh agent; write default, or default=PATH of a socket or a "
            "key"
        )
    if not equals and not os.environ.get("SSH_AUTH_SOCK"):
        raise UsageError(
            f"--ssh {text} needs an ssh agent, but SSH_AUTH_SOCK is not set; start one with "
            "ssh-agent and ssh-add, or write default=KEY_FILE"
        )
    for each in path.split(",") if equals else ():
        if not Path(each).exists():
            raise UsageError(f"--ssh {name}: {each} does not exist")
    return text


def check_secret(text: str) -> str:
    """Check ``id=NAME,src=FILE`` or ``id=NAME,env=VARIABLE``. Messages do not repeat the text,
    which may be the secret itself."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    file, variable = fields.get("src") or fields.get("source"), fields.get("env")
    known = {"id", "type", "src", "source", "env"}
    if (
        not fields.keys() <= known
        or not _ACCESS_NAME.fullmatch(fields.get("id", ""))
        or not (file or variable)
    ):
        raise UsageError(
            "--secret needs id=NAME,src=FILE or id=NAME,env=VARIABLE; do not write the secret "
            "itself in a command line"
        )
    if file and not Path(file).is_file():
        raise UsageError(f"--secret {fields['id']}: the file {file} does not exist")
    if variable and variable not in os.environ:
        raise UsageError(f"--secret {fields['id']}: the variable {variable} is not set")
    return text


def access_options(ssh: Sequence[str], secrets: Sequence[str]) -> list[str]:
    """Options of ``docker build`` and ``podman build``."""
    words = [word for text in ssh for word in ("--ssh", text)]
    return words + [word for text in secrets for word in ("--secret", text)]


def with_mounts(dockerfile: str, ssh: Sequence[str], secrets: Sequence[str]) -> str:
    """Skipjack's Dockerfile with access to all of them in the step that fetches MIOpen.

    The file itself has no mounts, because a docker without BuildKit refuses such a step.
    """
    mounts = [f"--mount=type=ssh,id={text.partition('=')[0]}" for text in ssh]
    ids = [dict(part.partition("=")[::2] for part in text.split(","))["id"] for text in secrets]
    mounts += [f"--mount=type=secret,id={id}" for id in ids]
    return dockerfile.replace(_STEP, " ".join(("RUN", *mounts, _STEP.removeprefix("RUN "))), 1)


# Command lines for docker and podman, as lists of arguments. Nothing is run here.
#
# Arguments never hold secrets: variables are passed by name, and passwords by standard input. No
# container is privileged.

LABEL = "skipjack"
"""The label of all our containers: ``docker ps --filter label=skipjack`` lists them."""
VERSION_LABEL = "skipjack.version"
"""The label of our images with their version of Skipjack."""
STOP_S = 10


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file that has the same path in the container."""

    path: str
    read_only: bool = False

    def option(self) -> str:
        """The value of ``--mount``, which engines parse as a line of CSV."""
        fields = ["type=bind", f"source={self.path}", f"target={self.path}"]
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(fields + ["readonly"] * self.read_only)
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class WorkerContainer:
    """A container for one worker, connected by pipes, with only its own cores or GPU."""

    image: str
    name: str
    user: str
    """Such as ``1000:1000``, so that files it writes belong to the user who started it."""
    env_names: tuple[str, ...] = ()
    """Variables passed with their values in this process."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables with other values; all users of this machine can read these."""
    mounts: tuple[Mount, ...] = ()
    cores: tuple[int, ...] = ()
    gpu: GpuRef | None = None
    memory_bytes: int = 0
    """Memory limit, above which it is killed; 0 for no limit."""


def worker_container(
    engine: ContainerEngine, container: WorkerContainer, command: Sequence[str]
) -> list[str]:
    """Start a worker: ``docker run --rm -i ... IMAGE python3 -m skipjack.fleet.work.worker``."""
    line = [engine.program, "run", "--rm", "--interactive", "--init", "--pull", "never"]
    line += ["--name", container.name, "--label", f"{LABEL}=worker"]
    # Its output has frames with tasks and machine code, which must not be logged.
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
    line += _mounts_and_variables(container.mounts, container.env_names, container.env)
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
    """Start a detached container with one GPU of the machine or none, as a node of a cluster.

    It uses the machine's network and shared memory, as Ray requires. It ends with `stop_container`
    or when `command` ends.
    """
    line = [engine_name, "run", "--detach", "--rm", "--init", "--pull", "never"]
    line += ["--name", name, "--label", f"{LABEL}=node", "--network", "host", "--ipc", "host"]
    kind = "podman" if PurePosixPath(engine_name).name == "podman" else "docker"
    line += _as_user(kind, user, rootless)
    line += ["--ulimit", "core=0"]
    if gpu is not None:
        line += pass_through(kind, gpu, rootless=rootless)
    line += _mounts_and_variables(mounts, env_names, env or {})
    return [*line, "--entrypoint", command[0], image, *command[1:]]


def stop_container(engine_name: str, name: str, seconds: int = STOP_S) -> list[str]:
    """Stop a container, by force after this many seconds; it is removed then."""
    return [engine_name, "stop", "-t", str(seconds), name]


def kill_container(engine_name: str, name: str) -> list[str]:
    """Remove a container by force, even if it was created and not started yet."""
    return [engine_name, "rm", "--force", name]


def _as_user(kind: str, user: str, rootless: bool) -> list[str]:
    options = ["--security-opt", "no-new-privileges"]
    # Mounted directories keep their SELinux label.
    options += ["--security-opt", "label=disable"]
    if kind == "podman" and rootless:
        return ["--userns", "keep-id", *(["--user", user] if user else []), *options]
    if kind == "docker" and rootless:
        # Root in the container is this user outside; other ids would map to nobody.
        return options
    return [*(["--user", user] if user else []), *options]


def _mounts_and_variables(
    mounts: Sequence[Mount], env_names: Sequence[str], env: Mapping[str, str]
) -> list[str]:
    line = [word for mount in mounts for word in ("--mount", mount.option())]
    line += [word for name in env_names for word in ("--env", name)]
    return line + [word for name, text in env.items() for word in ("--env", f"{name}={text}")]


# Images


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """The options of an image build; checked when it is built."""

    tag: str
    branch: str = "develop"
    rocm_version: str = ""
    repository: str = ""
    """Repository of MIOpen's sources; empty: the one in the Dockerfile."""
    build_arguments: tuple[str, ...] = ()
    no_cache: bool = False
    ssh: tuple[str, ...] = ()
    """ssh agents for the build, such as ``default``."""
    secrets: tuple[str, ...] = ()
    """Sources of secrets, such as ``id=git_credentials,src=FILE``; never their values."""


def build_image(recipe: ImageRecipe, dockerfile: str, context: str, version: str) -> list[str]:
    """Build an image; `version` is that of this Skipjack."""
    given = [f"MIOPEN_BRANCH={recipe.branch}"]
    given += [f"ROCM_VERSION={recipe.rocm_version}"] if recipe.rocm_version else []
    given += [f"MIOPEN_REPOSITORY={recipe.repository}"] if recipe.repository else []
    words = [word for text in (*given, *recipe.build_arguments) for word in ("--build-arg", text)]
    line = ["build", "--tag", recipe.tag, "--file", dockerfile, *words]
    line += ["--label", f"{VERSION_LABEL}={version}"]
    line += access_options(recipe.ssh, recipe.secrets)
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
    """Log in to a registry; the password is read from standard input."""
    return ["login", "--username", user, "--password-stdin", *([registry] if registry else [])]


def inspect_image(image: str) -> list[str]:
    """Details of an image, as JSON."""
    return ["image", "inspect", image]


def list_images(image: str = "") -> list[str]:
    """Names and ids of images: those with one name, or all that Skipjack built."""
    which = [image] if image else ["--filter", f"label={VERSION_LABEL}"]
    form = "{{.Repository}}:{{.Tag}} {{.ID}}"
    return ["image", "ls", "--no-trunc", "--format", form, *which]
