"""What became of guesses that were timed on this machine: one small file of the kernel cache each.

They are named by all that there was to guess.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from skipjack.core.config import Config, Value
from skipjack.errors import MalformedError
from skipjack.reading import read_json
from skipjack.settings import Settings
from skipjack.storage import atomic_write, sweep, write_failure

GUESSES = "guesses"
FORMAT = 1
_MOST_BYTES = 1 << 16
_MOST_SHOWN = 200
_LEAST_RATIO = 1.05
"""A guess must be so many times as fast as the library. It is timed for a moment and at one place
in memory, which may flatter it by a few percent, and nobody measured it for this class of device.
"""
_CLEARLY = 1.03
"""A guess that is behind another in the order must be so many times as fast: less may be noise."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A config that may be good, or the sentence that says why there is none."""

    source: str
    """The step of a lookup that it is of."""
    solver: str = ""
    config: dict[str, Value] = field(default_factory=dict)
    """Empty for a library."""
    ratio: float | None = None
    """The library's time over its own; None if it was not timed."""
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
class TimedGuesses:
    """What became of guesses, in their order."""

    library: str
    """What they were timed beside; empty if no library computes the problem."""
    guesses: tuple[Guess, ...]
    artifact: str = ""
    """The digest of the fastest kernel; empty where that is a library's."""
    code: str = ""
    """`own_code` of the Skipjack that timed them: another one looks for another key."""

    @property
    def fastest(self) -> Guess | None:
        """The one to use; None if none is clearly faster than the library, or nothing was timed."""
        best: Guess | None = None
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
            return "there is nothing to time"
        beside = self.library or "the first"
        return f"timed here, as multiples of the speed of {beside}: {', '.join(timed)}"


def find_guesses(settings: Settings, key: str) -> TimedGuesses | None:
    """What came out on this machine before, if it did."""
    places = (directory / GUESSES / key for directory in settings.kernel_dirs)
    return next(filter(None, map(read_guesses, places)), None)


def keep_guesses(settings: Settings, key: str, timed: TimedGuesses) -> None:
    """Remember what came out; `StorageError` where that cannot be written."""
    path = settings.kernel_dirs[0] / GUESSES / key
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(path, error) from error
    sweep(path.parent)
    record = json.dumps({"format": FORMAT, **asdict(timed)}, sort_keys=True)
    atomic_write(path, record.encode(), durable=False)


def read_guesses(path: Path) -> TimedGuesses | None:
    """What is remembered in a file, if it can be read."""
    try:
        found = read_json(path.read_bytes(), path.name, most=_MOST_BYTES)
        return found.without("format", FORMAT).of(TimedGuesses)
    except (OSError, MalformedError):
        return None
