"""Which tests share a worker of pytest-xdist, and in which order files are handed out.

The tests of a file run in one worker, so that what a fixture prepares for the file (a tuning, a
server) is prepared once. pytest-xdist 3.8 does this by marks (`--dist loadgroup`), which it loses
silently with pytest 9.2: each test went to any free worker, and each worker prepared the fixtures
of nearly every file.
"""

from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
ALONE = ("test_marked_blocks_run", "fleet/acceptance/")
"""Tests that take long and share no fixture with their file: each is a share of its own."""
SLOWEST = (
    "docs",
    "fleet/acceptance",
    "fleet/slurm",
    "fleet/engines",
    "tuning",
    "cli",
    "examples_loadgen",
    "fleet",
    "sweep",
    "solvers",
)
"""Folders of files that take a minute rather than a second, in this order."""


class FilesToWorkers(LoadScopeScheduling):
    """Hands out one file after the other, and long tests one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)


def share_of(nodeid: str) -> str:
    """The tests with equal shares run in one worker."""
    return nodeid if any(part in nodeid for part in ALONE) else nodeid.partition("::")[0]


def turn_of(item: pytest.Item) -> int:
    """Slow files go first, so that no worker is left alone with one of them at the end."""
    place = item.path.relative_to(TESTS)
    folders = {parent.as_posix() for parent in place.parents}
    turns = (turn for turn, folder in enumerate(SLOWEST) if folder in folders)
    return next(turns, len(SLOWEST))
