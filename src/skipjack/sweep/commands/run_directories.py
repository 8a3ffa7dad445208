"""A directory for the files of each run; the oldest are removed."""

from __future__ import annotations

import shutil
from collections import deque
from pathlib import Path

from skipjack.storage import ensure_directory, write_failure

KEPT = 1000
"""Runs whose files are kept."""
OUTPUT = "output.log"


class RunDirectories:
    """A numbered directory per run below one root."""

    def __init__(self, root: Path, kept: int = KEPT) -> None:
        self._root, self._most = ensure_directory(root), kept
        names = (one.name for one in root.iterdir())
        self._kept = deque(sorted(int(name) for name in names if name.isdecimal()))

    def new(self) -> Path:
        """An empty directory with the next number."""
        number = self._kept[-1] + 1 if self._kept else 1
        while True:
            path = self._root / f"{number:06d}"
            try:
                path.mkdir()
                break
            except FileExistsError:  # of another process
                number += 1
            except OSError as error:
                raise write_failure(path, error) from error
        self._kept.append(number)
        while len(self._kept) > self._most:
            oldest = self._root / f"{self._kept.popleft():06d}"
            shutil.rmtree(oldest, ignore_errors=True)
        return path
