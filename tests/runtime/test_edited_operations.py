"""An operation of a plug-in that is edited: no kernel of the old one is given for the new one."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skipjack
from skipjack import operations, plugins
from skipjack.bank import Bank, BankEntry, write_kernel_db
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, banked_kernels
from skipjack.settings import Settings
from skipjack.solvers import find_solver

KEY = "edited:64"
looking: Any = bank_lookup
TEXT = """
from skipjack import operations
from skipjack.operations import ELEMENTWISE

_like = next(one for one in ELEMENTWISE if one.name == "square")


class Edited:
    name = "edited"
    example = "edited:8"

    def __getattr__(self, asked):
        return getattr(_like, asked)

    def nest(self, problem):
        return _like.nest(problem)


operations.register(Edited())
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setenv(plugins.VARIABLE, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(operations.registry, "_known", {**operations.registry._known})
    monkeypatch.setattr(looking, "_kept", {})
    yield tmp_path / "edited.py"


def load(path: Path, text: str) -> None:
    """Load it as the next process would."""
    plugins._loaded.clear()
    looking._kept.clear()
    operations.registry._known.pop("edited", None)
    path.write_text(text)
    plugins.load((str(path),))


def entry(digest: str = "") -> BankEntry:
    device, nest = cpu.detect(), find_solver("nest")
    return BankEntry(
        problem=parse(KEY).key,
        device=device.class_key,
        device_name=device.name,
        solver="nest",
        solver_version=nest.version,
        config=nest.space(parse(KEY), device).default(),
        time_ns=1.0,
        default_ns=1.0,
        vendor_ns=None,
        vendor="",
        speedup={},
        evidence={"artifact": digest},
        created="2026-01-01T00:00:00.000000Z",
    )


def result(kernel: Any) -> float:
    return float(kernel(np.full(64, -3.0, np.float32))[7])


def test_lookup_and_kernel_files_notice(
    user_dir: Path, plugin: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(plugin, TEXT)
    bank, settings, file = Bank.open(user_dir), Settings(user_dir), tmp_path / "mine.skk"
    bank.put(entry())
    assert result(skipjack.lookup(KEY)) == 9.0
    ((record, _),) = banked_kernels(settings).kernels
    bank.put(replace(entry(record.artifact), time_ns=0.5))
    write_kernel_db(file, banked_kernels(settings).kernels)
    with skipjack.kernels(file) as kernels:
        assert result(kernels.find(KEY)) == 9.0

    load(plugin, TEXT.replace('"square"', '"abs"'))
    assert result(skipjack.lookup(KEY)) == 3.0
    with skipjack.kernels(file) as kernels, caplog.at_level(logging.WARNING):
        assert kernels.find(KEY) is None
    assert "another definition of edited" in caplog.text


@pytest.mark.long
def test_tuning_it_again_builds_it_again(user_dir: Path, plugin: Path) -> None:
    script = (
        "import sys, numpy as np, skipjack\n"
        "done = skipjack.tune('edited:64', budget=3, plugins=sys.argv[1], solver='nest')\n"
        "print(done.builds, done.kernel()(np.full(64, -3.0, np.float32))[7])\n"
    )

    def tuned(like: str) -> tuple[int, float]:
        plugin.write_text(TEXT.replace('"square"', f'"{like}"'))
        command = [sys.executable, "-c", script, str(plugin)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        builds, value = done.stdout.split()
        return int(builds), float(value)

    assert tuned("square")[1] == 9.0
    builds, value = tuned("abs")
    assert builds > 0
    assert value == 3.0
