"""What the ranks of a program agreed on: one small file for each problem, written once.

Each process holds a shared lock on the folder of its program. Who comes and finds it free is the
first of a new run, and empties the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
import time
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
_KEPT_S = 86_400.0
"""Folders of programs that nobody entered for so long, and nobody holds, are removed."""


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
        self._folder = ensure_directory(folder)
        with FileLock(folder / "enter.lock", timeout_s=_PATIENCE_S):
            if _nobody_holds(folder):
                for path in folder.glob("*.json"):
                    path.unlink(missing_ok=True)
            self._held = FileLock(folder / "held.lock", shared=True)
            self._held.__enter__()

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
            _remove_old(folder)
        except StorageError as error:
            _entered[folder] = None
            warn_once(log, f"ranks may use different kernels: {error}")
    return _entered[folder]


def _nobody_holds(folder: Path) -> bool:
    try:
        with FileLock(folder / "held.lock", timeout_s=0.0):
            return True
    except StorageError:
        return False


def _remove_old(own: Path) -> None:
    with contextlib.suppress(OSError):
        for folder in own.parent.iterdir():
            entered = (folder / "held.lock").stat().st_mtime
            if entered < time.time() - _KEPT_S and _nobody_holds(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> AgreedAnswer | None:
    try:
        found = read_json(path.read_bytes()).without("format", FORMAT).mapping()
        found.pop("question", None)
        return AgreedAnswer(**found)
    except (OSError, MalformedError, TypeError):
        return None
