"""What was found when a kernel raced PyTorch's, so that no other process has to find it again.

A verdict is for a call, a version of PyTorch, a class of device and the very machine code. The
first one that is written stays: ranks of a program that raced at the same time agree on it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import get_ident

from skipjack.errors import MalformedError
from skipjack.integrations.torch.confirming import HookVerdict
from skipjack.reading import Field, read_json
from skipjack.storage import ensure_directory

FOLDER = "torch"
FORMAT = 1


def verdict_key(parts: Sequence[object]) -> str:
    """Of what a verdict is about."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


class HookVerdicts:
    """Small files in the user directory."""

    def __init__(self, user_dir: Path) -> None:
        self._folder = user_dir / FOLDER

    def find(self, key: str) -> HookVerdict | None:
        """The verdict; None if there is none that can be read."""
        try:
            return _verdict(read_json((self._folder / f"{key}.json").read_bytes()))
        except (OSError, MalformedError):
            return None

    def put(self, key: str, verdict: HookVerdict) -> HookVerdict:
        """Keep it, unless there is one; gives the one that holds."""
        text = json.dumps({"format": FORMAT, **asdict(verdict)})
        path = self._folder / f"{key}.json"
        draft = self._folder / f"{key}.{os.getpid()}.{get_ident()}.draft"
        try:
            ensure_directory(self._folder)
            try:
                draft.write_text(text)
                if not _linked(draft, path) and self.find(key) is None:
                    draft.replace(path)  # what is there cannot be read
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


def _verdict(found: Field) -> HookVerdict | None:
    verdict = found.without("format", FORMAT).of(HookVerdict)
    return verdict if verdict.way is None or verdict.way > 0 else None
