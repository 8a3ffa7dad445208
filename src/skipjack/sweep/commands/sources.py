"""What builds and runs are made from: the files of the working directory that they do not write."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterable
from fnmatch import translate
from pathlib import Path, PurePath

from skipjack.interop.loadgen_log import DETAIL_LOG
from skipjack.storage import ensure_directory
from skipjack.sweep.commands import in_place
from skipjack.sweep.commands.in_place import Snapshot, changed, snapshot
from skipjack.sweep.commands.results import ResultReader
from skipjack.sweep.commands.watch_memory import WatchMemory, usual

WRITTEN = "written.json"
"""The file in the state directory that remembers what builds and runs write."""
_SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hip", ".s", ".inc"),
        *(".py", ".pyx", ".sh", ".bash", ".pl", ".rs", ".go", ".java", ".kt", ".f90", ".f", ".jl"),
        *(".mk", ".cmake", ".proto", ".ll", ".mlir", ".cl", ".metal"),
    )
)
_NAMES = frozenset(("Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "BUILD", "WORKSPACE"))
_FOR_PEOPLE = re.compile(
    r"(^|/)(\.#[^/]*|[^/]*~|\.[^/]*\.sw[a-p]|\.DS_Store|[^/]*\.(md|rst|pdf|html|log|bak|orig|rej))$"
)
"""Of editors, or to be read: nothing is made from them."""
_SHARE = 50
"""A look may be taken once this many times what one takes has passed."""


def is_source(name: str) -> bool:
    """Whether a file is one that people edit, by its name."""
    path = PurePath(name)
    return path.name in _NAMES or path.suffix.lower() in _SUFFIXES


def result_patterns(result: ResultReader) -> tuple[str, ...]:
    """Where runs leave their result, for `SourceWatch`; ``{name}`` stands for anything."""
    if result.kind not in ("json", "loadgen") or result.where == "-":
        return ()
    if result.where.startswith("{"):  # a directory of the run's own, or anywhere
        return ()
    pattern = str(PurePath(re.sub(r"\{[^{}]*\}", "*", result.where)))
    if result.kind == "loadgen" and pattern == ".":
        return (DETAIL_LOG.replace("detail.txt", "*"),)
    return (pattern,)


class SourceWatch:
    """The sources below a working directory, and which files there are none.

    What builds and runs write is no source. It is found out while a sitting goes on: files that
    appear, directories that appear, and files that change nearly each time. What looks like code is
    a source all the same, unless builds write it (`wrote`): people write code while a sweep runs.

    `exclude` has more that is none: paths, below them everything, or patterns. Making one and
    asking for its digest writes nothing; a sitting calls `begin`, `note_changes` now and then, and
    `close`. After a kill, files that appeared since are taken for written.
    """

    def __init__(self, workdir: Path, state_dir: Path, exclude: Iterable[str | Path] = ()) -> None:
        self._workdir, self._state_dir = workdir.resolve(), state_dir.resolve()
        self._path = self._state_dir / WRITTEN
        self._excluded = self._pattern(exclude)
        self._ours = _own_output()
        self._memory = WatchMemory.read(self._path)
        self._look_s, self._looked_s = 0.0, 0.0
        self._begun = False
        self.note = ""
        """One sentence, where the directory cannot be looked through."""
        self._start = self._last = self._look()
        self._directories = _directories(self._start or ())
        self._digest = ""
        if self._start is not None:
            self._take_over_killed(self._start)
            self._memory.state = self._state(self._start)
            self._digest = self._memory.digests.get(self._memory.state, self._memory.state)

    def digest(self) -> str:
        """Of the sources at the start of the sitting; empty if they are not known."""
        return self._digest

    def begin(self) -> None:
        """Builds and runs are made from now on."""
        ensure_directory(self._state_dir)
        self._begun = True
        if self._start is None:
            return
        newest = max((stamp[1] for stamp in self._start.values()), default=0)
        self._memory.newest_ns = newest + 1
        self._save()

    def wrote(self, names: Iterable[str]) -> None:
        """A build wrote these files."""
        found = set(names)
        there = self._start or {}
        # Somebody may have edited it just then; a build that writes code does so time and again.
        code = {name for name in found if name in there and is_source(name)}
        self._learn((found - code) | usual(self._memory.built, code))

    def note_changes(self, *, now: bool = False) -> None:
        """Look for what was written; without `now` only if enough time has passed."""
        began = time.perf_counter()
        if not self._begun or self._last is None:
            return
        if not now and began - self._looked_s < _SHARE * self._look_s:
            return
        before, found = self._last, self._look()
        if found is None:
            return
        self._last = found
        vanished = before.keys() - found.keys()
        self._learn(self._written({*changed(before, found), *vanished}))
        self._looked_s = time.perf_counter()
        self._look_s = self._looked_s - began

    def close(self) -> None:
        """The sitting ends."""
        if not self._begun:
            return
        self.note_changes(now=True)
        self._memory.newest_ns = 0
        self._save()
        self._begun = False

    def _written(self, names: set[str]) -> set[str]:
        """Which of these are written by builds or runs: files, and directories as a whole."""
        there = self._start or {}
        fresh = {name: self._fresh_directory(name) for name in names}
        with_code = {fresh[name] for name in names if is_source(name)}
        found: set[str] = set()
        maybe: set[str] = set()
        for name in names:
            if fresh[name] and fresh[name] not in with_code:
                found.add(fresh[name])
            elif not is_source(name):
                (maybe if name in there else found).add(name)
        return found | usual(self._memory.changed, maybe)

    def _fresh_directory(self, name: str) -> str:
        """The outermost directory with this file that was not there at the start, or empty."""
        at = name.find("/")
        while at >= 0:
            if name[:at] not in self._directories:
                return name[: at + 1]
            at = name.find("/", at + 1)
        return ""

    def _learn(self, names: set[str]) -> None:
        fresh = names - self._memory.written
        if not self._begun or not fresh:
            return
        self._memory.written |= fresh
        if self._start is not None:
            self._memory.state = self._state(self._start)
        self._save()

    def _look(self) -> Snapshot | None:
        began = time.perf_counter()
        found = snapshot(self._workdir, (self._state_dir,), without_environments=True)
        self._looked_s = time.perf_counter()
        self._look_s = self._looked_s - began
        if found is None:
            self.note = (
                f"{self._workdir} holds more than {in_place.MOST_FILES} files, so it is not known "
                "when sources in it change"
            )
        return found

    def _state(self, found: Snapshot, without: Collection[str] = ()) -> str:
        """Of the sources at a moment, as far as it is known which files are some."""
        written = self._memory.written
        directories = tuple(name for name in written if name.endswith("/"))
        lines = sorted(
            f"{name}\0{stamp[0]}\0{stamp[2]}"
            for name, stamp in found.items()
            if name not in written
            and name not in without
            and stamp[3] not in self._ours
            and not name.startswith(directories)
            and not _FOR_PEOPLE.search(name)
            and not (self._excluded and self._excluded.match(name))
        )
        text = "\n".join(lines)
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    def _take_over_killed(self, found: Snapshot) -> None:
        """A sitting was killed: what appeared since is written if nothing else changed."""
        if not self._memory.newest_ns:
            return
        fresh = {
            name
            for name, stamp in found.items()
            if stamp[1] >= self._memory.newest_ns and not is_source(name)
        }
        if fresh and self._state(found, fresh) == self._memory.state:
            self._memory.written |= fresh

    def _save(self) -> None:
        if self._digest:
            self._memory.digests[self._memory.state] = self._digest
        self._memory.write(self._path)

    def _pattern(self, exclude: Iterable[str | Path]) -> re.Pattern[str] | None:
        patterns = []
        for one in exclude:
            path = (self._workdir / one) if isinstance(one, Path) else PurePath(one)
            if path.is_absolute():
                if not path.is_relative_to(self._workdir):
                    continue
                path = path.relative_to(self._workdir)
            if path.parts:
                patterns += [translate(str(path)), translate(f"{path}/*")]
        return re.compile("|".join(patterns)) if patterns else None


def _own_output() -> set[int]:
    """Inodes of the files that this process prints into."""
    found = set()
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            status = os.fstat(stream)
            if stat.S_ISREG(status.st_mode):
                found.add(status.st_ino)
    return found


def _directories(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        parent = name.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found
