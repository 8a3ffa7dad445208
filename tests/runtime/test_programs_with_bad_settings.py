"""A setting that a lookup can do without never ends the program: one warning, and its default."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skipjack
from processes import PATIENCE_S
from skipjack.errors import StorageError, UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import reload
from skipjack.runtime.process.program import _said
from skipjack.settings import load_settings
from skipjack.solvers import find_solver

PROGRAM = """
import numpy, skipjack
a = numpy.ones(64, numpy.float32)
for key in ("add:64", "mul:64"):
    for _ in range(2):
        assert skipjack.lookup(key)(a, a).shape == (64,)
        skipjack.reload()
"""


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that begins."""
    _said.clear()
    reload()


def asked() -> None:
    """As a program asks, several times."""
    ones = np.ones(64, np.float32)
    for key in ("add:64", "mul:64", "add:64"):
        found = skipjack.lookup(key)
        assert found is not None
        assert np.all(found(ones, ones) >= 1)
        reload()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SKIPJACK_CORE", "100000"),
        ("SKIPJACK_CACHE_LIMIT", "lots"),
        ("SKIPJACK_LOG_LEVEL", "loud"),
        ("SKIPJACK_BUILD_WORKERS", "many"),
        ("SKIPJACK_AUTOTUNE", "maybe"),
        ("SKIPJACK_PLUGINS", "no_such_module_anywhere"),
        ("SKIPJACK_BANKS", "~nobody_of_this_name/bank.jsonl"),
    ],
)
def test_a_bad_variable_is_told_once(
    user_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    value: str,
) -> None:
    monkeypatch.setenv(variable, value)
    asked()
    told = [one for one in caplog.messages if value in one]
    assert len(told) == 1
    assert told[0].endswith("it is ignored")
    if variable != "SKIPJACK_PLUGINS":
        with pytest.raises(UsageError, match=variable):
            load_settings()


@pytest.mark.parametrize(
    "text", ["no_such_key = 1\n", "core = \n", "limits = 3\n", "core = true\n"]
)
def test_a_bad_file_is_told_once(
    user_dir: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    user_dir.mkdir(exist_ok=True)
    (user_dir / "config.toml").write_text(text)
    asked()
    assert len([one for one in caplog.messages if "config.toml" in one]) == 1
    with pytest.raises(UsageError):
        load_settings()


def test_what_the_call_itself_says_is_checked(user_dir: Path) -> None:
    with pytest.raises(UsageError, match="no_such_module_anywhere"):
        skipjack.lookup("add:64", plugins="no_such_module_anywhere")


def test_a_level_that_the_cpu_lacks_is_told_once(user_dir: Path) -> None:
    environment = {**os.environ, "SKIPJACK_CPU_LEVEL": "x86-64-v99"}
    lines = run([sys.executable, "-c", PROGRAM], environment)
    assert [line for line in lines if "SKIPJACK_CPU_LEVEL" in line] == lines
    assert len(lines) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO here")
@pytest.mark.parametrize("name", ["config.toml", "bank.jsonl", "other.jsonl"])
def test_a_fifo_is_refused(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    user_dir.mkdir(exist_ok=True)
    os.mkfifo(user_dir / name)
    if name == "other.jsonl":
        monkeypatch.setenv("SKIPJACK_BANKS", str(user_dir / name))
    asked()
    told = [one for one in caplog.messages if "it is not a plain file" in one]
    assert len(told) == 1
    if name == "config.toml":
        with pytest.raises(StorageError, match="not a plain file"):
            load_settings()


def test_a_user_directory_that_cannot_be_read_is_told_once(user_dir: Path) -> None:
    user_dir.mkdir(exist_ok=True)
    user_dir.chmod(0)
    command = [sys.executable, "-c", PROGRAM]
    if os.geteuid() == 0:
        rights = "-dac_override,-dac_read_search,-fowner"
        command = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", *command]
    try:
        lines = run(command, dict(os.environ))
    finally:
        user_dir.chmod(0o700)
    assert len([line for line in lines if "cannot read" in line]) == 1
    assert len([line for line in lines if "kernels cannot be stored" in line]) <= 1


def test_a_kernel_cache_that_cannot_be_written_is_told_once(
    user_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SKIPJACK_CUSTOM_CACHE_DIR", str(tmp_path / "file" / "cache"))
    for key in ("add:64", "mul:64"):
        config = find_solver("nest").space(parse(key), cpu.detect()).default()
        assert skipjack.lookup(key, solver="nest", config=config) is not None
    assert len([one for one in caplog.messages if "kernels cannot be stored" in one]) == 1


def run(command: list[str], environment: dict[str, str]) -> list[str]:
    """The lines of a program's standard error."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()
