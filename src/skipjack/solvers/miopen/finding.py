"""Where MIOpenDriver is.

Which MIOpen it belongs to is not asked by ``--version``: that leaves out the build, by which user
databases are told apart. The names of those say it (`databases.Installation`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from skipjack.errors import WorkerError
from skipjack.settings import MIOPEN_DRIVER

VARIABLE = MIOPEN_DRIVER.name
"""The program, where it is neither on the search path nor in ROCm's folder."""
NAME = "MIOpenDriver"
ROCM = Path("/opt/rocm/bin")


def find_driver(environment: Mapping[str, str] = os.environ, rocm: Path = ROCM) -> Path:
    """The program; `WorkerError` says where it was looked for, for another machine may have it."""
    named = MIOPEN_DRIVER.text(environment)
    if named:
        path = Path(named).expanduser().absolute()
        if not _runs(path):
            raise WorkerError(
                f"{VARIABLE} names {path}, which is no program that can be run; "
                f"set it to the path of {NAME}"
            )
        return path
    on_path = shutil.which(NAME, path=environment.get("PATH", os.defpath))
    for place in (on_path, rocm / NAME):
        if place and _runs(Path(place)):
            return Path(place).absolute()
    raise WorkerError(
        f"{NAME} is neither on the search path nor in {rocm}; install MIOpen, "
        f"or set {VARIABLE} to its path"
    )


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
