"""``python -m skipjack.fleet.machines.node``: a node of a Ray cluster on this machine.

It reads a request from standard input and prints one line of JSON. ``start`` leaves the node
running, ``stop`` ends exactly what was started, ``status`` inspects it. The token of the cluster
is part of the request and is stored in a file that only its user can read; it is never an argument.

A machine has at most one node with its name. The record of the node is in a folder of the user
directory, so that it can be stopped even if the record of the cluster is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from skipjack.errors import SkipjackError
from skipjack.fleet.images import ready_engine
from skipjack.fleet.machines.node_start import (
    START_S,
    NodeRecord,
    NodeRequest,
    check_head,
    container_names,
    end_marked,
    forget,
    marked,
    not_started,
    own_ip,
    ray_command,
    ray_variables,
    read_record,
    started,
    write_record,
    write_token,
)
from skipjack.processes import SAFE_DIRECTORY, environment_for
from skipjack.reading import numbered, read_json
from skipjack.settings import load_settings
from skipjack.storage import FileLock, ensure_directory

# `contained_node` is imported where it is needed: it loads the drivers of GPUs, which takes longer
# than a node without containers takes to answer.
FOLDER = "ray-nodes"
LOG = "ray.log"
_LOOK_S = 0.1
_LONGEST_TEMPORARY = 16


def start(request: NodeRequest, folder: Path) -> dict[str, Any]:
    """Start the node unless it runs already; returns its address."""
    there = read_record(folder)
    if there is not None and _state(there) is not NodeHealth.GONE:
        if there.cluster != request.cluster:
            raise SkipjackError(
                f"{request.machine} is a node of another cluster already ({there.what}); end it "
                "with skipjack fleet down where it was started"
            )
        if _state(there) is NodeHealth.WHOLE:
            return {"ip": there.ip, "what": there.what, "already": True}
        _end(there)  # part of it died
    if there is not None:
        forget(folder, there)
    if request.head:
        check_head(request.head)
    if request.image:
        ready_engine()  # fails without an engine, before anything is stored
    id = secrets.token_hex(8)
    record = NodeRecord(id, request.cluster, own_ip(), str(_temporary(id)))
    if request.image:
        record = replace(record, containers=container_names(request, id))
    write_record(folder, record)  # before anything runs, so that all marked processes can be found
    try:
        record = _begin(request, record, folder)
        write_record(folder, record)
    except BaseException:
        _end(record)
        forget(folder, record)
        raise
    warning = _lost_gpus(request)
    return {
        **{"ip": record.ip, "what": record.what, "already": False},
        **({"warning": warning} if warning else {}),
    }


def _lost_gpus(request: NodeRequest) -> str:
    """A warning if fewer GPUs exist than are registered, which Ray does not check."""
    if not request.gpus or request.image:  # containers do not start without their GPU
        return ""
    from skipjack.gpu import find_gpus

    wanted = request.resources or {}
    count = sum(not wanted or device.name in wanted for _, _, device in find_gpus())
    if count >= request.gpus:
        return ""
    of_it = f" of {', '.join(wanted)}" if wanted else ""
    return (
        f"{request.machine} has {numbered(count, 'GPU')}{of_it}, {request.gpus} are registered; "
        f"run skipjack machine check {request.machine}"
    )


def stop(folder: Path, cluster: str) -> dict[str, Any]:
    """End the node and remove its record, if there is one of this cluster."""
    record = read_record(folder)
    if record is None or record.cluster != cluster:
        return {"ended": False}
    ran = _state(record) is not NodeHealth.GONE
    _end(record)
    forget(folder, record)
    return {"ended": ran}


def status(folder: Path, cluster: str) -> dict[str, Any]:
    """Whether the node runs."""
    record = read_record(folder)
    if record is None or record.cluster != cluster:
        return {"up": False}
    return {"up": _state(record) is NodeHealth.WHOLE, "ip": record.ip, "what": record.what}


def _temporary(id: str) -> Path:
    """Ray's own folder, with a short path: paths of sockets have at most 107 characters."""
    usual = tempfile.gettempdir()
    outer = Path(usual if len(usual) <= _LONGEST_TEMPORARY else "/tmp") / f"sj-ray-{id}"
    outer.mkdir(mode=0o700)  # Ray makes its own folder writable for all users
    return outer


def _begin(request: NodeRequest, record: NodeRecord, folder: Path) -> NodeRecord:
    token = write_token(folder, request.token)
    if request.image:
        from skipjack.fleet.machines import contained_node

        return contained_node.begin(request, record, token, folder.parent.parent)
    log = folder / LOG
    command = ray_command(sys.executable, request, record.ip, record.temporary, request.gpus)
    variables = ray_variables(request.machine, token, record.id)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            # Ray starts its modules by name; the current directory would be searched first.
            cwd=SAFE_DIRECTORY,
            env={**environment_for(SAFE_DIRECTORY, os.environ), **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # it outlives this connection
        )
    deadline = time.monotonic() + START_S
    while (ip := started(printed := log.read_text(errors="replace"))) is None:
        late = time.monotonic() > deadline
        if late or process.poll() is not None:
            raise not_started(printed, late)
        time.sleep(_LOOK_S)
    return replace(record, pid=process.pid, ip=ip or record.ip)


class NodeHealth(Enum):
    """Which part of a node is running."""

    WHOLE = "whole"
    PARTLY = "partly"
    GONE = "gone"


def _state(record: NodeRecord) -> NodeHealth:
    if record.containers:
        from skipjack.fleet.machines import contained_node

        there = len(contained_node.running(record))
        whole = there == len(record.containers)
    else:
        pids = marked(record.id)
        there, whole = len(pids), record.pid in pids
    return NodeHealth.WHOLE if whole else NodeHealth.PARTLY if there else NodeHealth.GONE


def _end(record: NodeRecord) -> None:
    left = []
    if record.containers:
        from skipjack.fleet.machines import contained_node

        left = contained_node.end(record)
    left += [f"process {pid}" for pid in end_marked(record.id, record.pid)]
    if left:
        raise SkipjackError(
            f"the node did not end: {', '.join(left)} still running; end them manually"
        )


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    machine, cluster = str(request["machine"]), str(request["cluster"])
    folder = ensure_directory(load_settings().user_dir / FOLDER / machine)
    with FileLock(folder / "lock"):
        if request["do"] == "start":
            fields = {name: request[name] for name in NodeRequest.__dataclass_fields__}
            return start(NodeRequest(**fields), folder)
        return (stop if request["do"] == "stop" else status)(folder, cluster)


def main() -> None:
    """Answer one request; after a failure, ``failure`` has the reason."""
    request = read_json(sys.stdin.read(), "the request", surrogates=True).mapping()
    try:
        content = answer(request)
    except SkipjackError as error:
        content = {"failure": f"{request['machine']}: {error}"}
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({"format": 1, **content}), flush=True)


if __name__ == "__main__":
    main()
