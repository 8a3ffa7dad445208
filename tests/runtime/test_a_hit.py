"""What a program loads and asks for when the kernel it looks up is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

import skipjack
from skipjack import plugins
from skipjack.bank import Bank, BankEntry
from skipjack.errors import UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import bank_lookup
from skipjack.solvers import find_solver

if TYPE_CHECKING:
    from skipjack.runtime.local_kernels import GpuKernel

KEYS = (("matmul:24x24x24", "nest"), ("conv2d:n1c8h6w6k8y3x3p1q1", "direct"))
_MODULES = """
import sys, skipjack
for key in sys.argv[1:]:
    assert skipjack.lookup(key) is not None
print(*(name for name in sys.modules if name.split(".")[0] == "skipjack"))
"""


@pytest.fixture
def user_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bank_lookup, "_kept", {})
    for variable in (plugins.VARIABLE, plugins.FOLDERS):  # left by other tests
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    return tmp_path / "user"


def entry(key: str, solver: str = "nest") -> BankEntry:
    problem, device = parse(key), cpu.detect()
    made = find_solver(solver)
    config = dict(made.space(problem, device).default())
    return BankEntry(
        problem=problem.key,
        device=device.class_key,
        device_name=device.name,
        solver=solver,
        solver_version=made.version,
        config=config,
        time_ns=100.0,
        default_ns=200.0,
        vendor_ns=None,
        vendor="",
        speedup={"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
    )


def source(key: str) -> str:
    found = skipjack.lookup(key)
    assert found is not None
    return found.source


def loaded(*keys: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _MODULES, *keys], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(("key", "solver"), KEYS)
def test_a_hit_loads_few_modules_and_no_solver(user_dir: Path, key: str, solver: str) -> None:
    Bank.open(user_dir).put(entry(key, solver))
    assert skipjack.lookup(key) is not None  # builds and verifies it
    modules = loaded(key)
    assert len(modules) < 61, modules
    heavy = ("solvers", "tuning", "execute", "search", "ledger", "gpu")
    assert not [name for name in modules if name.split(".")[1:2] and name.split(".")[1] in heavy]


def test_no_thread_at_all_is_refused_for_what_is_banked_too(user_dir: Path) -> None:
    Bank.open(user_dir).put(entry("add:64"))
    assert skipjack.lookup("add:64", threads=1) is not None
    with pytest.raises(UsageError, match="threads is 0; give a whole number above 0"):
        skipjack.lookup("add:64", threads=0)


def test_an_answer_is_remembered_until_the_bank_changes(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(bank_lookup, "monotonic", lambda: now)
    bank = Bank.open(user_dir)
    bank.put(entry("add:64"))
    first = skipjack.lookup("add:64")
    assert first is not None
    assert skipjack.lookup("add:64") is first
    now += 1.0
    assert skipjack.lookup("add:64") is first
    bank.put(entry("add:65"))  # by this process: seen at once
    assert skipjack.lookup("add:64") is not first


def test_what_another_process_does_to_the_bank_is_seen_after_a_moment(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(bank_lookup, "monotonic", lambda: now)
    Bank.open(user_dir).put(entry("add:64"))
    first = skipjack.lookup("add:64")
    (user_dir / "bank.jsonl").write_bytes(b"")
    assert skipjack.lookup("add:64") is first
    now += bank_lookup._INTERVAL_S
    assert source("add:64") == "proposal"


def test_another_directory_is_another_bank_at_once(
    user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(user_dir).put(entry("add:64"))
    assert source("add:64") == "user"
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "elsewhere"))
    assert source("add:64") == "proposal"


@pytest.mark.parametrize("threads", [True, "1", 1.0])
def test_a_remembered_answer_is_none_for_arguments_of_other_types(
    user_dir: Path, threads: object
) -> None:
    Bank.open(user_dir).put(entry("add:64"))
    assert skipjack.lookup("add:64", threads=1) is not None
    with pytest.raises(UsageError, match="threads is"):
        skipjack.lookup("add:64", threads=threads)  # type: ignore[arg-type]


def test_kernels_that_are_remembered_have_little_of_a_gpus_memory(user_dir: Path) -> None:
    most = bank_lookup._MOST_LENT_BYTES
    kernel = cast("GpuKernel", object())
    for number, size in enumerate((most // 2, 0, most // 2, most // 4, 0)):
        answer = bank_lookup._Answer(kernel, (), 0.0, 0, (), size)
        bank_lookup._keep((number,), answer)
    assert list(bank_lookup._kept) == [(1,), (2,), (3,), (4,)]
    bank_lookup._keep((5,), bank_lookup._Answer(kernel, (), 0.0, 0, (), 2 * most))
    assert list(bank_lookup._kept) == [(1,), (4,)]


def test_a_text_names_one_plugin_also_where_answers_are_remembered(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "load", lambda names: None)
    Bank.open(user_dir).put(entry(KEYS[0][0]))
    kernel = skipjack.lookup(KEYS[0][0], plugins=("a", "b"))
    assert skipjack.lookup(KEYS[0][0], plugins=["a", "b"]) is kernel
    assert skipjack.lookup(KEYS[0][0], plugins="ab") is not kernel
    assert skipjack.lookup(KEYS[0][0], plugins="ab") is skipjack.lookup(KEYS[0][0], plugins=("ab",))


@pytest.mark.parametrize("banked", [True, False])
def test_a_remembered_answer_is_given_without_looking_at_files(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, banked: bool
) -> None:
    now = 0.0
    monkeypatch.setattr(bank_lookup, "monotonic", lambda: now)
    if banked:
        Bank.open(user_dir).put(entry("add:64"))
    kernel = skipjack.lookup("add:64")
    looks: list[object] = []
    for name in ("_depends", "lookup_settings", "_look_up"):
        monkeypatch.setattr(bank_lookup, name, lambda *told: looks.append(told) or ())
    now += 0.9 * bank_lookup._INTERVAL_S
    assert skipjack.lookup("add:64") is kernel and not looks


def test_files_are_looked_at_once_a_second_at_most() -> None:
    assert bank_lookup._INTERVAL_S >= 1.0
