"""The kernel cache: where it is, how large it may be, and what goes first."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import skipjack
from skipjack.bank import Bank, BankEntry, LaunchData
from skipjack.core import Config
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.report.doctor import cache_finding
from skipjack.runtime import bank_lookup
from skipjack.runtime.local_kernels import (
    VerifiedKernel,
    VerifiedKernels,
    cache_status,
    entry_key,
    keep_within_limit,
    kernel_cache,
    known_kernels,
)
from skipjack.runtime.local_kernels.kernel_cache import trim
from skipjack.runtime.local_kernels.known_kernels import in_use
from skipjack.settings import ARTIFACTS, Settings, load_settings
from skipjack.solvers import find_solver
from skipjack.storage import ArtifactStore, FileLock, KernelStore, artifacts

KEY = "add:256"
CONFIG = {"unroll": 1}
SIZE = 10_000


@pytest.fixture(autouse=True)
def a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_kernels, "_in_use", {})
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(kernel_cache, "_next_look", {})
    monkeypatch.setattr(artifacts, "_warned", set())


def entry(key: str = KEY, **changes: Any) -> BankEntry:
    device = cpu.detect()
    solver: Any = find_solver("nest")
    known = {
        "problem": parse(key).key,
        "device": device.class_key,
        "device_name": device.name,
        "solver": "nest",
        "solver_version": solver.version,
        "config": dict(solver.space(parse(key), device).default()),
        "time_ns": 100.0,
        "default_ns": 200.0,
        "vendor_ns": None,
        "vendor": "",
        "speedup": {"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
        "evidence": {"samples": 40},
        "created": "2026-01-01T00:00:00.000000Z",
    }
    return BankEntry(**{**known, **changes})


def put(settings: Settings, number: int, days_ago: float, names: str = "") -> str:
    """A kernel that was last used then; gives its key."""
    data = bytes([number]) * SIZE
    digest, key = hashlib.sha256(data).hexdigest(), f"{number:064}"
    kernel = VerifiedKernel(digest, "kernel", "abi", "source", "compiler", entry=names)
    VerifiedKernels(settings).put(key, kernel, data)
    known_kernels._in_use.clear()
    date = time.time() - 86400 * days_ago
    os.utime(ArtifactStore(settings.kernel_dirs[0]).path(digest), (date, date))
    return key


def left(settings: Settings, keys: list[str]) -> list[int]:
    folder = settings.kernel_dirs[0] / "verified"
    there = [number for number, key in enumerate(keys) if (folder / key).is_file()]
    found = [number for number, key in enumerate(keys) if VerifiedKernels(settings).find(key)]
    assert there == found  # records go with their machine code
    return there


def test_what_was_used_least_recently_goes_first(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    keys = [put(settings, number, days_ago=10 - number) for number in range(6)]
    assert VerifiedKernels(settings).find(keys[1])  # used just now, and no longer used here:
    known_kernels._in_use.clear()
    assert trim(Settings(tmp_path, cache_limit=4 * SIZE))
    assert left(settings, keys) == [1, 4, 5]
    assert cache_status(settings).used_bytes < 4 * SIZE


def test_what_an_entry_of_a_bank_names_stays(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    named = entry()
    names = entry_key(named.problem, named.solver, named.solver_version, Config(dict(named.config)))
    keys = [put(settings, 0, 9, names), put(settings, 1, 8), put(settings, 2, 7)]
    launched = hashlib.sha256(bytes([2]) * SIZE).hexdigest()
    launch = LaunchData(launched, "kernel", "abi")
    Bank.open(tmp_path).add([named, entry("add:512", launch=launch)])
    assert not trim(Settings(tmp_path, cache_limit=0))
    assert left(settings, keys) == [0, 2]


def test_banks_that_are_named_and_the_systems_keep_their_kernels(tmp_path: Path) -> None:
    user, site, system = (tmp_path / name for name in ("user", "site", "system"))
    settings = Settings(user, banks=(site,), system_dir=system, cache_limit=0)
    keys = []
    for number, (place, key) in enumerate([(site, "add:300"), (system, "add:301")]):
        place.mkdir()
        named = entry(key)
        config = Config(dict(named.config))
        names = entry_key(named.problem, named.solver, named.solver_version, config)
        keys.append(put(Settings(user), number, 5, names))
        Bank.open(place).put(named)
    keys.append(put(Settings(user), 2, 1))
    trim(settings)
    assert left(settings, keys) == [0, 1]


def test_a_kernel_of_another_skipjack_stays_for_its_entry_while_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, named = Settings(tmp_path), entry()
    names = entry_key(named.problem, named.solver, named.solver_version, Config(dict(named.config)))
    keys = [put(settings, 0, 40, names), put(settings, 1, 20, names)]
    Bank.open(tmp_path).put(named)
    monkeypatch.setattr(kernel_cache, "own_code", lambda: "another")
    trim(Settings(tmp_path, cache_limit=0))
    assert left(settings, keys) == [1]


def test_what_this_process_uses_stays(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    keys = [put(settings, number, days_ago=9 - number) for number in range(3)]
    assert VerifiedKernels(settings).find(keys[0])
    assert len(in_use()) == 1
    trim(Settings(tmp_path, cache_limit=0))
    assert left(settings, keys) == [0]


def test_a_kernel_is_dated_anew_once_an_hour_and_at_the_end_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(tmp_path)
    key = put(settings, 0, days_ago=3)
    path = next(ArtifactStore(settings.kernel_dirs[0]).stored()).path
    marked: list[Path] = []
    monkeypatch.setattr(artifacts, "mark_used", marked.append)
    assert VerifiedKernels(settings).find(key)
    assert marked == [path]
    os.utime(path)
    assert VerifiedKernels(settings).find(key)
    assert marked == [path]
    monkeypatch.setattr(known_kernels, "mark_used", marked.append)
    known_kernels._remind()
    assert marked == [path, path]


def test_adding_a_kernel_makes_room_and_keeps_the_new_one(tmp_path: Path) -> None:
    settings = Settings(tmp_path, cache_limit=3 * SIZE)
    keys = [put(Settings(tmp_path), number, days_ago=9 - number) for number in range(4)]
    kernel_cache._next_look.clear()
    keys.append(put(settings, 4, days_ago=0))
    assert left(settings, keys) == [3, 4]


def test_the_cache_is_looked_at_once_a_minute_and_less_often_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Settings] = []
    monkeypatch.setattr(kernel_cache, "trim", lambda settings: looks.append(settings) or False)
    settings = Settings(tmp_path)
    for _ in range(3):
        keep_within_limit(settings)
    assert len(looks) == 1
    assert kernel_cache._next_look[tmp_path / ARTIFACTS] - time.monotonic() > 3000
    keep_within_limit(settings, now=True)
    assert len(looks) == 2


def test_a_cache_that_another_process_makes_room_in_is_looked_at_again_after_a_minute(
    tmp_path: Path,
) -> None:
    settings = Settings(tmp_path, cache_limit=0)
    put(Settings(tmp_path), 0, days_ago=3)
    with FileLock(tmp_path / ARTIFACTS / "trim.lock"):
        assert trim(settings) is None
        keep_within_limit(settings, now=True)
    assert kernel_cache._next_look[tmp_path / ARTIFACTS] - time.monotonic() <= 60


def test_a_cache_elsewhere_gets_what_is_new_and_the_old_one_is_read(
    user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(user_dir).add([entry(), entry("add:512")])
    assert skipjack.lookup(KEY)
    before = sorted((user_dir / ARTIFACTS).rglob("*"))
    elsewhere = tmp_path / "cache"
    monkeypatch.setenv("SKIPJACK_CUSTOM_CACHE_DIR", str(elsewhere))
    assert load_settings().kernel_dirs == (elsewhere, user_dir / ARTIFACTS)
    bank_lookup._kept.clear()
    solver: Any = type(find_solver("nest"))
    with monkeypatch.context() as patch:
        patch.setattr(solver, "compile", None)  # nothing is built
        assert skipjack.lookup(KEY)
        assert not elsewhere.exists()
    assert skipjack.lookup("add:512")
    assert sorted((user_dir / ARTIFACTS).rglob("*")) == before
    assert cache_status(load_settings()).kernels == 1


def test_a_new_cache_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        put(Settings(tmp_path, cache_dir=tmp_path / "a" / "cache"), 0, days_ago=0)
    finally:
        os.umask(before)
    cache = tmp_path / "a" / "cache"
    assert {path.stat().st_mode & 0o777 for path in (cache, *cache.iterdir())} == {0o700}


_FIND = """
import sys
import skipjack
from skipjack.solvers import find_solver
if sys.argv[1] == "again":
    type(find_solver("nest")).compile = None
