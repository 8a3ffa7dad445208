"""A store in a file, and the names of bundles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack.fleet.store import Store, open_store


@pytest.fixture
def file_store(user_dir: Path) -> Iterator[Store]:
    """For what does not depend on the kind of database."""
    with open_store(f"sqlite:///{user_dir / 'fleet.sqlite'}") as opened:
        yield opened


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path / "jobs.skj"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results.skj"
