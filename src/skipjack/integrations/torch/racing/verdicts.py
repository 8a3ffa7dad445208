"""What was found when a kernel raced PyTorch's, so that no other process has to find it again.

A verdict is for a call, a version of PyTorch, a class of device and the very machine code. The
first one that is written stays: ranks of a program that raced at the same time agree on it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from threading import get_ident

from skipjack.errors import MalformedError
from skipjack.integrations.torch.racing.race import HookVerdict
from skipjack.reading import read_json
from skipjack.storage import ensure_directory

FOLDER = "torch"
FORMAT = 2
_MOST_READ = 4096


def verdict_key(parts: Sequence[object]) -> str:
    """Of what a verdict is about."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class VerdictSubject:
    """What a verdict is about, as far as others want to know it."""

    op: str
    """As PyTorch calls it, as ``aten::mm``."""
    backend: str
    """``cpu`` or ``cuda``."""
    torch: str
    """Its version."""


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """As it is in its file."""

    subject: VerdictSubject
    verdict: HookVerdict


class HookVerdicts:
    """Small files in the user directory."""

    def __init__(self, user_dir: Path) -> None:
        self._folder = user_dir / FOLDER

    def find(self, key: str) -> HookVerdict | None:
        """The verdict; None if there is none that can be read."""
        try:
            return _stored(self._folder / f"{key}.json").verdict
        except (OSError, MalformedError):
            return None

    def all(self) -> Iterator[StoredVerdict]:
        """All that can be read."""
        for path in islice(self._folder.glob("*.json"), _MOST_READ):
            with suppress(OSError, MalformedError):
                yield _stored(path)

    def put(
        self,
        key: str,
        verdict: HookVerdict,
        subject: VerdictSubject,
        instead: HookVerdict | None = None,
    ) -> HookVerdict:
        """Keep it, unless there is one other than `instead`; gives the one that holds."""
        text = json.dumps({"format": FORMAT, **asdict(StoredVerdict(subject, verdict))})
        path = self._folder / f"{key}.json"
        draft = self._folder / f"{key}.{os.getpid()}.{get_ident()}.draft"
        try:
            ensure_directory(self._folder)
            try:
                draft.write_text(text)
                if not _linked(draft, path) and self.find(key) in (None, instead):
                    draft.replace(path)  # what is there cannot be read, or was not sure
            finally:
                draft.unlink(missing_ok=True)
        except OSError:
            return verdict  # the next process finds out again
        return self.find(key) or verdict


def _linked(draft: Path, path: Path) -> bool:
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    return True


def _stored(path: Path) -> StoredVerdict:
    found = read_json(path.read_bytes())
    stored = found.without("format", FORMAT).of(StoredVerdict)
    if stored.verdict.way is not None and stored.verdict.way < 1:
        raise MalformedError(f"{path.name}: there is no way {stored.verdict.way}")
    return stored
