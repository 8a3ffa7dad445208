"""Sources of a benchmark: the files of its working directory that no command writes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from fnmatch import translate
from pathlib import Path, PurePath

from skipjack.errors import MalformedError
from skipjack.interop.loadgen import DETAIL_LOG
from skipjack.reading import read_json
from skipjack.storage import atomic_write, ensure_directory
from skipjack.sweep.bench import content_digest
from skipjack.sweep.commands import snapshots
from skipjack.sweep.commands.results import ResultReader
from skipjack.sweep.commands.snapshots import Snapshot, changed, snapshot

# The record of which files in a working directory builds and runs write.

FORMAT = 1
_MOST_DIGESTS = 100
Tally = tuple[int, int]
"""How often it happened, out of how many times since the first."""


@dataclass(slots=True)
class TrackedFiles:
    """What is known of a working directory from one session to the next."""

    written: set[str] = field(default_factory=set)
    """Files that builds or runs write; a name ending in a slash is a whole directory."""
    changed: dict[str, Tally] = field(default_factory=dict)
    """Files that changed during runs, and may have been edited instead."""
    built: dict[str, Tally] = field(default_factory=dict)
    """The same for code that changed during builds."""
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of sessions, by the state of the sources as known at their end."""
    newest_ns: int = 0
    """In a session that has not ended: later than all files at its start; otherwise 0."""
    state: str = ""
    """The state of the sources at the start of the session."""

    @classmethod
    def read(cls, path: Path) -> TrackedFiles:
        """Read a record; an empty one if the file is missing or malformed."""
        try:
            content = read_json(path.read_bytes(), surrogates=True).without("format", FORMAT)
            written = {name.text() for name in content["written"].elements()}
            return content.of(cls, written=written)
        except (OSError, MalformedError):
            return cls()

    def write(self, path: Path) -> None:
        """Write the record atomically."""
        latest = dict(list(self.digests.items())[-_MOST_DIGESTS:])
        content = {"format": FORMAT, **asdict(self), "digests": latest}
        content["written"] = sorted(self.written)
        atomic_write(path, json.dumps(content).encode(), durable=False)


def frequent(tallies: dict[str, Tally], names: set[str]) -> set[str]:
    """Count an event of these names; returns those for which it is frequent, not just one event.

    Users edit a file now and then; a file that a command writes changes nearly each time.
    """
    found = set()
    for name in tallies.keys() | names:
        often, of = tallies.get(name, (0, 0))
        tallies[name] = (often + (name in names), of + 1)
        if name in names and often and 2 * often >= of:
            found.add(name)
    return found


# Sources of builds and runs: the files of the working directory that they do not write.

