"""The kernel cache: its limit, what is removed first, and the records of timed guesses in it."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from skipjack.bank import Bank, layers_of
from skipjack.core import Config, Value
from skipjack.errors import LockTimeoutError, MalformedError, SkipjackError, StorageError
from skipjack.native import own_code
from skipjack.reading import read_json
from skipjack.runtime.local_kernels.known_kernels import (
    VerifiedKernel,
    entry_key,
    in_use,
    read_record,
    record_files,
)
from skipjack.settings import Settings
from skipjack.storage import (
    ArtifactStore,
    FileLock,
    StoredArtifact,
    atomic_write,
    sweep,
    write_failure,
)

# The results of guesses that were timed on this machine: small files in the kernel cache.
#
# Their names are digests of all that the guesses depended on.

TIMED_CONFIGS = "guesses"
FORMAT = 1
_MOST_BYTES = 1 << 16
_MOST_SHOWN = 200
_LEAST_RATIO = 1.05
"""A guess must be at least this many times as fast as the library. It is timed briefly and at one
place in memory, which may favour it by a few percent, and it was never measured on this class of
device.
"""
_CLEARLY = 1.03
"""A later guess must be this many times as fast as an earlier one: less may be noise."""


@dataclass(frozen=True, slots=True)
class UntunedConfig:
    """An unmeasured config that may be good, or a sentence that says why there is none."""

    source: str
    """The step of a lookup that proposed it."""
    solver: str = ""
    config: dict[str, Value] = field(default_factory=dict)
    """Empty for a library."""
    ratio: float | None = None
    """The library's time divided by its own; None if it was not timed."""
    fault: str = ""
    """Why it was not timed."""

    def __str__(self) -> str:
        if not self.solver:
            return self.fault
        config = str(Config(self.config))[:_MOST_SHOWN]
        named = f" with {config if config.isprintable() else ascii(config)}" if config else ""
        outcome = f"fails: {self.fault}" if self.ratio is None else f"{self.ratio}"
        return f"{self.solver}{named} ({self.source}) {outcome}"


@dataclass(frozen=True, slots=True)
class TimedConfigs:
    """Guesses with their results, in order."""

    library: str
    """The library they were compared with; empty if none computes the problem."""
    guesses: tuple[UntunedConfig, ...]
    artifact: str = ""
    """The digest of the fastest kernel; empty if that is a library."""
    code: str = ""
    """`own_code` of the Skipjack that timed them; other versions use other keys."""

    @property
    def fastest(self) -> UntunedConfig | None:
        """The guess to use; None if none is clearly faster than the library, or none was timed."""
        best: UntunedConfig | None = None
        for guess in self.guesses:
            is_measure = guess.solver == self.library or not self.library
            if guess.ratio is None or guess.ratio < (0.0 if is_measure else _LEAST_RATIO):
                continue
            if best is None or best.ratio is None or guess.ratio > _CLEARLY * best.ratio:
                best = guess
        return best

    def __str__(self) -> str:
        timed = [str(guess) for guess in self.guesses if guess.solver]
        if not timed:
            return "no guess could be timed"
        beside = self.library or "the first"
        return f"timed here, relative to the speed of {beside}: {', '.join(timed)}"


def find_timed_configs(settings: Settings, key: str) -> TimedConfigs | None:
    """The results stored on this machine; None if there are none."""
    places = (directory / TIMED_CONFIGS / key for directory in settings.kernel_dirs)
    return next(filter(None, map(read_timed_configs, places)), None)


def keep_timed_configs(settings: Settings, key: str, timed: TimedConfigs) -> None:
    """Store results; `StorageError` if they cannot be written."""
    path = settings.kernel_dirs[0] / TIMED_CONFIGS / key
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(path, error) from error
    sweep(path.parent)
    record = json.dumps({"format": FORMAT, **asdict(timed)}, sort_keys=True)
    atomic_write(path, record.encode(), durable=False)


def read_timed_configs(path: Path) -> TimedConfigs | None:
    """The results in a file; None if it cannot be read."""
    try:
        found = read_json(path.read_bytes(), path.name, most=_MOST_BYTES)
        return found.without("format", FORMAT).of(TimedConfigs)
    except (OSError, MalformedError):
        return None


# The size of the kernel cache: the least recently used kernels are removed when it is too large.
#
# Kernels that an entry of a bank in force names stay, as do those that this process uses. A removed
# kernel is built and verified again when it is needed.

log = logging.getLogger(__name__)

_DOWN_TO = 0.9
"""The share of the limit to shrink to, so that not every new kernel causes a scan of the cache."""
_INTERVAL_S = 60.0
_FRUITLESS_S = 3600.0
"""The time between two scans by a process, and after one that could free nothing."""
_OTHER_CODE_S = 30 * 86400.0
"""A kernel of another version of Skipjack, which this one never finds, is kept for its entry until
it has not been used for this long."""


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """The use of the cache."""

    directory: Path
    kernels: int
    """Builds from tuning, and kernels that programs run."""
    used_bytes: int
    limit_bytes: int


def cache_status(settings: Settings) -> CacheStatus:
    """The status of the directory for new kernels."""
    directory = settings.kernel_dirs[0]
    stored = list(ArtifactStore(directory).stored())
    used = sum(one.size for one in stored) + _records_bytes(directory)
    return CacheStatus(directory, len(stored), used, settings.cache_limit)


_next_look: dict[Path, float] = {}


