"""The folders and variables of one worker: MIOpen finds nothing of others, and leaves it nothing.

A worker has databases, a cache of kernels and a GPU of its own, as Tuna gives each of its threads.
The home directory's databases are neither read nor written.
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
from skipjack.solvers.miopen.command import Mode

FOLDER = "miopen"
"""In the user directory."""
_FIND_MODES = {Mode.SEARCH: 1, Mode.FIND: 1, Mode.KERNELS: 3}
_SEARCH_AND_OVERWRITE = 4
_VISIBLE = "HIP_VISIBLE_DEVICES"
_OURS = (
    *("MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE", "MIOPEN_DEBUG_FIND_ONLY_SOLVER"),
    *("MIOPEN_DISABLE_CACHE", "MIOPEN_DEBUG_DISABLE_FIND_DB", "MIOPEN_DEBUG_COMPILE_ONLY"),
    *("MIOPEN_DEVICE_ARCH", "MIOPEN_DEVICE_CU", "MIOPEN_DEBUG_DISABLE_USER_DB"),
)
"""Whatever the user's shell says of these would make databases of something else."""
SET = frozenset(
    {
        *(_VISIBLE, "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "MIOPEN_FIND_MODE"),
        *("MIOPEN_FIND_ENFORCE", "MIOPEN_LOG_LEVEL", "MIOPEN_DRIVER_USE_GPU_REFERENCE"),
        *("MIOPEN_SQLITE_KERN_CACHE", "MIOPEN_DEBUG_IMPLICIT_GEMM_FIND_ALL_SOLUTIONS"),
    }
)
"""What `variables` says of the worker and of what is to be done."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a worker."""

    root: Path

    @property
    def user_db(self) -> Path:
        """Find-db and perf-db of the run at hand: emptied before each."""
        return self.root / "user-db"

    @property
    def cache(self) -> Path:
        """Kernels that were compiled; kept, for problems share many of them."""
        return self.root / "cache"

    @property
    def winners(self) -> Path:
        """A cache for the kernels of one problem alone: emptied before each run."""
        return self.root / "winners"

    @property
    def output(self) -> Path:
        """What the last run printed."""
        return self.root / "output.txt"

    def cache_for(self, mode: Mode) -> Path:
        """Where kernels go."""
        return self.winners if mode is Mode.KERNELS else self.cache

    def prepare(self, mode: Mode) -> None:
        """Make the folders; what a run before may have left of its results is gone afterwards."""
        stale = (self.user_db, self.winners) if mode is Mode.KERNELS else (self.user_db,)
        for folder in stale:
            _remove(folder)
        for folder in (self.user_db, self.cache_for(mode)):
            folder.mkdir(parents=True, exist_ok=True)


def _remove(folder: Path) -> None:
    """Remove it, if it is there; `StorageError` if something of it stays."""
    try:
        while folder.exists():
            with suppress(FileNotFoundError):  # of what somebody else has removed, the rest
                shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(
            f"cannot empty {folder}: {error}; what is there would be taken for a result, remove it"
        ) from None


def place_of(user_dir: Path, machine: str, gpu: str) -> Place:
    """That of the worker with this GPU; machines may share a user directory."""
    return Place(user_dir / FOLDER / re.sub(r"[^A-Za-z0-9_.-]", "_", f"{machine}.{gpu}"))


def variables(
    place: Place, mode: Mode, gpu: str, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The whole environment of a run on a GPU (``hip:0``)."""
    kept = {name: value for name, value in base.items() if name not in _OURS}
    kept |= {
        "MIOPEN_USER_DB_PATH": str(place.user_db),
        "MIOPEN_CUSTOM_CACHE_DIR": str(place.cache_for(mode)),
        "MIOPEN_FIND_MODE": str(_FIND_MODES[mode]),
        "MIOPEN_LOG_LEVEL": base.get("MIOPEN_LOG_LEVEL", "4"),
        # The processor's own check of a large convolution takes minutes.
        "MIOPEN_DRIVER_USE_GPU_REFERENCE": "1",
        # As Tuna has them: kernels in a database, and every implicit GEMM among the results.
        "MIOPEN_SQLITE_KERN_CACHE": "ON",
        "MIOPEN_DEBUG_IMPLICIT_GEMM_FIND_ALL_SOLUTIONS": "1",
        _VISIBLE: visible(gpu, base.get(_VISIBLE, "")),
    }
    if mode is Mode.SEARCH:
        kept["MIOPEN_FIND_ENFORCE"] = str(_SEARCH_AND_OVERWRITE)
    return kept


def visible(gpu: str, already: str = "") -> str:
    """What ``HIP_VISIBLE_DEVICES`` must say for a GPU that this process knows as ``hip:1``.

    Where a scheduler has hidden others already, our numbers are places in its list.
    ``ROCR_VISIBLE_DEVICES`` hides them a layer below, and numbers count those it leaves: it stays.
    """
    number = gpu.rpartition(":")[2]
    shown = [one.strip() for one in already.split(",") if one.strip()]
    if shown and number.isdigit() and int(number) < len(shown):
        return shown[int(number)]
    return number
