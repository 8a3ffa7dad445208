"""What the ranks of a program agreed on: one small file for each problem, written once.

Each process holds a shared lock on the folder of its program. Who comes and finds it free is the
first of a new run, and empties the folder. Folders of other programs that are free are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from skipjack.errors import MalformedError, StorageError
from skipjack.reading import read_json
from skipjack.runtime.ranks import epoch, ranked_program
from skipjack.runtime.warning_once import warn_once
from skipjack.storage import FileLock, atomic_write, ensure_directory

log = logging.getLogger(__name__)

FOLDER = "ranks"
FORMAT = 1
_PATIENCE_S = 600.0
"""For a rank that decides, which may tune: then each decides for itself."""
_MOST_REMOVED = 100
"""How often a folder may be removed by others while it is entered."""
_ENTER = "enter.lock"
"""Held while a folder is entered or removed."""


@dataclass(frozen=True, slots=True)
class AgreedAnswer:
    """What a rank has decided for all."""

    solver: str
    """Empty if nothing can compute the problem."""
    config: str
    """Its key."""
    source: str
    is_banked: bool


class Agreement:
    """The folder of one program, as long as this process lives."""

    def __init__(self, folder: Path) -> None:
        """Enter; `StorageError` where the folder cannot be written to."""
        self._folder, self._held = folder, _enter(folder)

    def settle(self, question: str, decide: Callable[[], AgreedAnswer]) -> AgreedAnswer:
        """What was decided about a question, by this process if nobody did; `StorageError`.

        Others wait while one of them decides. If it dies, the next one does.
        """
        name = hashlib.sha256(question.encode()).hexdigest()[:32]
        path = self._folder / f"{epoch()}-{name}.json"
        if found := _read(path):
            return found
        with FileLock(path.with_suffix(".lock"), log.info, _PATIENCE_S):
            if found := _read(path):
                return found
            decided = decide()
            data = json.dumps({"format": FORMAT, "question": question, **asdict(decided)})
            atomic_write(path, data.encode(), durable=False)
        return decided


_entered: dict[Path, Agreement | None] = {}
"""By folder; None for those that cannot be used."""


def agreement_of(user_dir: Path) -> Agreement | None:
    """That of the program of this process; None if it has no ranks, or nowhere to agree."""
    program = ranked_program()
    if program is None:
        return None
    folder = user_dir / FOLDER / hashlib.sha256(program.name.encode()).hexdigest()[:32]
    if folder not in _entered:
        try:
            _entered[folder] = Agreement(folder)
            _remove_ended(folder)
        except StorageError as error:
            _entered[folder] = None
            warn_once(log, f"ranks may use different kernels: {error}")
    return _entered[folder]


def _enter(folder: Path) -> FileLock:
    """The lock that a process of the program holds; `StorageError`."""
    for _ in range(_MOST_REMOVED):
        ensure_directory(folder)
        try:
            with FileLock(folder / _ENTER, timeout_s=_PATIENCE_S) as entering:
                if not entering.is_current:
                    continue  # the folder was removed meanwhile
                if _nobody_holds(folder):
                    for path in folder.glob("*.json"):
                        path.unlink(missing_ok=True)
                return FileLock(folder / "held.lock", shared=True).__enter__()
        except StorageError:
            if folder.is_dir():
                raise
    raise StorageError(f"others remove {folder} again and again")


def _nobody_holds(folder: Path) -> bool:
    try:
        with FileLock(folder / "held.lock", timeout_s=0.0):
            return True
    except StorageError:
        return False


def _remove_ended(own: Path) -> None:
    """Remove the folders of programs of which no process is left."""
    try:
        locks = list(own.parent.glob(f"*/{_ENTER}"))
    except OSError:
        return
    for lock in locks:
        folder = lock.parent
        if folder == own:
            continue
        with contextlib.suppress(StorageError), FileLock(lock, timeout_s=0.0) as entering:
            if entering.is_current and _nobody_holds(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> AgreedAnswer | None:
    try:
        found = read_json(path.read_bytes()).without("format", FORMAT).mapping()
        found.pop("question", None)
        return AgreedAnswer(**found)
    except (OSError, MalformedError, TypeError):
        return None