WRITTEN = "written.json"
"""The file in the state directory with the names of files that builds and runs write."""
_SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hip", ".s", ".inc"),
        *(".py", ".pyx", ".sh", ".bash", ".pl", ".rs", ".go", ".java", ".kt", ".f90", ".f", ".jl"),
        *(".mk", ".cmake", ".proto", ".ll", ".mlir", ".cl", ".metal"),
    )
)
_NAMES = frozenset(("Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "BUILD", "WORKSPACE"))
_NOT_BUILT_FROM = re.compile(
    r"(^|/)(\.#[^/]*|[^/]*~|\.[^/]*\.sw[a-p]|\.DS_Store|[^/]*\.(md|rst|pdf|html|log|bak|orig|rej))$"
)
"""Files of editors and documents, from which nothing is built."""
_SHARE = 50
"""The directory is scanned at most for one part in this many of the time."""


def is_source(name: str) -> bool:
    """Whether a file is source code, by its name."""
    path = PurePath(name)
    return path.name in _NAMES or path.suffix.lower() in _SUFFIXES


def result_patterns(result: ResultReader) -> tuple[str, ...]:
    """Patterns of result files, which are no sources; ``{name}`` matches anything."""
    if result.kind not in ("json", "loadgen") or result.where == "-":
        return ()
    if result.where.startswith("{"):  # in the directory of the run, or anywhere
        return ()
    pattern = str(PurePath(re.sub(r"\{[^{}]*\}", "*", result.where)))
    if result.kind == "loadgen" and pattern == ".":
        return (DETAIL_LOG.replace("detail.txt", "*"),)
    return (pattern,)


class SourceTracker:
    """Tracks which files below a working directory are sources, and computes their digest.

    Files that builds and runs write are not sources. They are detected during a session: new files,
    new directories, and files that change nearly each time. Files that look like code are sources
    nevertheless, unless builds write them (`wrote`): users edit code while a sweep runs.

    `exclude` has further files that are not sources: paths, with all files below them, or patterns.
    Creating a tracker and asking for its digest writes nothing; a session calls `begin`,
    `note_changes` now and then, and `close`. If a session was killed, files that are new since then
    are taken to be written by it.
    """

    def __init__(self, workdir: Path, state_dir: Path, exclude: Iterable[str | Path] = ()) -> None:
        self._workdir, self._state_dir = workdir.resolve(), state_dir.resolve()
        self._path = self._state_dir / WRITTEN
        self._excluded = self._pattern(exclude)
        self._ours = _own_output()
        self._memory = TrackedFiles.read(self._path)
        self._look_s, self._looked_s = 0.0, 0.0
        self._begun = False
        self.note = ""
        """One sentence if the directory has too many files to be scanned."""
        self._start = self._last = self._look()
        self._directories = _directories(self._start or ())
        self._digest = ""
        if self._start is not None:
            self._take_over_killed(self._start)
            self._memory.state = self._state(self._start)
            self._digest = self._memory.digests.get(self._memory.state, self._memory.state)

    def digest(self) -> str:
        """The digest of the sources at the start of the session; empty if not known."""
        return self._digest

    def begin(self) -> None:
        """Begin a session: builds and runs are made from now on."""
        ensure_directory(self._state_dir)
        self._begun = True
        if self._start is None:
            return
        newest = max((stamp[1] for stamp in self._start.values()), default=0)
        self._memory.newest_ns = newest + 1
        self._save()

    def wrote(self, names: Iterable[str]) -> None:
        """Learn that a build wrote these files."""
        found = set(names)
        there = self._start or {}
        # The user may have edited code meanwhile; a build that writes code does so repeatedly.
        code = {name for name in found if name in there and is_source(name)}
        self._learn((found - code) | frequent(self._memory.built, code))

    def note_changes(self, *, now: bool = False) -> None:
        """Scan for files that were written; without `now`, only if enough time has passed."""
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
        """End the session."""
        if not self._begun:
            return
        self.note_changes(now=True)
        self._memory.newest_ns = 0
        self._save()
        self._begun = False

    def _written(self, names: set[str]) -> set[str]:
        """The names among these that builds or runs write: files and whole directories."""
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
        return found | frequent(self._memory.changed, maybe)

    def _fresh_directory(self, name: str) -> str:
        """The outermost directory of this file that is new since the start; otherwise empty."""
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
                f"{self._workdir} contains more than {snapshots.MOST_FILES} files, so changes of "
                "sources in it are not detected"
            )
        return found

    def _state(self, found: Snapshot, without: Collection[str] = ()) -> str:
        """A digest of the sources in a snapshot, as far as they are known."""
        written = self._memory.written
        directories = tuple(name for name in written if name.endswith("/"))
        lines = sorted(
            f"{name}\0{stamp[0]}\0{stamp[2]}"
            for name, stamp in found.items()
            if name not in written
            and name not in without
            and stamp[3] not in self._ours
            and not name.startswith(directories)
            and not _NOT_BUILT_FROM.search(name)
            and not (self._excluded and self._excluded.match(name))
        )
        text = "\n".join(lines)
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    def _take_over_killed(self, found: Snapshot) -> None:
        """After a killed session, take new files for written if nothing else changed."""
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
    """Inodes of the files to which this process prints."""
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


# The digest of a benchmark's code: when the code changes, earlier results are not used.
#
# It covers the files that look like code, networks or data, and that existed when the benchmark was
# first swept. Files that are added later, such as another sweep file, do not invalidate results.
# Files that builds and runs write are not covered.

_FILE = "code.json"
_MOST_FILES = 5000
_DATA = frozenset(
    (
        *(".onnx", ".pt", ".pth", ".safetensors", ".pb", ".tflite", ".h5", ".npy", ".npz"),
        *(".yaml", ".yml", ".in"),
    )
)


def code_digest(workdir: Path, state_dir: Path, exclude: Iterable[Path] = ()) -> str:
    """A digest of the content of all code files; empty if there are too many files."""
    names = _remembered(state_dir)
    if names is None:
        names = _code_files(workdir, state_dir, exclude)
    if names is None:
        return ""
    written = TrackedFiles.read(state_dir / WRITTEN).written
    digest = hashlib.sha256()
    for name in names:
        if name not in written:
            content = content_digest(workdir / name) or "gone"
            digest.update(f"{name}\0{content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def remember_code(workdir: Path, state_dir: Path, exclude: Iterable[Path] = ()) -> None:
    """Record the present code files, which the digest covers from now on."""
    if _remembered(state_dir) is None:
        names = _code_files(workdir, state_dir, exclude)
        if names is not None:
            atomic_write(state_dir / _FILE, json.dumps(names).encode())


def _remembered(state_dir: Path) -> list[str] | None:
    try:
        names = read_json((state_dir / _FILE).read_bytes(), surrogates=True)
        return [name.text() for name in names.elements()]
    except (OSError, MalformedError):
        return None


def _code_files(workdir: Path, state_dir: Path, exclude: Iterable[Path]) -> list[str] | None:
    found = snapshot(workdir, (state_dir, *exclude), without_environments=True)
    if found is None:
        return None
    left_out = {path.resolve() for path in exclude}
    names = sorted(
        name
        for name in found
        if (is_source(name) or PurePath(name).suffix.lower() in _DATA)
        and (workdir / name).resolve() not in left_out
    )
    return names if len(names) <= _MOST_FILES else None
