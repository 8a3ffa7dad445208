"""The store of builds: a directory each; over the quota, the least recently used are removed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from skipjack.errors import MalformedError, StorageError
from skipjack.reading import read_json
from skipjack.storage import FileLock, atomic_write, ensure_directory, write_failure
from skipjack.sweep.commands import snapshots

log = logging.getLogger(__name__)

FORMAT = 2
DEFAULT_QUOTA_BYTES = 20 << 30
_MARKER, _CURRENT = "build.json", "standing"
_TREE, _IN_PLACE = "tree", "in_place"
_DIGITS = 16
_LOCK_S = 1.0


@dataclass(frozen=True, slots=True)
class BuildOutput:
    """The files that a build left in the working directory."""

    files: tuple[str, ...] = ()
    """Files that must be there when the build is used again."""
    own: tuple[str, ...] = ()
    """Files that it wrote."""
    logs: tuple[str, ...] = ()
    """Files that it appended to."""


NO_OUTPUT = BuildOutput()


@dataclass(frozen=True, slots=True)
class KeptBuild:
    """A finished build."""

    key: str
    directory: Path
    """The directory that the build command was given."""
    seconds: float
    size_bytes: int
    output: BuildOutput = NO_OUTPUT


class BuildStore:
    """The builds below one directory, for one process at a time; threads may share it.

    A build is complete once its marker exists, which is written last: what a crash or a full disk
    left incomplete is built again.
    """

    def __init__(self, root: Path, quota_bytes: int = DEFAULT_QUOTA_BYTES) -> None:
        self._root = ensure_directory(root)
        self._quota_bytes = quota_bytes
        self.depends_on = ""
        """What builds depend on in addition to their key: command, base config, sources."""
        self._guard = threading.RLock()
        self._lock = FileLock(root / "builds.lock", timeout_s=_LOCK_S)
        self._lock.__enter__()
        self._known = self._read_markers()
        self._current_name = self._read_current()

    def close(self) -> None:
        """Release the lock of the directory."""
        self._lock.__exit__(None, None, None)

    @property
    def current_key(self) -> str:
        """Key of the build whose files are in the working directory; empty if not known."""
        keys = (tree.key for tree in self.trees)
        return next((key for key in keys if self._current_name == self._name(key)), "")

    @current_key.setter
    def current_key(self, key: str) -> None:
        name = self._name(key) if key else ""
        if name != self._current_name:
            self._current_name = name
            atomic_write(self._root / _CURRENT, name.encode(), durable=False)

    @property
    def trees(self) -> tuple[KeptBuild, ...]:
        """All finished builds, the least recently used first."""
        with self._guard:
            return tuple(self._known.values())

    def find(self, key: str) -> KeptBuild | None:
        """The build with this key, which becomes the most recently used."""
        name = self._name(key)
        with self._guard:
            tree = self._known.pop(name, None)
            if tree is None or not tree.directory.is_dir():  # it may have been deleted by hand
                return None
            self._known[name] = tree
        with contextlib.suppress(OSError):
            os.utime(self._root / name / _MARKER)
        return tree

    def __contains__(self, key: str) -> bool:
        return self._name(key) in self._known

    def begin(self, key: str) -> Path:
        """An empty directory to build into; an earlier build with this key is removed."""
        place = self._root / self._name(key)
        with self._guard:
            self._known.pop(place.name, None)
        _remove(place)
        try:
            (place / _TREE).mkdir(parents=True)
        except OSError as error:
            raise write_failure(place, error) from error
        return place / _TREE

    def log_of(self, key: str) -> Path:
        """The file for the output of a build."""
        return self._root / self._name(key) / "build.log"

    def kept_files(self, tree: KeptBuild) -> Path:
        """The directory with copies of the files that it left in the working directory."""
        return tree.directory.parent / _IN_PLACE

    def finish(
        self,
        key: str,
        seconds: float,
        output: BuildOutput = NO_OUTPUT,
        workdir: Path = Path(),
        pinned: Iterable[str] = (),
    ) -> KeptBuild:
        """Keep a build: copy what it left in the working directory, mark it, and apply the quota.

        Builds whose keys are in `pinned` are kept regardless of the quota.
        """
        place = self._root / self._name(key)
        try:
            size = snapshots.keep(output.files, workdir, place / _IN_PLACE) + _size(place / _TREE)
        except OSError as error:
            _remove(place)
            raise write_failure(place, error) from error
        tree = KeptBuild(key, place / _TREE, seconds, size, output)
        said = {"format": FORMAT, "key": key, "seconds": seconds, "bytes": size}
        marker = {**said, **asdict(output)}
        atomic_write(place / _MARKER, json.dumps(marker).encode(), durable=False)
        with self._guard:
            self._known[place.name] = tree
            self._make_room({self._name(one) for one in (*pinned, key)})
        return tree

    def drop_lacking(self, names: Sequence[str]) -> None:
        """Remove builds without copies of these files, which have been overwritten."""
        with self._guard:
            for name, tree in list(self._known.items()):
                if set(names) - set(tree.output.files):
                    del self._known[name]
                    _remove(self._root / name)

    def discard(self, key: str) -> None:
        """Remove a build that failed, except for its output."""
        place = self._root / self._name(key)
        with self._guard:
            self._known.pop(place.name, None)
        _strip(place)

    def _name(self, key: str) -> str:
        return hashlib.sha256(f"{self.depends_on}\n{key}".encode()).hexdigest()[:_DIGITS]

    def _make_room(self, pinned: set[str]) -> None:
        total = sum(tree.size_bytes for tree in self._known.values())
        for name in [name for name in self._known if name not in pinned]:
            if total <= self._quota_bytes:
                return
            total -= self._known.pop(name).size_bytes
            _remove(self._root / name)
            log.info("removed the build %s to stay within the quota", name)

    def _read_current(self) -> str:
        try:
            return (self._root / _CURRENT).read_text()
        except (OSError, ValueError):
            return ""

    def _read_markers(self) -> dict[str, KeptBuild]:
        """Finished builds by age; of unfinished ones, all but the output is removed."""
        found: list[tuple[int, str, KeptBuild]] = []
        for place in filter(Path.is_dir, self._root.iterdir()):
            tree = _read_marker(place / _MARKER)
            if tree is None:
                _strip(place)
            else:
                found.append(((place / _MARKER).stat().st_mtime_ns, place.name, tree))
        return {name: tree for _, name, tree in sorted(found, key=lambda one: one[:2])}


def _read_marker(path: Path) -> KeptBuild | None:
    try:
        content = read_json(path.read_bytes(), surrogates=True)
        if content["format"].plain != FORMAT:
            return None
        files, own, logs = (
            tuple(name.text() for name in content[part].elements())
            for part in ("files", "own", "logs")
        )
        return KeptBuild(
            content["key"].text(),
            path.parent / _TREE,
            content["seconds"].number(0.0),
            content["bytes"].integer(0),
            BuildOutput(files, own, logs),
        )
    except (OSError, MalformedError):
        return None


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  (quick)
    return total


def _strip(place: Path) -> None:
    for part in (_MARKER, _TREE, _IN_PLACE):
        _remove(place / part)


def _remove(path: Path) -> None:
    """Remove a file or a directory, even if it is read-only."""

    def writable(function: object, name: str, error: object) -> None:
        with contextlib.suppress(OSError):
            Path(name).parent.chmod(0o700)
            Path(name).unlink()

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=writable)
    else:
        path.unlink(missing_ok=True)
    if path.exists():
        raise StorageError(f"cannot remove {path}; remove it by hand and try again")
