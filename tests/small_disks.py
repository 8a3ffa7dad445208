"""A real file system of its own size, which a test fills or makes read-only."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, size: str) -> Iterator[Path]:
    """A disk of a size, as ``1m``; the test is skipped where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a small disk: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one mebibyte."""
    with mounted(tmp_path / "disk", "1m") as place:
        yield place


def fill(disk: Path) -> None:
    """Leave no room at all."""
    with (disk / "ballast").open("wb", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass


def make_read_only(disk: Path) -> None:
    """From now on nothing can be written."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
