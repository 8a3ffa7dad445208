"""The folders and variables of one worker, which isolate its MIOpen from other workers.

Each worker has its own databases, kernel cache and GPU, like the threads of Tuna. The databases in
the home directory are neither read nor written.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import StorageError
from skipjack.solvers.miopen.solver import Mode

MIOPEN_FOLDER = "miopen"
"""The folder in the user directory."""
_FIND_MODES = {Mode.SEARCH: 1, Mode.FIND: 1, Mode.KERNELS: 3}
_SEARCH_AND_OVERWRITE = 4
_VISIBLE = "HIP_VISIBLE_DEVICES"
_REMOVED_VARIABLES = (
    *("MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE", "MIOPEN_DEBUG_FIND_ONLY_SOLVER"),
    *("MIOPEN_DISABLE_CACHE", "MIOPEN_DEBUG_DISABLE_FIND_DB", "MIOPEN_DEBUG_COMPILE_ONLY"),
    *("MIOPEN_DEVICE_ARCH", "MIOPEN_DEVICE_CU", "MIOPEN_DEBUG_DISABLE_USER_DB"),
)
"""Variables that are removed, because they would change what the databases contain."""
SET_VARIABLES = frozenset(
    {
        *(_VISIBLE, "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "MIOPEN_FIND_MODE"),
        *("MIOPEN_FIND_ENFORCE", "MIOPEN_LOG_LEVEL", "MIOPEN_DRIVER_USE_GPU_REFERENCE"),
        *("MIOPEN_SQLITE_KERN_CACHE", "MIOPEN_DEBUG_IMPLICIT_GEMM_FIND_ALL_SOLUTIONS"),
    }
)
"""Variables that `variables` sets for the worker and the mode."""


@dataclass(frozen=True, slots=True)
class WorkerFolders:
    """The folders of a worker."""

    root: Path

    @property
    def user_db(self) -> Path:
        """Find-db and perf-db of the current run; emptied before each run."""
        return self.root / "user-db"

    @property
    def cache(self) -> Path:
        """Compiled kernels; kept, because problems share many of them."""
        return self.root / "cache"

    @property
    def winning_kernels(self) -> Path:
        """The cache for the kernels of a single problem; emptied before each run."""
        return self.root / "winners"

    @property
    def output(self) -> Path:
        """The output of the last run."""
        return self.root / "output.txt"

    def cache_for(self, mode: Mode) -> Path:
        """The kernel cache for a mode."""
        return self.winning_kernels if mode is Mode.KERNELS else self.cache

    def prepare(self, mode: Mode) -> None:
        """Create the folders, and remove the results of an earlier run."""
        stale = (self.user_db, self.winning_kernels) if mode is Mode.KERNELS else (self.user_db,)
        for folder in stale:
            _remove(folder)
        for folder in (self.user_db, self.cache_for(mode)):
            folder.mkdir(parents=True, exist_ok=True)


def _remove(folder: Path) -> None:
    """Remove a folder if it exists; `StorageError` if something remains."""
    try:
        while folder.exists():
            with suppress(FileNotFoundError):  # another process removes it, too
                shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(
            f"cannot empty {folder}: {error}; remove it, or its files would be taken for results"
        ) from None


def worker_folders(user_dir: Path, machine: str, gpu: str) -> WorkerFolders:
    """The folders of the worker with this GPU; machines may share a user directory."""
    return WorkerFolders(
        user_dir / MIOPEN_FOLDER / re.sub(r"[^A-Za-z0-9_.-]", "_", f"{machine}.{gpu}")
    )


def variables(
    place: WorkerFolders, mode: Mode, gpu: str, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The complete environment of a run on a GPU (``hip:0``)."""
    kept = {name: value for name, value in base.items() if name not in _REMOVED_VARIABLES}
    kept |= {
        "MIOPEN_USER_DB_PATH": str(place.user_db),
        "MIOPEN_CUSTOM_CACHE_DIR": str(place.cache_for(mode)),
        "MIOPEN_FIND_MODE": str(_FIND_MODES[mode]),
        "MIOPEN_LOG_LEVEL": base.get("MIOPEN_LOG_LEVEL", "4"),
        # Checking a large convolution on the CPU takes minutes.
        "MIOPEN_DRIVER_USE_GPU_REFERENCE": "1",
        # As in Tuna: kernels are stored in a database, and results include every implicit GEMM.
        "MIOPEN_SQLITE_KERN_CACHE": "ON",
        "MIOPEN_DEBUG_IMPLICIT_GEMM_FIND_ALL_SOLUTIONS": "1",
        _VISIBLE: visible(gpu, base.get(_VISIBLE, "")),
    }
    if mode is Mode.SEARCH:
        kept["MIOPEN_FIND_ENFORCE"] = str(_SEARCH_AND_OVERWRITE)
    return kept


def visible(gpu: str, already: str = "") -> str:
    """The value of ``HIP_VISIBLE_DEVICES`` for a GPU that this process knows as, say, ``hip:1``.

    If a scheduler has already hidden other GPUs, our numbers are indices in its list.
    ``ROCR_VISIBLE_DEVICES`` works one layer below, and our numbers already count only the GPUs that
    it leaves visible, so that it is kept.
    """
    number = gpu.rpartition(":")[2]
    shown = [one.strip() for one in already.split(",") if one.strip()]
    if shown and number.isdigit() and int(number) < len(shown):
        return shown[int(number)]
    return number
