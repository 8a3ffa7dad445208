"""Kernels in pickles: by where they are found again, never with machine code."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skipjack
from skipjack import plugins
from skipjack.bank import Bank, BankEntry, write_kernel_db
from skipjack.errors import SkipjackError, UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, banked_kernels, kernel_file
from skipjack.runtime.local_kernels import KernelCode, TunedKernel
from skipjack.settings import Settings
from skipjack.solvers import find_solver

KEY = "add:96"
looking: Any = bank_lookup


@pytest.fixture
def kernel(user_dir: Path) -> Any:
    device, nest = cpu.detect(), find_solver("nest")
    Bank.open(user_dir).put(
        BankEntry(
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
            created="2026-01-01T00:00:00.000000Z",
        )
    )
    return skipjack.lookup(KEY)


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(plugins.VARIABLE, "")
    monkeypatch.setenv(plugins.FOLDERS, "")


def check(kernel: Any) -> None:
    a = np.arange(96, dtype=np.float32)
    np.testing.assert_array_equal(kernel(a, a), a + a)


def test_a_kernel_is_looked_up_where_its_pickle_is_loaded(kernel: Any) -> None:
    data = pickle.dumps(kernel)
    assert len(data) < 400
    check(pickle.loads(data))


def test_another_process_finds_it_as_well(kernel: Any, tmp_path: Path) -> None:
    path = tmp_path / "kernel.pickle"
    path.write_bytes(pickle.dumps(kernel))
    script = (
        "import pickle, sys, numpy as np\n"
        "kernel = pickle.load(open(sys.argv[1], 'rb'))\n"
        "a = np.ones(96, np.float32)\n"
        "assert (kernel(a, a) == 2).all()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=60)


def test_a_bank_that_has_it_no_more_is_a_sentence(kernel: Any, user_dir: Path) -> None:
    data = pickle.dumps(kernel)
    (user_dir / "bank.jsonl").unlink()
    with pytest.raises(SkipjackError, match=f"the bank has no kernel of {KEY}:f32 for"):
        pickle.loads(data)


def test_a_kernel_that_was_looked_up_elsewhere_is_found_there(
    kernel: Any, user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "empty"))
    assert skipjack.lookup(KEY, strict=True) is None
    found = skipjack.lookup(KEY, settings=Settings(user_dir))
    check(pickle.loads(pickle.dumps(found)))


def test_a_kernel_of_a_file_is_found_in_that_file(
    kernel: Any, user_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.skk"
    write_kernel_db(path, banked_kernels(Settings(user_dir)).kernels)
    with skipjack.kernels(path) as file:
        data = pickle.dumps(file.find(KEY))
    check(pickle.loads(data))


def test_a_bound_kernel_says_what_to_do(kernel: Any) -> None:
    a = np.ones(96, np.float32)
    with pytest.raises(UsageError, match="pickle the kernel, and bind it where it is used"):
        pickle.dumps(kernel.bind(a, a))


def test_a_kernel_of_nowhere_says_so() -> None:
    problem, device, nest = parse(KEY), cpu.detect(), find_solver("nest")
    config = nest.space(problem, device).default()
    blob = nest.compile(nest.lower(problem, device, config))  # type: ignore[attr-defined]
    code = KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, ("x", "y", "out"))
    with pytest.raises(UsageError, match="cannot be pickled"):
        pickle.dumps(TunedKernel(problem, code))


PLUGIN = """
import numpy as np
from skipjack import operations
from skipjack.operations import Elementwise

print("the plug-in runs")
operations.register(Elementwise("twice", np.add, 2, "add"))
"""
LOAD = """
import pickle, sys
try:
    print(pickle.load(open(sys.argv[1], "rb")))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.fixture
def of_a_plugin(user_dir: Path, tmp_path: Path) -> Path:
    """A plug-in with an operation of its own, which is not registered in this process."""
    file = tmp_path / "twice.py"
    file.write_text(PLUGIN)
    return file


@pytest.mark.parametrize("of", ["bank", "file"])
def test_a_kernel_of_a_plug_in_says_which_one_to_load(
    of_a_plugin: Path, tmp_path: Path, of: str
) -> None:
    path = tmp_path / "kernel.pickle"
    where = (looking.look_up_again, ("twice:96:f32", cpu.detect().name, None))
    if of == "file":
        write_kernel_db(tmp_path / "x.skk", [])
        where = (kernel_file.found_again, (str(tmp_path / "x.skk"), "twice:96:f32"))
    path.write_bytes(pickle.dumps(_Pickled(where, (str(of_a_plugin),))))
    done = run(path)
    assert done.returncode == 1
    assert f"it was pickled with plug-in {of_a_plugin}, not loaded here" in done.stderr
    assert "add it to SKIPJACK_PLUGINS" in done.stderr
    assert "the plug-in runs" not in done.stderr, "what a pickle names is not run"
    done = run(path, SKIPJACK_PLUGINS=str(of_a_plugin))
    assert "no kernel of twice:96:f32" in done.stderr, "the operation is known"
    assert "pickled with" not in done.stderr


class _Pickled:
    """What a kernel's pickle holds."""

    def __init__(self, where: Any, plugins: tuple[str, ...]) -> None:
        self._where, self._plugins = where, plugins

    def __reduce__(self) -> Any:
        function, arguments = self._where
        return function, (*arguments, self._plugins)


def run(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        env={**os.environ, "SKIPJACK_PLUGINS": "", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_pickle_names_the_plug_ins_that_are_loaded(kernel: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    plugins.load((str(tmp_path / "mine.py"),))
    looking._kept.clear()
    found = skipjack.lookup(KEY)
    assert isinstance(found, TunedKernel)
    assert found.__reduce__()[1][-1] == (str(tmp_path / "mine.py"),)
    check(pickle.loads(pickle.dumps(found)))
