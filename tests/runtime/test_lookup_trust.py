"""What lookup believes of a bank, which is text that people merge: a proposal, and no more."""

from __future__ import annotations

import copy
import logging
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skipjack
from skipjack.bank import Bank, BankEntry, layers, write_kernel_db
from skipjack.core import Config, Study
from skipjack.errors import SkipjackError
from skipjack.ledger import DecisionRecord, Ledger
from skipjack.native import cpu
from skipjack.native.llvm import CompileError
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, banked_kernels, full_lookup
from skipjack.runtime.checks.verified_code import KernelVerifier
from skipjack.runtime.local_kernels import TunedKernel
from skipjack.runtime.local_kernels import kernel as kernels
from skipjack.runtime.process import program
from skipjack.settings import ARTIFACTS, Settings
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.storage import ArtifactStore

KEY = "add:256"
looking: Any = bank_lookup


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(looking, "_kept", {})
    monkeypatch.setattr(program, "_said", set())
    yield


def solver(name: str = "nest") -> BuildingSolver:
    found = find_solver(name)
    assert isinstance(found, BuildingSolver)
    return found


def default(key: str) -> dict[str, Any]:
    return dict(solver().space(parse(key), cpu.detect()).default())


def entry(key: str = KEY, **changes: Any) -> BankEntry:
    """As another machine of this class might have banked it."""
    device = cpu.detect()
    made = BankEntry(
        problem=parse(key).key,
        device=device.class_key,
        device_name=device.name,
        solver="nest",
        solver_version=solver().version,
        config=default(key),
        time_ns=100.0,
        default_ns=200.0,
        vendor_ns=None,
        vendor="",
        speedup={"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
        evidence={"samples": 40, "artifact": "0" * 64},
        created="2026-01-01T00:00:00.000000Z",
    )
    return replace(made, **changes)


def right(kernel: Any, size: int = 256) -> bool:
    """On arrays with other values after them: a kernel that writes further is found out."""
    rng = np.random.default_rng(0)
    a, b = rng.random(size, np.float32), rng.random(size, np.float32)
    room = np.full(4 * size, 7.0, np.float32)
    kernel(a, b, out=room[:size])
    return bool(np.array_equal(room[:size], a + b) and (room[size:] == 7.0).all())


def test_a_config_of_another_machine_is_built_checked_and_remembered(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(user_dir).put(entry())
    first = skipjack.lookup(KEY)
    assert right(first)
    assert skipjack.lookup(KEY) is first

    def compile_nothing(*_: object) -> None:
        raise AssertionError("it is known to be right")

    looking._kept.clear()
    monkeypatch.setattr(KernelVerifier, "fault", compile_nothing)
    monkeypatch.setattr(type(solver()), "compile", compile_nothing)
    assert right(skipjack.lookup(KEY))


def test_code_of_another_problem_is_not_loaded(user_dir: Path) -> None:
    problem, device = parse("add:1024"), cpu.detect()
    config = Config(default("add:1024"))
    code = solver().compile(solver().lower(problem, device, config)).data
    digest = ArtifactStore(user_dir / ARTIFACTS).put(code)
    Bank.open(user_dir).put(entry(evidence={"artifact": digest}))
    assert right(skipjack.lookup(KEY))


@pytest.mark.parametrize(
    ("key", "schedule"),
    [(KEY, "i:32"), (KEY, ""), (KEY, "x"), ("matmul:96x96x96", "m/u n/u k/u")],
)
def test_a_config_that_is_not_in_the_space_is_refused(
    user_dir: Path, key: str, schedule: str, caplog: pytest.LogCaptureFixture
) -> None:
    Bank.open(user_dir).put(entry(key, config={"schedule": schedule}))
    with caplog.at_level(logging.WARNING):
        assert skipjack.lookup(key, strict=True) is None
        assert skipjack.lookup(key, strict=True) is None
    assert caplog.text.count("is not in the space of solver nest") == 1


def tuned_here(user_dir: Path, *entries: BankEntry) -> None:
    """Verdicts of tunings on this machine, in the bank and in the ledger."""
    for made in entries:
        study = Study(parse(made.problem), made.solver, made.device, "random", 0)
        with Ledger.open(user_dir) as ledger:
            ledger.start_study(study, 1)
            told = (study.id, made.problem, made.device, made.solver, Config(dict(made.config)))
            ledger.add_decision(DecisionRecord(*told, "banked", made.record(), made.created))
        Bank.open(user_dir).put(made)


def merged(user_dir: Path, tmp_path: Path, foreign: BankEntry) -> None:
    """The bank of somebody else, whose entry has the stronger evidence."""
    (tmp_path / "theirs.jsonl").write_text(f"{foreign.line}\n")
    assert Bank.open(user_dir).merge(tmp_path / "theirs.jsonl").replaced == 1


@pytest.mark.parametrize(
    "useless", [{"config": {"schedule": "i:32"}}, {"solver": "streaming"}, {"solver_version": 99}]
)
def test_a_merged_entry_that_is_of_no_use_does_not_hide_what_works(
    user_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, useless: dict[str, Any]
) -> None:
    tuned_here(user_dir, entry(time_ns=90.0), entry(time_ns=50.0, config={"schedule": "i i"}))
    merged(user_dir, tmp_path, entry(time_ns=1.0, **useless))
    for _ in range(2):
        looking._kept.clear()
        assert right(skipjack.lookup(KEY))
    (sentence,) = caplog.messages
    assert sentence.endswith(f"; nest with schedule={default(KEY)['schedule']} is used instead")
    found = banked_kernels(Settings(user_dir))
    ((record, _),) = found.kernels
    assert (record.time_ns, record.config) == (90.0, default(KEY))
    assert len(found.left_out) == 1


def test_a_merged_entry_without_another_says_what_to_do(
    user_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tuned_here(user_dir, entry(config={"schedule": "i i"}))
    merged(user_dir, tmp_path, entry(time_ns=1.0, config={"schedule": "i:32"}))
    assert skipjack.lookup(KEY, strict=True) is None
    assert caplog.messages[-1].endswith("is not in the space of solver nest; tune it here")


def test_a_kernel_that_is_wrong_is_refused(
    user_dir: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(user_dir).put(entry())
    with monkeypatch.context() as patch:
        patch.setattr(type(solver()), "lower", _of_sub)
        assert skipjack.lookup(KEY, strict=True) is None
    assert "256 of 256 elements are wrong" in caplog.text
    assert right(skipjack.lookup(KEY))


_lower = type(solver()).lower


def _of_sub(self: Any, problem: Any, device: Any, config: Any) -> Any:
    return _lower(self, parse("sub:256"), device, config)


def test_a_directory_that_cannot_be_written_serves_as_well(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(user_dir).put(entry())
    (user_dir / ARTIFACTS).write_text("no directory")
    assert right(skipjack.lookup(KEY))


def test_a_solver_that_is_not_here_is_named(
    user_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Bank.open(user_dir).put(entry(solver="streaming"))
    assert skipjack.lookup(KEY, strict=True) is None
    assert "solver streaming, which is not known here" in caplog.text
    assert "SKIPJACK_PLUGINS" in caplog.text


def test_another_version_of_a_solver_is_named(
    user_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Bank.open(user_dir).put(entry(solver_version=99))
    assert skipjack.lookup(KEY, strict=True) is None
    assert "is by version 99 of solver nest" in caplog.text


# Memory and threads


def test_what_nobody_has_any_more_is_freed(user_dir: Path) -> None:
    Bank.open(user_dir).put(entry())
    assert right(skipjack.lookup(KEY))
    before, held = resident_kb(), len(kernels._loaded)
    for _ in range(300):
        looking._kept.clear()  # as if so many other kernels had been looked up
        assert skipjack.lookup(KEY) is not None
    looking._kept.clear()
    assert len(kernels._loaded) + len(kernels._dropped) <= held + 1
    assert resident_kb() - before < 6_000  # it was 43 KB for each


def test_what_comes_out_of_a_kernel_file_is_freed_too(user_dir: Path, tmp_path: Path) -> None:
    Bank.open(user_dir).put(entry())
    write_kernel_db(tmp_path / "x.skk", banked_kernels(Settings(user_dir)).kernels)
    with skipjack.kernels(tmp_path / "x.skk") as file:
        assert right(file.find(KEY))
        before, held = resident_kb(), len(kernels._loaded)
        for _ in range(300):
            assert file.find(KEY) is not None
        assert len(kernels._loaded) + len(kernels._dropped) <= held + 1
        assert resident_kb() - before < 6_000


def test_a_bound_kernel_keeps_its_code(user_dir: Path) -> None:
    Bank.open(user_dir).put(entry())
    a = np.ones(256, np.float32)
    found = skipjack.lookup(KEY)
    assert isinstance(found, TunedKernel)
    call = found.bind(a, a)
    del found
    looking._kept.clear()
    Bank.open(user_dir).put(entry("add:512"))
    assert skipjack.lookup("add:512") is not None  # frees what nobody has
    np.testing.assert_array_equal(call(), a + a)


def test_many_threads_look_up_and_call(user_dir: Path) -> None:
    for size in (64, 128, 256, 512):
        Bank.open(user_dir).put(entry(f"add:{size}"))

    def work(seed: int) -> bool:
        rng = random.Random(seed)
        good = True
        for _ in range(25):
            size = rng.choice((64, 128, 256, 512))
            if rng.random() < 0.3:
                looking._kept.clear()
            good = good and right(skipjack.lookup(f"add:{size}"), size)
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


# Odd entries


_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 32, 1e300, -0.0, "", "x", "i:32", "i:32 i/v", "i i", "\x1b[2J"),
    *("i/p", "i:8/u i/v", "i:999999999999999999", [], {}, [[]], {"schedule": "i"}, "0" * 64, 2**80),
)


class _Told:
    """A bank of one entry."""

    def __init__(self, told: BankEntry) -> None:
        self._told = told

    def ranked(self, *_: str) -> tuple[BankEntry, ...]:
        return (self._told,)


def mutated(rng: random.Random) -> BankEntry:
    record = copy.deepcopy(entry().record())
    place = rng.choice(("config", "config", "config", "evidence", "solver", "solver_version"))
    odd = rng.choice(_ODD)
    if place == "config" and isinstance(odd, str) and rng.random() < 0.7:
        text = list(record["config"]["schedule"])
        for _ in range(rng.randrange(1, 3)):
            text.insert(rng.randrange(len(text) + 1), rng.choice("i0123456789:/vuaps "))
            text.pop(rng.randrange(len(text)))
        record["config"]["schedule"] = "".join(text)
    elif place in ("config", "evidence"):
        names = [*record[place], "schedule", "artifact", "other"]
        record[place][rng.choice(names)] = odd
        if rng.random() < 0.3:
            record[place].pop(rng.choice(list(record[place])))
    elif place == "solver":
        record[place] = rng.choice(("nest", "packed", "rows", "direct", "numpy", "", str(odd)))
    else:
        record[place] = odd
    return BankEntry(**record)


def served(count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of so many odd entries are served; each of them must be right."""
    rng, good = random.Random(seed), 0
    monkeypatch.setattr(
        full_lookup, full_lookup.select_device.__name__, lambda *_: cpu.detect()
    )  # takes the longest by far
    for _ in range(count):
        told = mutated(rng)
        looking._kept.clear()
        monkeypatch.setattr(layers, "_bank", lambda *_, told=told: _Told(told))
        try:
            found = skipjack.lookup(KEY, strict=True)
        except SkipjackError:
            continue
        if found is not None:
            good += 1
            assert right(found), told
    return good


def test_odd_entries_are_passed_over(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(1000, 0, monkeypatch) > 0


@pytest.mark.long
def test_very_many_odd_entries_are_passed_over(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert served(20_000, 1, monkeypatch) > 0


def test_a_reason_is_told_in_full(
    user_dir: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "this compiler has no scheduler for the CPU that the kernel was tuned for"

    def fail(*_: object) -> None:
        raise CompileError(sentence)

    Bank.open(user_dir).put(entry())
    monkeypatch.setattr(type(solver()), "compile", fail)
    assert skipjack.lookup(KEY, strict=True) is None
    assert f"the bank's entry cannot be used: {sentence}" in caplog.text


def test_what_a_killed_writer_left_is_swept(user_dir: Path) -> None:
    folder = user_dir / ARTIFACTS / "verified"
    folder.mkdir(parents=True)
    left = folder / f".{'0' * 64}.4000000-00000000.tmp"
    left.write_text("half")
    os.utime(left, (0, 0))
    Bank.open(user_dir).put(entry())
    assert right(skipjack.lookup(KEY))
    assert not left.exists()


def test_the_gain_as_called_is_exported(user_dir: Path) -> None:
    gain = {"ratio": 0.4, "low": 0.3, "high": 0.5}
    Bank.open(user_dir).put(entry(evidence={"as_called": {**gain, "pairs": 10}}))
    ((record, _),) = banked_kernels(Settings(user_dir)).kernels
    assert record.as_called == gain and not record.recommended
