"""The bank that comes with Skipjack: whole, small, usable today, and in the wheel."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skipjack
from processes import PATIENCE_S
from skipjack.bank import FILE_NAME, Bank, BankEntry, system_dir_of
from skipjack.bank.strength import is_damaged
from skipjack.core import Config
from skipjack.devices import describe
from skipjack.models import MODELS
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, full_lookup
from skipjack.solvers import BuildingSolver, find_solver

ROOT = Path(__file__).parents[2]
HERE = system_dir_of(None)
LARGEST = 5_000_000
SHIPPED = "matmul:128x160x224"
MAKE = "run make system-bank"


@pytest.fixture(scope="module")
def entries() -> list[BankEntry]:
    return Bank(HERE / FILE_NAME, writable=False).entries()


@pytest.fixture
def system(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty user directory, and the bank that comes with Skipjack."""
    monkeypatch.delenv("SKIPJACK_SYSTEM_DB_PATH")
    monkeypatch.delenv("SKIPJACK_BANKS", raising=False)
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(full_lookup, "_PATIENCE_S", PATIENCE_S)
    skipjack.reload()


def test_files_are_what_the_manifest_says() -> None:
    manifest = json.loads((HERE / "manifest.json").read_bytes())
    every = [path for path in HERE.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert sum(path.stat().st_size for path in every) < LARGEST
    # Models are not of the bank; test_trained_heuristic.py reads them.
    files = [path for path in every if MODELS not in path.parts]
    digests = {
        path.relative_to(HERE).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    assert manifest["sha256"] == digests


def test_entries_are_whole_and_of_todays_solvers(entries: list[BankEntry]) -> None:
    assert not [one.problem for one in entries if is_damaged(one)]
    for one in entries:
        assert find_solver(one.solver).version == one.solver_version, f"{one.problem}: {MAKE}"
    widths = {one.evidence.vector_bytes for one in entries if one.device.startswith("cpu:")}
    assert widths == {32, 64}
    masked = [one for one in entries if "masked" in one.evidence]
    assert masked and all(one.evidence.vector_bytes == 32 for one in masked)


def test_configs_are_in_the_spaces_of_today(entries: list[BankEntry]) -> None:
    chosen = [one for one in entries if one.launch][::7]
    for one in chosen:
        device = describe(one.device_name)
        if device.kind == "cpu":
            width = one.evidence.vector_bytes
            device = replace(describe("x86-64-v3/1" if width == 32 else "x86-64-v4/1"), units=1)
        solver = find_solver(one.solver)
        assert isinstance(solver, BuildingSolver)
        space = solver.space(parse(one.problem), device)
        assert space.contains(Config(dict(one.config))), f"{one.problem}: {MAKE}"


def test_kernels_of_gpus_are_of_todays_sources(entries: list[BankEntry]) -> None:
    """They are used without Triton only as long as they are what would be built."""
    device = describe("sm_90/132")
    for one in [one for one in entries if "source" in one.evidence][::5]:
        solver: Any = find_solver(one.solver)
        told = parse(one.problem), device, Config(dict(one.config))
        assert solver.same_source(*told, one.evidence["source"], one.toolchain), MAKE


def test_a_cpu_that_made_no_entry_is_answered(
    system: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = cpu.detect()
    if this.vector_bytes not in (32, 64):
        pytest.skip("no entry is for vectors of this width")
    other = replace(this, model="somebody's", caches=(("L1", 32 << 10), ("L2", 1 << 20)))
    monkeypatch.setattr(cpu, "detect", lambda threads=1: replace(other, units=threads))
    monkeypatch.setattr(full_lookup, full_lookup.select_device.__name__, lambda *_: other)
    found = skipjack.lookup(SHIPPED)
    assert found is not None and found.source == "system, other class"
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) for shape in ((128, 224), (224, 160)))
    assert np.allclose(found(a, b), a @ b, rtol=1e-4)


_ASK = """
import sys
import skipjack
assert skipjack.__file__.startswith(sys.prefix), skipjack.__file__
from skipjack.runtime import explain
print(explain(sys.argv[1]).decision.answer.source)
"""


@pytest.mark.long
def test_a_wheel_in_an_empty_environment_answers(tmp_path: Path) -> None:
    if cpu.detect().vector_bytes not in (32, 64):
        pytest.skip("no entry is for vectors of this width")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("skipjack/system/")}
    here = {f"skipjack/system/{path.relative_to(HERE).as_posix()}" for path in HERE.rglob("*")}
    assert names == {name for name in here if (ROOT / "src" / name).is_file()}
    _run(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env"))
    python = tmp_path / "env" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(_run(str(python), "-c", where).strip())
    _run(*pip, "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    # What Skipjack depends on is not fetched again: it is taken from here, behind the wheel.
    theirs = [place for place in sys.path if place.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(theirs))
    environment = {key: value for key, value in os.environ.items() if "SKIPJACK" not in key}
    environment |= {"SKIPJACK_USER_DB_PATH": str(tmp_path / "user")}
    environment.pop("PYTHONPATH", None)
    told = _run(str(python), "-c", _ASK, SHIPPED, cwd=tmp_path, env=environment)
    assert told.strip().startswith("system")


def _run(*command: str, **options: Any) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
