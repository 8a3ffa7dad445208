"""The size of the kernel cache: the kernels that were used least recently go when it is too large.

What an entry of a bank in force names stays, as does what this process uses. A kernel that is gone
is built and verified again when it is needed again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from skipjack.bank import Bank, layers_of
from skipjack.core.config import Config
from skipjack.errors import LockTimeoutError, SkipjackError, StorageError
from skipjack.native.own_code import own_code
from skipjack.runtime.checks import GUESSES, read_guesses
from skipjack.runtime.verified import VerifiedKernel, entry_key, in_use, read_record, record_files
from skipjack.settings import Settings
from skipjack.storage import ArtifactStore, FileLock, StoredArtifact

log = logging.getLogger(__name__)

_DOWN_TO = 0.9
"""Of the limit, so that not every kernel that is added costs a look at all of them."""
_INTERVAL_S = 60.0
_FRUITLESS_S = 3600.0
"""Between two looks of a process, and after one that could free nothing."""
_OTHER_CODE_S = 30 * 86400.0
"""A kernel of another version of Skipjack, which this one never finds, stays for its entry's sake
until nobody has used it for so long."""


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """How full the cache is."""

    directory: Path
    kernels: int
    """Builds of tunings, whether they won or not, and kernels that programs run."""
    used_bytes: int
    limit_bytes: int


def cache_status(settings: Settings) -> CacheStatus:
    """Of the directory that new kernels go to."""
    directory = settings.kernel_dirs[0]
    stored = list(ArtifactStore(directory).stored())
    used = sum(one.size for one in stored) + _records_bytes(directory)
    return CacheStatus(directory, len(stored), used, settings.cache_limit)


_next_look: dict[Path, float] = {}


def keep_within_limit(settings: Settings, *, now: bool = False) -> None:
    """Make room if the cache is too large, which is looked at `now` or every minute; never fails.

    A look that frees nothing is the last one for an hour: all that is there is named by banks.
    """
    directory, clock = settings.kernel_dirs[0], time.monotonic()
    if clock < _next_look.get(directory, 0.0) and not now:
        return
    in_vain = trim(settings) is False
    _next_look[directory] = clock + (_FRUITLESS_S if in_vain else _INTERVAL_S)


def trim(settings: Settings) -> bool | None:
    """Make room if the cache is too large; whether it is within its limit now.

    None if another process is at it.
    """
    directory = settings.kernel_dirs[0]
    try:
        if cache_status(settings).used_bytes <= settings.cache_limit:
            return True
        with FileLock(directory / "trim.lock", timeout_s=0):
            # Looked at again: a process that held the lock until now may have made room.
            used = cache_status(settings).used_bytes
            excess = used - settings.cache_limit
            if excess <= 0:
                return True
            freed = _free(settings, directory, used - int(settings.cache_limit * _DOWN_TO))
    except LockTimeoutError:
        return None
    except (SkipjackError, OSError) as error:
        # A bank cannot be read, or nothing can be written here.
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
    for file in record_files(directory, GUESSES):
        timed = read_guesses(Path(file.path))
        current = timed is not None and timed.code == own_code()
        if not current or (timed and timed.artifact and not _is_stored(store, timed.artifact)):
            freed += _unlinked(Path(file.path))
    return freed


@dataclass(frozen=True, slots=True)
class ReleasedKernels:
    """Machine code that was removed, or would be."""

    kernels: int
    bytes: int


def release_kernels(
    settings: Settings, digests: Collection[str], unused_since_ns: int, *, dry_run: bool = False
) -> ReleasedKernels:
    """Remove these artifacts, except those that an entry names or that programs use here.

    What somebody has built or used since `unused_since_ns` stays: it may have been put there again.
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
    """The bytes that are free now; 0 if somebody has used the artifact since it was looked at."""
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
    except OSError:  # another process was faster, or may and we may not
        return 0
    return size


def _records_bytes(directory: Path) -> int:
    total = 0
    for one in (*record_files(directory), *record_files(directory, GUESSES)):
        with contextlib.suppress(OSError):  # gone in the meantime
            total += one.stat().st_size
    return total


def _named(
    settings: Settings, records: list[VerifiedKernel], dates: dict[str, int]
) -> frozenset[str]:
    """Digests that stay: those that entries say, and those that were built for entries here."""
    entries: set[str] = set()
    digests: set[str] = set()
    for bank in banks_in_force(settings):
        for entry in bank.all_entries():
            if entry.launch is not None:
                digests.add(entry.launch.artifact)
            try:
                config = Config(entry.config)
                entries.add(entry_key(entry.problem, entry.solver, entry.solver_version, config))
            except (TypeError, ValueError):  # an entry may be odd in any way
                continue
    oldest_ns = time.time_ns() - int(_OTHER_CODE_S * 1e9)
    for record in records:
        if record.entry in entries and (
            record.code == own_code() or dates.get(record.artifact, 0) > oldest_ns
        ):
            digests.add(record.artifact)
    return frozenset(digests)


def banks_in_force(settings: Settings) -> Iterator[Bank]:
    """Whose entries keep their kernels."""
    for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
        yield layer.bank
