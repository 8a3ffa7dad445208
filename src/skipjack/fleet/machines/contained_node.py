"""A node of a Ray cluster in containers of this machine: one for each GPU, or one without GPU."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from skipjack.errors import SkipjackError
from skipjack.execute import device_locks
from skipjack.fleet.images import (
    USER_DIR,
    ContainerEngine,
    GpuRef,
    Mount,
    commands,
    complaint,
    gpu_here,
    place_for_containers,
    ready_engine,
)
from skipjack.fleet.machines.node_start import (
    CONTAINER_S,
    START_S,
    NodeRecord,
    NodeRequest,
    not_started,
    ray_command,
    ray_variables,
    started,
)
from skipjack.gpu import find_gpus
from skipjack.reading import numbered

T = TypeVar("T")

# Its output goes to a file of ours: the engine removes a failed container with its log.
_INTO_FILE = ("sh", "-c", 'log=$1; shift; exec "$@" >"$log" 2>&1', "sh")
_PYTHON = "python3"
_LOOK_S = 0.2


def begin(request: NodeRequest, record: NodeRecord, token: Path, user_dir: Path) -> NodeRecord:
    """Start the first, then the others in parallel; returns the record with Ray's address."""
    engine = ready_engine()
    node = _Node(engine, request, record, token, place_for_containers(user_dir))
    (name, gpu), *others = zip(record.containers, _gpus(request), strict=True)
    node.launch(name, gpu)
    record = replace(record, ip=node.wait_for([name]) or record.ip)
    head = request.head or f"{record.ip}:{request.port}"
    node = replace(node, record=record, request=replace(request, head=head))
    _at_once(lambda one: node.launch(*one), others)
    node.wait_for([name for name, _ in others])
    return record


@dataclass(frozen=True, slots=True)
class _Node:
    """The common properties of a node's containers."""

    engine: ContainerEngine
    request: NodeRequest
    record: NodeRecord
    token: Path
    place: Path
    """The user directory in the containers."""

    def launch(self, name: str, gpu: GpuRef | None) -> None:
        """Start a container; Ray in it starts later."""
        log = self.log(name)
        log.unlink(missing_ok=True)
        request = self.request
        if gpu is not None:
            request = replace(request, resources=dict.fromkeys(request.resources or {}, 1))
        command = ray_command(
            _PYTHON, request, self.record.ip, self.record.temporary, int(gpu is not None)
        )
        locks = str(device_locks.directory())
        seen = (str(self.place), str(self.token.parent), self.record.temporary, locks)
        line = commands.node_container(
            self.engine.program,
            request.image,
            gpu,
            name,
            [*_INTO_FILE, str(log), *command],
            mounts=[Mount(path) for path in seen],
            user=f"{os.getuid()}:{os.getgid()}",
            env={
                **ray_variables(request.machine, self.token, self.record.id),
                device_locks.VARIABLE: locks,
                USER_DIR: str(self.place),
                "HOME": self.record.temporary,
            },
            rootless=self.engine.rootless,
        )
        done = self.engine.call(line[1:], timeout_s=CONTAINER_S)
        if done.returncode:
            raise SkipjackError(
                f"{self.engine.name} could not start a container: {complaint(done.stderr)}"
            )

    def wait_for(self, names: Sequence[str]) -> str:
        """Wait until Ray is up in all of them; the address that it chose in the last one."""
        deadline, waiting, ip = time.monotonic() + START_S, list(names), ""
        while waiting:
            there = _running(self.engine, waiting)
            late = time.monotonic() > deadline
            for name in list(waiting):
                log = self.log(name)
                printed = log.read_text(errors="replace") if log.exists() else ""
                found = started(printed)
                if name not in there or (late and found is None):
                    raise not_started(printed, late and name in there)
                if found is not None:
                    ip = found
                    waiting.remove(name)
            if waiting:
                time.sleep(_LOOK_S)
        return ip

    def log(self, name: str) -> Path:
        """The output of a container; its successor uses the same file."""
        return self.token.with_name(f"ray-{name.rpartition('-')[2]}.log")


def running(record: NodeRecord) -> list[str]:
    """The running containers of a node."""
    return _running(ready_engine(), record.containers)


def _running(engine: ContainerEngine, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    words = ["--filter", f"name={names[0].rpartition('-')[0]}-", "--format", "{{.Names}}"]
    asked = engine.call(["ps", *words], timeout_s=CONTAINER_S)
    if asked.returncode:
        raise SkipjackError(f"{engine.name} could not list containers: {complaint(asked.stderr)}")
    there = asked.stdout.decode(errors="replace").split()
    return [name for name in names if name in there]


def end(record: NodeRecord) -> list[str]:
    """End the containers of a node, the first one last; returns those that did not end."""
    engine = ready_engine()

    def stop(name: str) -> None:
        with contextlib.suppress(SkipjackError):  # ended by force later
            engine.call(commands.stop_container(engine.program, name)[1:], timeout_s=CONTAINER_S)

    def kill(name: str) -> None:
        with contextlib.suppress(SkipjackError):  # remaining containers are returned
            engine.call(commands.kill_container(engine.program, name)[1:], timeout_s=CONTAINER_S)

    there = _running(engine, record.containers)
    first = [name for name in there if name == record.containers[0]]
    _at_once(stop, [name for name in there if name not in first])
    _at_once(stop, first)
    _at_once(kill, _running(engine, record.containers))
    return _running(engine, record.containers)


def _at_once(do: Callable[[T], None], things: Sequence[T]) -> None:
    """Call `do` for all in parallel threads; raises the first failure after all have ended."""
    if things:
        with ThreadPoolExecutor(len(things), "skipjack-containers") as pool:
            for future in [pool.submit(do, thing) for thing in things]:
                future.result()


def _gpus(request: NodeRequest) -> list[GpuRef | None]:
    """As many GPUs as are registered, each for its own container."""
    if not request.gpus:
        return [None]
    wanted = request.resources or {}
    names = [f"{d.name}:{at}" for d, at, one in find_gpus() if not wanted or one.name in wanted]
    found: list[GpuRef | None] = [gpu_here(name) for name in names[: request.gpus]]
    if len(found) < request.gpus:
        raise SkipjackError(
            f"found {numbered(len(found), 'GPU')} for containers, but {request.gpus} are "
            f"registered; run skipjack machine check {request.machine}"
        )
    return found
