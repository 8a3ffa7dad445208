"""The record of a cluster on this machine: its head, its nodes, and its token."""

from __future__ import annotations

import json
import logging
import secrets
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from skipjack.errors import MalformedError, StorageError, UsageError
from skipjack.fleet.model import Registration
from skipjack.fleet.signature import make_key
from skipjack.reading import read_json
from skipjack.settings import Settings
from skipjack.storage import FileLock, atomic_write, ensure_directory

RECORD = "fleet-cluster.json"
TOKEN = "ray-token"
PORT = 6379
CLIENT_PORT = 10001
_FORMAT = 1
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """A cluster, whether or not all of its nodes run."""

    head: str
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    port: int = PORT
    client_port: int = CLIENT_PORT
    ip: str = ""
    """Address of the head, once it has run."""
    image: str = ""
    nodes: Mapping[str, Registration] = field(default_factory=dict)
    """All machines on which a start was tried, as registered at that time."""

    @property
    def address(self) -> str:
        """Address for nodes, and for drivers on a machine of the cluster."""
        return f"{self._host}:{self.port}"

    @property
    def client_address(self) -> str:
        """Address for drivers on any machine."""
        return f"ray://{self._host}:{self.client_port}"

    @property
    def _host(self) -> str:
        return f"[{self.ip}]" if ":" in self.ip else self.ip

    def with_nodes(self, machines: Iterable[Registration]) -> ClusterRecord:
        """The record with these machines added."""
        return replace(self, nodes={**self.nodes, **{one.name: one for one in machines}})

    def as_registered(self, machines: Iterable[Registration]) -> ClusterRecord:
        """The record with the current registrations of its nodes."""
        now = {one.name: one for one in machines if one.name in self.nodes}
        return replace(self, nodes={**self.nodes, **now})

    def without(self, names: Iterable[str]) -> ClusterRecord:
        """The record without these machines."""
        gone = set(names)
        return replace(self, nodes={k: v for k, v in self.nodes.items() if k not in gone})


class ClusterFile:
    """The files of the record. Hold the lock `alone` while a cluster is changed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.user_dir / RECORD

    @property
    def token_path(self) -> Path:
        """The file with the token, for RAY_AUTH_TOKEN_PATH."""
        return self._settings.user_dir / TOKEN

    def alone(self) -> FileLock:
        """The lock of the record; a second process waits."""
        return FileLock(ensure_directory(self._settings.user_dir) / f"{RECORD}.lock")

    def token(self) -> str:
        """The token of this user's clusters, created at first use."""
        ensure_directory(self._settings.user_dir)
        if not self.token_path.exists():
            make_key(self.token_path)
        if self.token_path.stat().st_mode & _OTHERS:
            log.warning(
                "%s was readable by other users and is private now; if others may have read it, "
                "end the cluster and delete the file: the next cluster gets a new token",
                self.token_path,
            )
            self.token_path.chmod(0o600)
        return self.token_path.read_text(encoding="ascii").strip()

    def read(self) -> ClusterRecord | None:
        """Read the record; None if there is none."""
        try:
            content = read_json(self._path.read_bytes()).without("format", _FORMAT)
            nodes = [one.of(Registration) for one in content["nodes"].elements()]
            return content.of(ClusterRecord, nodes={one.name: one for one in nodes})
        except FileNotFoundError:
            return None
        except (MalformedError, UsageError) as error:
            raise self._damaged(error) from None

    def write(self, record: ClusterRecord) -> None:
        """Write the record."""
        nodes = [asdict(one) for one in record.nodes.values()]
        content = {"format": _FORMAT, **asdict(replace(record, nodes={})), "nodes": nodes}
        atomic_write(self._path, json.dumps(content, indent=1).encode())

    def forget(self) -> None:
        """Remove the record; the token stays."""
        self._path.unlink(missing_ok=True)

    def _damaged(self, error: Exception) -> StorageError:
        return StorageError(
            f"{self._path} is damaged: {error}; end the nodes manually and delete the file"
        )
