"""Programs that tests need and a machine may lack: without one a test is skipped, and fails in CI.

A skip looks like success. Where ``CI=true`` is set everything in `PARTS` is expected to be there.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

PARTS = {
    "PostgreSQL": ("postgres", "psycopg"),
    "MariaDB": ("mariadb", "mysql"),
    "Ray": ("ray",),
    "Slurm": ("slurm", "slurmctld", "sbatch", "munge"),
    "Chromium": ("chromium", "chrome", "playwright"),
    "Prometheus": ("prometheus",),
    "QEMU": ("qemu",),
    "OpenSSH": ("ssh", "sshd", "openssh"),
}
"""Parts whose tests must not be skipped under ``CI=true``, with words that a skip of one has."""


def lacking(part: str, why: str) -> NoReturn:
    """End this test, which cannot run here: a failure under ``CI=true``, else a skip."""
    assert part in PARTS, f"{part} is not listed in needs.PARTS"
    sentence = f"needs {part}: {why}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{sentence}; under CI=true it must be installed", pytrace=False)
    pytest.skip(sentence)


def need_ray() -> None:
    """Go on if Ray can be imported."""
    try:
        import ray  # noqa: F401
    except ImportError:
        lacking("Ray", "ray is not installed")
