"""Workers of this machine in containers: each has a container with its own cores or GPU."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import skipjack
from skipjack import plugins
from skipjack.execute import device_locks
from skipjack.fleet.images import commands
from skipjack.fleet.images.commands import Mount, WorkerContainer
from skipjack.fleet.images.container_engine import VARIABLE as ENGINE
from skipjack.fleet.images.container_engine import ContainerEngine, informative_lines, ready_engine
from skipjack.fleet.images.gpus import GpuRef, gpu_here
from skipjack.fleet.images.names import check_image, identity
from skipjack.fleet.model import Slot
from skipjack.native import cpu
from skipjack.processes import SECRETS, python_command
from skipjack.settings import MACHINE, PLUGINS, Settings, machine_name
from skipjack.storage import ensure_directory

log = logging.getLogger(__name__)

PYTHON = "python3"
USER_DIR = "SKIPJACK_USER_DB_PATH"
CONTAINER_FOLDER = "containers"
"""The user directory of workers in containers, inside that of the user. They have no access to its
other files: the store, the fleet's key and the cluster's token."""
HOME = "home"
"""The home directory of workers, where compilers and libraries keep their caches."""
_KEPT_BACK = SECRETS | {
    ENGINE,
    plugins.FOLDERS,  # of this machine; the image has its own modules
}
"""Variables that are not passed to workers in containers."""
_PASSED_ON = ("SKIPJACK_", "MIOPEN_", "TRITON_")
_OWN_MEMORY = 0.9
"""Share of the machine's memory above which a worker is killed."""
_KILLED_WITHIN_S = 20.0


class ContainedWorkers:
    """Makes the containers of one engine's workers; `close` waits until all have ended."""

    def __init__(self, image: str, settings: Settings) -> None:
        """Fails at once without a container engine, or if its daemon has no such image."""
        self.engine = ready_engine()
        self.image = identity(self.engine, check_image(image))
        self._place = place_for_containers(settings.user_dir)
        self._killers: list[subprocess.Popen[bytes]] = []
        if self.image.version and self.image.version != skipjack.__version__:
            log.warning(
                "image %s has Skipjack %s, and this is %s: workers may fail; build a new image "
                "with skipjack image build",
                *(image, self.image.version, skipjack.__version__),
            )

    def launcher(self, slot: Slot, cores: tuple[int, ...] = ()) -> ContainerLauncher:
        """Make the container for the next worker of a slot."""
        gpu = gpu_here(slot.gpu) if slot.gpu and not cores else None
        container = WorkerContainer(
            self.image.name,
            f"skipjack-{slot.name}-{uuid.uuid4().hex[:12]}",
            f"{os.getuid()}:{os.getgid()}",
            env={
                MACHINE.name: machine_name(),
                device_locks.VARIABLE: str(device_locks.directory()),
                # By value: the engine's client needs its own.
                "HOME": str(self._place / HOME),
                USER_DIR: str(self._place),
            },
            mounts=_mounts(self._place),
            cores=cores or _allowed(),
            gpu=gpu,
            memory_bytes=int(cpu.memory_bytes() * _OWN_MEMORY),
        )
        return ContainerLauncher(self.engine, container, self._killers)

    def close(self) -> None:
        """Wait until ended containers are removed."""
        deadline = time.monotonic() + _KILLED_WITHIN_S
        for killer in self._killers:
            try:
                killer.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning(
                    "%s did not end its containers; list them with %s ps --filter label=%s",
                    *(self.engine.name, self.engine.name, commands.LABEL),
                )
                killer.kill()
                killer.wait()
        self._killers.clear()


class ContainerLauncher:
    """One container; see `skipjack.execute.startup.ContainerRunner`."""

    def __init__(
        self,
        engine: ContainerEngine,
        container: WorkerContainer,
        killers: list[subprocess.Popen[bytes]],
    ) -> None:
        self._engine, self._container, self._killers = engine, container, killers

    @property
    def gpu(self) -> GpuRef | None:
        """The GPU in the container."""
        return self._container.gpu

    def command(self, module: str, arguments: Sequence[str], given: Collection[str]) -> list[str]:
        """The engine's command line; variables are passed by name only."""
        own = self._container.env
        ours = (name for name in os.environ if name.startswith(_PASSED_ON))
        passed = sorted({*given, *ours} - _KEPT_BACK - set(own))
        container = replace(self._container, env_names=tuple(passed))
        return commands.worker_container(
            self._engine, container, python_command(module, *arguments, python=PYTHON)
        )

    def words(self, lines: Sequence[str]) -> str:
        """The last informative line: the engine's own errors end with hints."""
        found = informative_lines(lines)
        return found[-1] if found else ""

    def end(self) -> None:
        """End the container: the killed process was only the engine's client."""
        self._killers[:] = [one for one in self._killers if one.poll() is None]
        line = commands.kill_container(self._engine.program, self._container.name)
        # Most have ended by now, which the engine reports as an error.
        with contextlib.suppress(OSError):
            self._killers.append(
                subprocess.Popen(
                    line,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )


def _allowed() -> tuple[int, ...]:
    """The cores of a process that may not use all; the engine's daemon does not know this."""
    usable = tuple(sorted(cpu.usable_cores()))
    return usable if len(usable) < (os.cpu_count() or 1) else ()


def place_for_containers(user_dir: Path) -> Path:
    """Create the user directory of workers in containers, with a home in it."""
    place = ensure_directory(user_dir / CONTAINER_FOLDER)
    ensure_directory(place / HOME)
    return place


def _mounts(place: Path) -> tuple[Mount, ...]:
    """Paths that a worker uses: its user directory, the locks of devices, plug-ins."""
    places = [Mount(str(place)), Mount(str(device_locks.directory()))]
    names = PLUGINS.text().split(os.pathsep)
    files = (str(Path(name).absolute()) for name in names if name.endswith(".py"))
    places += [Mount(file, read_only=True) for file in files if Path(file).is_file()]
    return tuple({place.path: place for place in places}.values())
