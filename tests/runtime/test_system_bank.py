"""Banks that ship: what `skipjack bank ship` takes, what it writes, and what readers check."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import skipjack
from skipjack.bank import FILE_NAME, Bank, BankEntry, LaunchData, layers_of
from skipjack.bank.file import IndexedView, open_view
from skipjack.bank.strength import is_damaged, strength
from skipjack.cli.main import app
from skipjack.core import Candidate, Config, Device, gpu_protocol
from skipjack.core.timing import cpu_protocol
from skipjack.devices import describe
from skipjack.errors import UsageError
from skipjack.native import cpu, llvm
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, checks, ship
from skipjack.runtime.checks import verified_code
from skipjack.runtime.process import program
from skipjack.settings import load_settings
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.solvers.gpu.triton import compilation
from skipjack.storage import ArtifactStore

KEY, PRODUCT = "add:96", "matmul:256x256x64:f16"
EVIDENCE = {
    "samples": 40,
    "spread": 0.01,
    "outcome": "banked",
    "study": "0123456789abcdef",
    "ties": [{"schedule": "n m"}],
    "baseline": {"name": "numpy", "ratio": 2.0, "low": 1.9, "high": 2.1, "pairs": 10},
    "vector_bytes": cpu.detect().vector_bytes,
}


@pytest.fixture(autouse=True)
def places(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(program, "_said", set())
    monkeypatch.delenv("SKIPJACK_BANKS", raising=False)
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(tmp_path / "system"))
    skipjack.reload()
    return tmp_path


def entry(key: str = KEY, device: Device | None = None, **changes: Any) -> BankEntry:
    problem, target = parse(key), device or cpu.detect()
    solver = find_solver("nest" if target.kind == "cpu" else "triton_matmul")
    made = BankEntry(
        problem=problem.key,
        device=target.class_key,
        device_name=target.name,
        solver=solver.name,
        solver_version=solver.version,
        config=dict(solver.space(problem, target).default()),
        time_ns=100.0,
        default_ns=200.0,
        vendor_ns=None,
        vendor="",
        speedup={"default": {"ratio": 2.0, "low": 1.9, "high": 2.1, "pairs": 10}},
        evidence=EVIDENCE,  # type: ignore[arg-type]
        protocol=(cpu_protocol() if target.kind == "cpu" else gpu_protocol()).key,
        toolchain=llvm.compiler_version() if target.kind == "cpu" else compilation.compiler_name(),
    )
    return replace(made, **changes)


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_a_shipped_bank_answers_with_short_evidence(places: Path) -> None:
    Bank.open(places / "tuned").put(entry())
    done = ship([places / "tuned"], places / "system")
    assert (done.entries, done.kernels, done.left_out) == (1, 0, ())
    found = skipjack.lookup(KEY)
    assert found is not None and found.source == "system"
    a = np.arange(96, dtype=np.float32)
    assert np.array_equal(found(a, a), a + a)
    (known,) = Bank.open(places / "system").entries()
    assert "ties" not in known.evidence and "study" not in known.evidence
    assert known.evidence.baseline and known.evidence.baseline.over == "numpy"
    assert strength(known) == strength(entry())


def test_the_same_entries_give_the_same_bytes(places: Path) -> None:
    many = [entry(f"add:{size}") for size in range(1, 80)]
    Bank.open(places / "a").add(many[:50])
    Bank.open(places / "b").add(many[30:])
    ship([places / "a", places / "b"], places / "one")
    first = contents(places / "one")
    ship([places / "b", places / "a"], places / "one")
    assert contents(places / "one") == first
    manifest = json.loads(first["manifest.json"])
    others = {name: data for name, data in first.items() if name != "manifest.json"}
    assert manifest["entries"] == 79
    assert manifest["sha256"] == {
        name: hashlib.sha256(data).hexdigest() for name, data in others.items()
    }


def test_a_copy_is_read_by_its_index_and_never_written(places: Path) -> None:
    Bank.open(places / "tuned").add(entry(f"add:{size}") for size in range(1, 120))
    ship([places / "tuned"], places / "made")
    for name, data in contents(places / "made").items():
        (places / "system").mkdir(exist_ok=True)
        (places / "system" / name).write_bytes(data)
    before = contents(places / "system")
    assert isinstance(open_view(places / "system" / FILE_NAME), IndexedView)
    (layer,) = layers_of(places / "user", (), places / "system")[1:]
    assert layer.ranked(parse("add:7").key, cpu.detect().class_key)
    assert contents(places / "system") == before


def test_what_is_unconfirmed_or_stale_is_left_out(places: Path) -> None:
    bank = Bank.open(places / "tuned")
    bank.put(entry())
    bank.put(entry("add:97", evidence={"ties": []}))
    bank.put(entry("add:98", toolchain="llvm-1.0.0/llvmlite-0.1.0"))
    bank.put(entry("add:99", solver_version=99))
    bank.put(entry("add:100", kind="find"))
    done = ship([places / "tuned"], places / "system")
    said = " ".join(done.left_out)
    assert done.entries == 1 and len(done.left_out) == 4
    for reason in ("confirmed", "stale", "version 99", "ranking"):
        assert reason in said
    with pytest.raises(UsageError, match="has no bank with entries"):
        ship([places / "nowhere"], places / "other")


def test_other_files_are_not_removed(places: Path) -> None:
    Bank.open(places / "tuned").put(entry())
    with pytest.raises(UsageError, match="has files that are not of a shipped bank"):
        ship([places / "tuned"], places / "tuned")
    assert Bank.open(places / "tuned").entries()


def test_a_damaged_entry_is_passed_over_with_one_warning(
    places: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Bank.open(places / "tuned").add([entry(), entry("add:97")])
    ship([places / "tuned"], places / "system")
    path = places / "system" / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b'"time_ns":100.0', b'"time_ns":900.0'))
    assert all(map(is_damaged, Bank(path).entries()))
    with caplog.at_level(logging.WARNING):
        for key in (KEY, "add:97"):
            found = skipjack.lookup(key)
            assert found is not None and not found.source.startswith("system")
    said = [one for one in caplog.messages if "damaged" in one]
    assert len(said) == 1 and "get a new copy of the file from its owner" in said[0]


def test_evidence_says_which_instructions_were_masked(places: Path) -> None:
    narrow = entry(device=describe("znver4/1"))
    told = replace(narrow, evidence={**EVIDENCE, "vector_bytes": 32})  # type: ignore[arg-type]
    library = replace(told, problem="add:97:f32", solver="numpy", solver_version=1, config={})
    Bank.open(places / "tuned").add([told, library])
    done = ship([places / "tuned"], places / "system")
    assert "the winner, numpy, was not" in done.left_out[0]
    (known,) = Bank.open(places / "system").entries()
    assert known.evidence["masked"].startswith("znver4 has x86-64-v4: its vectors of more than 256")


def test_the_command_says_what_it_wrote(places: Path) -> None:
    Bank.open(places / "tuned").add([entry(), entry("add:97", evidence={})])
    command = ["bank", "ship", str(places / "tuned"), "-o", str(places / "system")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "1 entry and 0 kernels" in done.output and "add:97:f32" in done.output
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert (told["entries"], len(told["left_out"])) == (1, 1)


@pytest.fixture
def h200(places: Path) -> tuple[Device, BankEntry, bytes]:
    """A system bank with a product for a GPU and its kernel, which nobody looks into here."""
    device, code = describe("sm_90/132"), b"machine code"
    digest = ArtifactStore(places / "gpu" / "artifacts").put(code)
    launch = LaunchData(digest, "kernel", "gpu-1", compat=device.compat_key)
    Bank.open(places / "gpu").put(entry(PRODUCT, device, launch=launch))
    done = ship([places / "gpu"], places / "system")
    assert (done.entries, done.kernels) == (1, 1)
    (known,) = Bank.open(places / "system").entries()
    return device, known, code


def _shipped(known: BankEntry, device: Device) -> Any:
    solver = find_solver(known.solver)
    assert isinstance(solver, BuildingSolver)
    candidate = Candidate(parse(known.problem), solver.name, Config(dict(known.config)))
    return checks.shipped_build(known, candidate, solver, device, load_settings())


def test_a_shipped_kernel_is_verified_and_not_built(
    h200: tuple[Device, BankEntry, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, known, code = h200
    verified = []

    def is_right(problem: object, code: Any, *_: object) -> str:
        verified.append(code.data)
        return ""

    monkeypatch.setattr("skipjack.runtime.checks.gpu_code.fault_on_gpu", is_right)
    monkeypatch.setattr(verified_code, "find_spec", lambda _: None)  # no Triton here
    for _ in range(2):
        found = verified_code.code_of(known, parse(PRODUCT), device, load_settings())
        assert found is not None and found.data == code
    assert verified == [code]


def test_a_shipped_kernel_that_is_damaged_or_of_another_source_is_not_used(
    h200: tuple[Device, BankEntry, bytes], places: Path, caplog: pytest.LogCaptureFixture
) -> None:
    device, known, code = h200
    assert _shipped(known, device)[0].data == code
    edited = replace(known, evidence={**known.evidence, "source": "0" * 64})  # type: ignore[arg-type]
    assert _shipped(edited, device) is None
    (path,) = (places / "system" / "artifacts").glob("*/*")
    path.write_bytes(b"something else")
    assert _shipped(known, device) is None
    assert "is damaged and not used" in caplog.text and path.is_file()


def test_an_entry_for_a_gpu_without_its_kernel_is_left_out(places: Path) -> None:
    device = describe("sm_90/132")
    launch = LaunchData("0" * 64, "kernel", "gpu-1", compat=device.compat_key)
    Bank.open(places / "gpu").add([entry(PRODUCT, device, launch=launch), entry()])
    done = ship([places / "gpu"], places / "system")
    assert done.entries == 1 and "is in none of the directories" in done.left_out[0]
