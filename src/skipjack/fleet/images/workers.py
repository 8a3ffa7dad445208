"""Workers of this machine in containers: one for each worker, with its cores or its GPU alone."""

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
from skipjack.children import SECRETS, python_command
from skipjack.execute import device_lock
from skipjack.fleet.engine import Slot
from skipjack.fleet.host import VARIABLE as MACHINE
from skipjack.fleet.host import machine_name
from skipjack.fleet.images import commands
from skipjack.fleet.images.commands import Mount, WorkerContainer
from skipjack.fleet.images.container_engine import VARIABLE as ENGINE
from skipjack.fleet.images.container_engine import ContainerEngine, ready_engine, telling
from skipjack.fleet.images.gpus import GpuRef, gpu_here
from skipjack.fleet.images.identity import identity
from skipjack.fleet.images.names import check_image
from skipjack.native import cpu
from skipjack.settings import PLUGINS, Settings
from skipjack.storage import ensure_directory

log = logging.getLogger(__name__)

PYTHON = "python3"
USER_DIR = "SKIPJACK_USER_DB_PATH"
PLACE = "containers"
"""The user directory of workers in containers, in that of who starts them: of all else in there,
the store, the fleet's key and the cluster's token, they see nothing."""
HOME = "home"
"""Of workers, in their user directory: compilers and libraries keep their caches there."""
_KEPT_BACK = SECRETS | {
    ENGINE,
    plugins.FOLDERS,  # of this machine; in there a module is where the image has it
}
"""Nothing for workers in containers."""
_PASSED_ON = ("SKIPJACK_", "MIOPEN_", "TRITON_")
_OWN_MEMORY = 0.9
"""Of the machine's: a worker that takes more is ended, before the system ends somebody else."""
_KILLED_WITHIN_S = 20.0


class ContainedWorkers:
    """Makes the enclosures of one engine's workers; `close` waits until the last one is gone."""

    def __init__(self, image: str, settings: Settings) -> None:
        """Fails at once without an engine, if its daemon does not answer or has no such image."""
        self.engine = ready_engine()
        self.image = identity(self.engine, check_image(image))
        self._place = place_for_containers(settings.user_dir)
        self._killers: list[subprocess.Popen[bytes]] = []
        if self.image.version and self.image.version != skipjack.__version__:
            log.warning(
                "image %s holds Skipjack %s and this is %s: workers may not understand; skipjack "
                "image build makes a new one",
                *(image, self.image.version, skipjack.__version__),
            )

    def enclose(self, slot: Slot, cores: tuple[int, ...] = ()) -> Enclosure:
        """A container for the next worker of a slot."""
        gpu = gpu_here(slot.gpu) if slot.gpu and not cores else None
        container = WorkerContainer(
            self.image.name,
            f"skipjack-{slot.name}-{uuid.uuid4().hex[:12]}",
            f"{os.getuid()}:{os.getgid()}",
            env={
                MACHINE: machine_name(),
                device_lock.VARIABLE: str(device_lock.directory()),
                # By value: the engine's client has to keep its own.
                "HOME": str(self._place / HOME),
                USER_DIR: str(self._place),
            },
            mounts=_mounts(self._place),
            cores=cores or _allowed(),
            gpu=gpu,
            memory_bytes=int(cpu.memory_bytes() * _OWN_MEMORY),
        )
        return Enclosure(self.engine, container, self._killers)

    def close(self) -> None:
        """Wait for containers that are being ended."""
        deadline = time.monotonic() + _KILLED_WITHIN_S
        for killer in self._killers:
            try:
                killer.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning(
                    "%s does not end its containers; %s ps --filter label=%s lists them",
                    *(self.engine.name, self.engine.name, commands.LABEL),
                )
                killer.kill()
                killer.wait()
        self._killers.clear()


class Enclosure:
    """One container; see `skipjack.execute.enclosure.Enclosure`."""

    def __init__(
        self,
        engine: ContainerEngine,
        container: WorkerContainer,
        killers: list[subprocess.Popen[bytes]],
    ) -> None:
        self._engine, self._container, self._killers = engine, container, killers

    @property
    def gpu(self) -> GpuRef | None:
        """The GPU that is in it."""
        return self._container.gpu

    def command(self, module: str, arguments: Sequence[str], given: Collection[str]) -> list[str]:
        """The engine's command line; variables go by name alone."""
        own = self._container.env
        ours = (name for name in os.environ if name.startswith(_PASSED_ON))
        passed = sorted({*given, *ours} - _KEPT_BACK - set(own))
        container = replace(self._container, env_names=tuple(passed))
        return commands.worker_container(
            self._engine, container, python_command(module, *arguments, python=PYTHON)
        )

    def words(self, lines: Sequence[str]) -> str:
        """The last line that says something: the engine's own errors end with advice."""
        found = telling(lines)
        return found[-1] if found else ""

    def end(self) -> None:
        """End the container: what was killed here was only the engine's client."""
        self._killers[:] = [one for one in self._killers if one.poll() is None]
        line = commands.kill_container(self._engine.program, self._container.name)
        # Most are gone by now, of which the engine complains.
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
    """Cores of who keeps to some of them only, which an engine's daemon knows nothing of."""
    usable = tuple(sorted(cpu.usable_cores()))
    return usable if len(usable) < (os.cpu_count() or 1) else ()


def place_for_containers(user_dir: Path) -> Path:
    """The user directory of workers in containers, with a home in it; it is made."""
    place = ensure_directory(user_dir / PLACE)
    ensure_directory(place / HOME)
    return place


def _mounts(place: Path) -> tuple[Mount, ...]:
    """What a worker reads and writes: its user directory, the locks of devices, plug-ins."""
    places = [Mount(str(place)), Mount(str(device_lock.directory()))]
    names = PLUGINS.text().split(os.pathsep)
    files = (str(Path(name).absolute()) for name in names if name.endswith(".py"))
    places += [Mount(file, read_only=True) for file in files if Path(file).is_file()]
    return tuple({place.path: place for place in places}.values())
