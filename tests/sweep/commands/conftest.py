"""A working directory, and benches in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shell_bench import Make, ShellBenches


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def make(work: Path, tmp_path: Path) -> Iterator[Make]:
    """Makes benches of shell scripts."""
    benches = ShellBenches(work, tmp_path / "state")
    yield benches
    benches.close()
