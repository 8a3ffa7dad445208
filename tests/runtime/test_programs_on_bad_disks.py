"""A program whose user directory is full or read-only goes on, and is told once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from numpy_entry import entry

from processes import PATIENCE_S
from skipjack.bank import Bank
from small_disks import disk, fill, make_read_only

__all__ = ["disk"]

PROGRAM = """
import numpy, skipjack
a = numpy.ones(64, numpy.float32)
for key in ("add:64", "mul:64", "sub:64"):
    for _ in range(3):
        kernel = skipjack.lookup(key)
        kernel(a, a)
        skipjack.reload()
    print(key, kernel.source == "user")
"""
RANK = {"RANK": "0", "WORLD_SIZE": "2"}


@pytest.mark.parametrize("bad", [fill, make_read_only])
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SKIPJACK_ON_MISS": "record"},
        RANK,
        pytest.param({"SKIPJACK_ON_MISS": "fleet"}, marks=pytest.mark.long),
        {"SKIPJACK_ON_MISS": "tune", "SKIPJACK_TUNING_SECONDS": "1"},
        pytest.param(
            {"SKIPJACK_FIND_ENFORCE": "4", "SKIPJACK_TUNING_SECONDS": "1", **RANK},
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda given: "-".join(given.values()) if isinstance(given, dict) else "",
)
def test_a_program_goes_on(
    disk: Path,
    user_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: object,
    environment: dict[str, str],
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(disk / "user"))
    for name in ("SKIPJACK_FIND_ENFORCE", "SKIPJACK_ON_MISS", "SKIPJACK_DB", "RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    Bank.open(disk / "user").put(entry("add:64"))
    assert callable(bad)
    bad(disk)
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "add:64 True"  # what was known stays known
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(set(lines)), lines  # each is told once
