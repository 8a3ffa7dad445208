"""A node that is to be started on this machine, and what is remembered of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from skipjack.errors import MalformedError, SkipjackError
from skipjack.reading import read_json
from skipjack.storage import atomic_write

_FILE = "node.json"
_TOKEN = "token"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A node to start."""

    machine: str
    cluster: str
    """Whose it is: a random id."""
    token: str
    head: str = ""
    """Host and port of the head to join; empty for the head itself."""
    port: int = 6379
    client_port: int = 10001
    resources: Mapping[str, int] | None = None
    gpus: int = 0
    options: Sequence[str] = ()
    """Further ones for ``ray start``."""
    image: str = ""
    """Run it in containers of this image, one for each GPU."""


def container_names(request: NodeRequest, id: str) -> tuple[str, ...]:
    """What its containers are called: as many as it has GPUs, or one."""
    return tuple(f"skipjack-node-{id}-{number}" for number in range(max(1, request.gpus)))


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node that was started, or almost."""

    id: str
    """All its processes bear it as a mark, or all its containers in their names."""
    cluster: str
    ip: str
    temporary: str
    """Ray's own folder."""
    pid: int = 0
    """The process that ends all others when it ends."""
    containers: tuple[str, ...] = ()
    """Their names, if it runs in such."""

    @property
    def what(self) -> str:
        """For people."""
        count = len(self.containers)
        if count:
            return f"{count} containers" if count > 1 else f"container {self.containers[0]}"
        return f"process {self.pid}"


def read_record(folder: Path) -> NodeRecord | None:
    """The node that was started here last; None if there is none."""
    try:
        return read_json((folder / _FILE).read_bytes()).without("format", _FORMAT).of(NodeRecord)
    except FileNotFoundError:
        return None
    except MalformedError as error:
        raise SkipjackError(
            f"{folder / _FILE} is damaged: {error}; end that node by hand and delete the file"
        ) from None


def write_record(folder: Path, record: NodeRecord) -> None:
    """Remember it."""
    atomic_write(folder / _FILE, json.dumps({"format": _FORMAT, **asdict(record)}).encode())


def write_token(folder: Path, token: str) -> Path:
    """The token as a file of this user alone."""
    path = folder / _TOKEN
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token)
    return path


def forget(folder: Path, record: NodeRecord) -> None:
    """Leave nothing of it but its logs, which the next node writes anew."""
    for name in (_FILE, _TOKEN):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(record.temporary, ignore_errors=True)
