"""The working directory of builds that write into it: what they leave, and restoring it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from skipjack.storage import write_failure
from skipjack.sweep.commands import snapshots
from skipjack.sweep.commands.build_store import BuildOutput, BuildStore, KeptBuild
from skipjack.sweep.commands.snapshots import Snapshot, changed, files_of, snapshot, stamps_of

# Detecting logs among the files that builds write: those that a build appended to.
#
# The content of a log that grew does not differ from that of a product that was written anew and
# begins with the same bytes. So before a build, disk space beyond the end of each file is reserved,
# which does not change its size. Writing the file anew releases that space; appending does not.

_KEEP_SIZE = 1
_ROOM_BYTES = 1 << 20
_BLOCK_BYTES = 512
_MOST = 64
"""If more files than this end in a newline, space is reserved for none of them."""
_LARGEST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class _FileBefore:
    inode: int
    size: int
    room: bool
    """Whether the file system could reserve space."""


class AppendDetector:
    """Finds the files that a build appends to: create it before the build, ask it afterwards."""

    def __init__(self, directory: Path, names: Iterable[str]) -> None:
        self._directory = directory
        found = [name for name in names if _ends_with_newline(directory / name)]
        self._earlier = {}
        for name in found if len(found) <= _MOST else ():
            with contextlib.suppress(OSError):
                self._earlier[name] = _reserve_room(directory / name)

    def appended(self) -> tuple[str, ...]:
        """Files that were appended to; the reserved space is released."""
        return tuple(name for name, earlier in self._earlier.items() if self._grew(name, earlier))

    def _grew(self, name: str, earlier: _FileBefore) -> bool:
        path = self._directory / name
        try:
            status = path.lstat()
            if status.st_ino != earlier.inode or status.st_size < earlier.size:
                return False
            if earlier.room:
                with path.open("r+b") as file:
                    file.truncate(status.st_size)
                    os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        except OSError:
            return False
        more = status.st_size - earlier.size
        if not earlier.room:
            return more > 0 and PurePath(name).suffix == ".log"
        # A file written anew that is this much longer may have as many blocks.
        has_room = status.st_blocks * _BLOCK_BYTES >= earlier.size + _ROOM_BYTES
        return has_room and 0 < more <= _ROOM_BYTES // 2


def _ends_with_newline(path: Path) -> bool:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= _LARGEST_BYTES:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return False


def _reserve_room(path: Path) -> _FileBefore:
    status = path.stat()
    with path.open("r+b") as file:
        reserved = sys.platform == "linux" and not _libc().fallocate(
            file.fileno(), _KEEP_SIZE, status.st_size, _ROOM_BYTES
        )
        if reserved:
            os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    return _FileBefore(status.st_ino, status.st_size, reserved)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    offset = ctypes.c_int64
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, offset, offset)
    return libc


# Tracking and restoring the files of builds.


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """The state of the working directory before a build."""

    files: Snapshot | None
    """None if there are too many files."""
    appending: AppendDetector


class WorkingDirectory:
    """Tracks and restores the files of builds. Files of others are never changed or removed."""

    def __init__(
        self,
        directory: Path,
        outputs: Sequence[str | Path],
        skip: Sequence[Path],
        trees: BuildStore,
        note: Callable[[str], None],
    ) -> None:
        self._directory, self._outputs, self._skip = directory, outputs, skip
        self._trees, self._note = trees, note
        self._made: dict[str, tuple[int, int]] = {}
        """Time and size of files as builds of this session left them."""
        self._logs: set[str] = set()
        self.current_key = ""
        """Key of the build whose files are there; empty if not known."""

    def before_build(self) -> DirectoryState:
        """Record the state before a build; no kept build is current from now on."""
        self.current_key = self._trees.current_key = ""
        listed = {name for tree in self._trees.trees for name in tree.output.files}
        # First this: reserving space changes a time of the files.
        appending = AppendDetector(self._directory, listed)
        return DirectoryState(self._look(), appending)

    def after_build(self, before: DirectoryState) -> BuildOutput | None:
        """The files that the build left; None: not known."""
        after = self._look() if before.files is not None else None
        self._logs |= set(logs := before.appending.appended())
        if before.files is None or after is None:
            return None
        own = changed(before.files, after)
        if not self._outputs:
            own = self._products(own, before.files)
        self._remember(after, own)
        if not self._outputs:
            # Overwritten files can only be restored from builds that have copies of them.
            gone = [name for name in own if name in before.files and name not in self._logs]
            self._trees.drop_lacking(gone)
        elif not any(tree.output.files for tree in self._trees.trees):
            return BuildOutput(tuple(after), own, logs)  # the first build has all the files
        return BuildOutput(tuple(dict.fromkeys((*own, *self._taken_over(after)))), own, logs)

    def _products(self, written: Sequence[str], before: Snapshot) -> tuple[str, ...]:
        """The files that the build wrote: where builds wrote before, or in new directories.

        Other files that changed meanwhile were changed by others. The first build shows where.
        """
        known = [name for tree in self._trees.trees for name in tree.output.own]
        if not known:
            return tuple(written)
        places = {parent for name in known if (parent := name.rpartition("/")[0])}
        kinds = {PurePath(name).suffix for name in known if "/" not in name}
        there = {parent for name in before for parent in map(str, PurePath(name).parents)}

        def is_product(name: str) -> bool:
            parents = [str(parent) for parent in PurePath(name).parents if parent.name]
            if not parents:
                return PurePath(name).suffix in kinds
            return any(parent in places or parent not in there for parent in parents)

        return tuple(name for name in written if is_product(name))

    def set_current(self, key: str) -> None:
        """Record that the files of this build are there now."""
        self.current_key = self._trees.current_key = key

    def can_restore(self, tree: KeptBuild) -> bool:
        """Whether restoring this build would overwrite no file that others changed."""
        if self.current_key == tree.key:
            return True
        for name in self._replaced(tree):
            path = self._directory / name
            if (path.is_symlink() or path.exists()) and not self._is_ours(name):
                self._note(
                    f"{name} was changed after a build wrote it, so builds are made again instead "
                    "of restored; to reuse builds, let nothing else write to their files"
                )
                return False
        return True

    def restore(self, tree: KeptBuild) -> None:
        """Restore the files of this build; only if `can_restore` allows it."""
        if self.current_key == tree.key:
            return
        names = self._replaced(tree)
        try:
            self._remove_others(tree)
            snapshots.restore(names, self._trees.kept_files(tree), self._directory)
        except OSError as error:
            raise write_failure(Path(error.filename or self._directory), error) from error
        self._remember(stamps_of(self._directory, names), names)
        self.set_current(tree.key)

    def _look(self) -> Snapshot | None:
        if self._outputs:
            return stamps_of(self._directory, files_of(self._directory, self._outputs))
        found = snapshot(self._directory, self._skip)
        if found is None:
            self._note(
                f"{self._directory} contains more than {snapshots.MOST_FILES} files, so it is not "
                "known which of them builds write; give --build-output to reuse builds"
            )
        return found

    def _taken_over(self, after: Snapshot) -> list[str]:
        """Files of other builds that this build left in place, because it may need them."""
        listed = {name for tree in self._trees.trees for name in tree.output.files}
        found = (name for name in after if name in listed and name not in self._logs)
        return [name for name in found if self._is_ours(name)]

    def _remember(self, found: Snapshot, names: Sequence[str]) -> None:
        for name in names:
            if (stamp := found.get(name)) is not None:
                self._made[name] = (stamp[0], stamp[2])

    def _replaced(self, tree: KeptBuild) -> list[str]:
        """The files to restore: no logs, and none that only grew since this build was current."""
        logs = self._logs.union(*(one.output.logs for one in self._trees.trees))
        was_current = self._trees.current_key == tree.key
        kept = self._trees.kept_files(tree)
        return [
            name
            for name in tree.output.files
            if name not in logs
            and not (was_current and snapshots.has_grown(self._directory / name, kept / name))
        ]

    def _is_ours(self, name: str) -> bool:
        """Whether a file is unchanged since some build left it."""
        path = self._directory / name
        with contextlib.suppress(OSError):
            status = path.lstat()
            if self._made.get(name) == (status.st_mtime_ns, status.st_size):
                return True
        return any(
            snapshots.is_copy(path, self._trees.kept_files(one) / name) for one in self._trees.trees
        )

    def _remove_others(self, tree: KeptBuild) -> None:
        """Remove files of other builds that did not exist when this one was made."""
        theirs = {name for one in self._trees.trees for name in one.output.own}
        for name in theirs.difference(tree.output.files, self._logs):
            if self._is_ours(name):
                with contextlib.suppress(FileNotFoundError):
                    (self._directory / name).unlink()