for size in range(256, 260):
    assert skipjack.lookup(f"add:{size}", strict=True).solver == "nest"
"""


def test_a_second_process_finds_every_kernel_of_the_first(user_dir: Path, tmp_path: Path) -> None:
    Bank.open(user_dir).add([entry(f"add:{size}") for size in range(256, 260)])
    environment = {**os.environ, "SKIPJACK_CUSTOM_CACHE_DIR": str(tmp_path / "cache")}
    for how in ("first", "again"):
        done = subprocess.run(
            [sys.executable, "-c", _FIND, how],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


_PUT = """
import sys
from pathlib import Path
from skipjack.runtime.local_kernels.kernel_cache import trim
from skipjack.settings import Settings
from skipjack.storage import ArtifactStore
settings = Settings(Path(sys.argv[1]), cache_limit=100_000)
for number in range(60):
    ArtifactStore(*settings.kernel_dirs).put(f"{sys.argv[2]} {number} ".encode() * 1000)
    if number % 10 == 9:
        trim(settings)
"""


def test_several_processes_fill_and_trim_one_cache(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", _PUT, str(tmp_path), name], stderr=subprocess.PIPE)
        for name in ("one", "two", "three")
    ]
    assert [process.communicate()[1] for process in started] == [b"", b"", b""]
    settings = Settings(tmp_path, cache_limit=100_000)
    assert trim(settings)
    store = ArtifactStore(tmp_path / ARTIFACTS)
    for one in store.stored():
        assert store.get(one.path.name)
    assert 0 < cache_status(settings).used_bytes <= 100_000


def test_a_cache_that_cannot_be_written_lets_programs_and_tunings_go_on(
    user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    Bank.open(user_dir).put(entry())
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("SKIPJACK_CUSTOM_CACHE_DIR", str(tmp_path / "file"))
    assert skipjack.lookup(KEY)
    settings = load_settings()
    with caplog.at_level(logging.WARNING, "skipjack"):
        assert KernelStore(settings).put(b"code") == hashlib.sha256(b"code").hexdigest()
        KernelStore(settings).put(b"more")
    assert caplog.text.count("kernels are not kept: cannot write") == 1
    assert trim(settings)


def test_doctor_shows_size_and_limit(tmp_path: Path) -> None:
    put(Settings(tmp_path), 0, days_ago=0)
    finding = cache_finding(Settings(tmp_path))
    assert finding.level == "good"
    assert f" of 1 GiB, 1 kernel in {tmp_path / ARTIFACTS}" in finding.text
    full = cache_finding(Settings(tmp_path, cache_limit=100))
    assert full.level == "note" and "raise SKIPJACK_CACHE_LIMIT" in full.text
    (tmp_path / "file").write_text("no directory")
    bad = cache_finding(Settings(tmp_path, cache_dir=tmp_path / "file"))
    assert bad.level == "note" and "new kernels are not kept" in bad.text


def test_a_bank_that_cannot_be_read_keeps_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(tmp_path)
    keys = [put(settings, 0, days_ago=3)]
    (tmp_path / "bank.jsonl").mkdir()
    assert not trim(Settings(tmp_path, cache_limit=0))
    assert left(settings, keys) == [0]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1 GiB", 2**30),
        ("500MB", 5 * 10**8),
        ("12", 12),
        ("2k", 2000),
        ("0", 0),
        ("3 mib", 3 << 20),
    ],
)
def test_a_limit_is_a_number_of_bytes_with_a_unit(
    text: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_CACHE_LIMIT", text)
    assert load_settings(user_dir=tmp_path).cache_limit == count


@pytest.mark.parametrize("text", ["much", "-1", "1.5 GB", "1 bit", "GB"])
def test_a_limit_that_is_none_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_CACHE_LIMIT", text)
    with pytest.raises(skipjack.errors.UsageError, match=r"SKIPJACK_CACHE_LIMIT is .*500 MB"):
        load_settings(user_dir=tmp_path)


def test_a_record_that_another_process_removes_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        def stat(self) -> os.stat_result:
            raise FileNotFoundError

    settings = load_settings(user_dir=tmp_path)
    monkeypatch.setattr(kernel_cache, "record_files", lambda *_: iter([Gone()]))
    assert cache_status(settings).used_bytes == 0
    keep_within_limit(settings, now=True)


def test_whatever_is_wrong_with_its_directory_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Settings) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(kernel_cache, "cache_status", fail)
    keep_within_limit(load_settings(user_dir=tmp_path), now=True)
