"""How long programs took that ``skipjack exec`` ran: with kernels of ours, and before.

One small file for each program in the user directory. A program is its command line and the
directory that it was started in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from skipjack.errors import MalformedError, StorageError
from skipjack.reading import read_json
from skipjack.storage import atomic_write, ensure_directory

FOLDER = "programs"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ProgramTimes:
    """The last run of each kind, in seconds; None if there was none."""

    command: tuple[str, ...]
    directory: str
    untuned_s: float | None = None
    """Without a kernel of ours."""
    tuned_s: float | None = None
    """With kernels of ours, and without a search."""


class ProgramRecords:
    """What is known of programs."""

    def __init__(self, user_dir: Path) -> None:
        self._folder = user_dir / FOLDER

    def find(self, command: Sequence[str], directory: str) -> ProgramTimes:
        """What is known of a program, which may be nothing."""
        unknown = ProgramTimes(tuple(command), directory)
        try:
            field = read_json(self._path(unknown).read_bytes())
            if field["format"].integer() != FORMAT:
                return unknown
            found = field.without("format", FORMAT).of(ProgramTimes)
        except (OSError, MalformedError):
            return unknown
        return found if (found.command, found.directory) == (tuple(command), directory) else unknown

    def note(self, times: ProgramTimes, seconds: float, *, was_tuned: bool) -> None:
        """Keep the time of a run; where nothing can be written, the next run knows no other."""
        now = replace(times, tuned_s=seconds) if was_tuned else replace(times, untuned_s=seconds)
        text = json.dumps({"format": FORMAT, **asdict(now)})
        try:
            ensure_directory(self._folder)
            atomic_write(self._path(times), text.encode(), durable=False)
        except (OSError, StorageError):
            return

    def _path(self, times: ProgramTimes) -> Path:
        key = json.dumps([times.command, times.directory])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