def keep_within_limit(settings: Settings, *, now: bool = False) -> None:
    """Shrink the cache if it is too large, checked `now` or once a minute; never fails.

    After a scan that frees nothing there is none for an hour: banks name all that is there.
    """
    directory, clock = settings.kernel_dirs[0], time.monotonic()
    if clock < _next_look.get(directory, 0.0) and not now:
        return
    none_applicable = trim(settings) is False
    _next_look[directory] = clock + (_FRUITLESS_S if none_applicable else _INTERVAL_S)


def trim(settings: Settings) -> bool | None:
    """Shrink the cache if it is too large; returns whether it is within its limit now.

    None if another process is doing this.
    """
    directory = settings.kernel_dirs[0]
    try:
        if cache_status(settings).used_bytes <= settings.cache_limit:
            return True
        with FileLock(directory / "trim.lock", timeout_s=0):
            # Checked again: the process that held the lock until now may have shrunk it.
            used = cache_status(settings).used_bytes
            excess = used - settings.cache_limit
            if excess <= 0:
                return True
            freed = _free(settings, directory, used - int(settings.cache_limit * _DOWN_TO))
    except LockTimeoutError:
        return None
    except (SkipjackError, OSError) as error:
        # A bank cannot be read, or the directory cannot be written to.
        log.info("the kernel cache %s stays as large as it is for now: %s", directory, error)
        return False
    log.info("%s bytes of the kernel cache %s were freed", freed, directory)
    return freed >= excess


def _free(settings: Settings, directory: Path, goal: int) -> int:
    store = ArtifactStore(directory)
    stored = sorted(store.stored(), key=lambda one: (one.used_ns, one.path.name))
    records = {Path(one.path): read_record(Path(one.path)) for one in record_files(directory)}
    dates = {one.path.name: one.used_ns for one in stored}
    named, ours = _named(settings, [one for one in records.values() if one], dates), in_use()
    freed = 0
    for one in stored:
        if freed >= goal:
            break
        if one.path.name not in named and one.path not in ours:
            freed += _removed(one)
    for path, record in records.items():
        if record is None or record.artifact not in dates or not _is_stored(store, record.artifact):
            freed += _unlinked(path)
    for file in record_files(directory, TIMED_CONFIGS):
        timed = read_timed_configs(Path(file.path))
        current = timed is not None and timed.code == own_code()
        if not current or (timed and timed.artifact and not _is_stored(store, timed.artifact)):
            freed += _unlinked(Path(file.path))
    return freed


@dataclass(frozen=True, slots=True)
class ReleasedKernels:
    """Machine code that was removed, or would be in a dry run."""

    kernels: int
    bytes: int


def release_kernels(
    settings: Settings, digests: Collection[str], unused_since_ns: int, *, dry_run: bool = False
) -> ReleasedKernels:
    """Remove these artifacts, except those that an entry names or that programs use here.

    Artifacts built or used since `unused_since_ns` stay: they may have been stored again.
    """
    directory = settings.kernel_dirs[0]
    found = {one.path.name: one for one in ArtifactStore(directory).stored()}
    records = [read_record(Path(one.path)) for one in record_files(directory)]
    known = [record for record in records if record is not None]
    dates = {name: one.used_ns for name, one in found.items()}
    kept = _named(settings, known, dates) | {record.artifact for record in known}
    free = [one for name, one in found.items() if name in digests and name not in kept]
    ours = in_use()
    free = [one for one in free if one.path not in ours and one.used_ns < unused_since_ns]
    sizes = [one.size if dry_run else _removed(one) for one in free]
    return ReleasedKernels(sum(size > 0 for size in sizes), sum(sizes))


def _is_stored(store: ArtifactStore, digest: str) -> bool:
    try:
        return digest in store
    except StorageError:  # it names no artifact
        return False


def _removed(artifact: StoredArtifact) -> int:
    """The number of bytes freed; 0 if the artifact was used since it was listed."""
    try:
        if artifact.path.stat().st_mtime_ns != artifact.used_ns:
            return 0
    except OSError:
        return 0
    return _unlinked(artifact.path)


def _unlinked(path: Path) -> int:
    try:
        size = path.stat().st_size
        path.unlink()
    except OSError:  # removed by another process, or not permitted
        return 0
    return size


def _records_bytes(directory: Path) -> int:
    total = 0
    for one in (*record_files(directory), *record_files(directory, TIMED_CONFIGS)):
        with contextlib.suppress(OSError):  # removed meanwhile
            total += one.stat().st_size
    return total


def _named(
    settings: Settings, records: list[VerifiedKernel], dates: dict[str, int]
) -> frozenset[str]:
    """Digests to keep: those in entries, and those that were built here for entries."""
    entries: set[str] = set()
    digests: set[str] = set()
    for bank in banks_in_force(settings):
        for entry in bank.all_entries():
            if entry.launch is not None:
                digests.add(entry.launch.artifact)
            try:
                config = Config(entry.config)
                entries.add(entry_key(entry.problem, entry.solver, entry.solver_version, config))
            except (TypeError, ValueError):  # the entry may be malformed
                continue
    oldest_ns = time.time_ns() - int(_OTHER_CODE_S * 1e9)
    for record in records:
        if record.entry in entries and (
            record.code == own_code() or dates.get(record.artifact, 0) > oldest_ns
        ):
            digests.add(record.artifact)
    return frozenset(digests)


def banks_in_force(settings: Settings) -> Iterator[Bank]:
    """The banks whose entries keep their kernels."""
    for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
        yield layer.bank
