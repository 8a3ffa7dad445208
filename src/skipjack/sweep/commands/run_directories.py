"""The files of each run: its config, its point, what it printed; the oldest are removed."""

from __future__ import annotations

import json
import shutil
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skipjack.storage import ensure_directory
from skipjack.storage.failure import write_failure
from skipjack.sweep.commands.environment import RunFiles

KEPT = 1000
"""Runs whose files are kept."""
OUTPUT = "output.log"


class RunDirectories:
    """A numbered directory per run below one root."""

    def __init__(self, root: Path, kept: int = KEPT) -> None:
        self._root, self._most = ensure_directory(root), kept
        numbers = sorted(int(one.name) for one in root.iterdir() if one.name.isdecimal())
        self._kept = deque(numbers)

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


def write_files(
    directory: Path,
    config: Mapping[str, Any],
    point: Mapping[str, Any],
    build_dir: Path | None = None,
    run_dir: Path | None = None,
    user_conf: tuple[str, ...] | None = None,
) -> RunFiles:
    """Write what a command may read. `user_conf` None: there is none."""
    config_file, point_file = directory / "config.json", directory / "point.json"
    conf_file = None if user_conf is None else directory / "user.conf"
    try:
        config_file.write_text(_json(config))
        point_file.write_text(_json(point))
        if conf_file is not None and user_conf is not None:
            conf_file.write_text("".join(f"{line}\n" for line in user_conf))
    except OSError as error:
        raise write_failure(directory, error) from error
    return RunFiles(config_file, point_file, build_dir, run_dir, conf_file)


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(dict(content), default=str) + "\n"
