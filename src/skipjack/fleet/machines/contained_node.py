"""A node of a Ray cluster in containers of this machine: one for each GPU, or one without any."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path

from skipjack.errors import SkipjackError
from skipjack.execute import device_lock
from skipjack.fleet.images import commands
from skipjack.fleet.images.commands import Mount
from skipjack.fleet.images.container_engine import ContainerEngine, complaint, ready_engine
from skipjack.fleet.images.gpus import GpuRef, gpu_here
from skipjack.fleet.machines.node_record import NodeRecord, NodeRequest
from skipjack.fleet.machines.ray_start import (
    START_S,
    not_started,
    ray_variables,
    ray_words,
    started,
)
from skipjack.gpu.opening import find_gpus

# What it says goes to a file of ours: a container that failed is gone with its log.
_INTO_FILE = ("sh", "-c", 'log=$1; shift; exec "$@" >"$log" 2>&1', "sh")
_PYTHON = "python3"
_LOOK_S = 0.2


def names_for(request: NodeRequest, id: str) -> tuple[str, ...]:
    """What its containers are called: as many as it has GPUs, or one."""
    return tuple(f"skipjack-node-{id}-{number}" for number in range(max(1, request.gpus)))


def begin(request: NodeRequest, record: NodeRecord, token: Path, user_dir: Path) -> NodeRecord:
    """Start them all, the head's first; gives the record with the address that Ray chose."""
    engine = ready_engine()
    ip = record.ip
    for name, gpu in zip(record.containers, _gpus(request), strict=True):
        first = name == record.containers[0]
        mine = request if first else replace(request, head=request.head or f"{ip}:{request.port}")
        if gpu is not None:
            mine = replace(mine, resources=dict.fromkeys(request.resources or {}, 1))
        said = _start(engine, mine, replace(record, ip=ip), token, user_dir, name, gpu)
        ip = said or ip
    return replace(record, ip=ip)


def _start(
    engine: ContainerEngine,
    request: NodeRequest,
    record: NodeRecord,
    token: Path,
    user_dir: Path,
    name: str,
    gpu: GpuRef | None,
) -> str:
    log = token.with_name(f"{name}.log")
    log.unlink(missing_ok=True)
    words = ray_words(request, record.ip, record.temporary, int(gpu is not None))
    locks = str(device_lock.directory())
    line = commands.node_container(
        engine.program,
        request.image,
        gpu,
        name,
        [*_INTO_FILE, str(log), _PYTHON, *words],
        mounts=[Mount(str(user_dir)), Mount(record.temporary), Mount(locks)],
        user=f"{os.getuid()}:{os.getgid()}",
        env={
            **ray_variables(request.machine, token, record.id),
            device_lock.VARIABLE: locks,
            "SKIPJACK_USER_DB_PATH": str(user_dir),
            "HOME": record.temporary,
        },
        rootless=engine.rootless,
    )
    done = engine.call(line[1:])
    if done.returncode:
        raise SkipjackError(f"{engine.name} starts no container: {complaint(done.stderr)}")
    return _wait_until_up(engine, name, log)


def _wait_until_up(engine: ContainerEngine, name: str, log: Path) -> str:
    deadline = time.monotonic() + START_S
    while True:
        over = name not in _running(engine, [name])
        said = log.read_text(errors="replace") if log.exists() else ""
        ip = started(said)
        if ip is not None and not over:
            return ip
        late = time.monotonic() > deadline
        if over or late:
            raise not_started(said, late)
        time.sleep(_LOOK_S)


def running(record: NodeRecord) -> list[str]:
    """Those of its containers that run."""
    return _running(ready_engine(), record.containers)


def _running(engine: ContainerEngine, names: tuple[str, ...] | list[str]) -> list[str]:
    found = []
    for name in names:
        asked = engine.call(["inspect", "--format", "{{.State.Running}}", name])
        if asked.returncode == 0 and asked.stdout.strip() == b"true":
            found.append(name)
    return found


def end(record: NodeRecord) -> list[str]:
    """End its containers, those that joined a head before the head; those that do not end."""
    engine = ready_engine()
    for name in reversed(running(record)):
        engine.call(commands.stop_container(engine.program, name)[1:])
    for name in running(record):
        engine.call(commands.kill_container(engine.program, name)[1:])
    return running(record)


def _gpus(request: NodeRequest) -> list[GpuRef | None]:
    """As many as are registered, each for a container of its own."""
    if not request.gpus:
        return [None]
    wanted = request.resources or {}
    names = [f"{d.name}:{at}" for d, at, one in find_gpus() if not wanted or one.name in wanted]
    found: list[GpuRef | None] = []
    for name in names[: request.gpus]:
        with contextlib.suppress(SkipjackError):
            found.append(gpu_here(name))
    if len(found) < request.gpus:
        raise SkipjackError(
            f"{len(found)} GPUs for containers are here, {request.gpus} are registered; skipjack "
            f"machine check {request.machine} says more"
        )
    return found
