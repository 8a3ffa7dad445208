"""Entries of plug-ins that are not loaded: named, and neither replaced nor shipped."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import skipjack
from skipjack import plugins
from skipjack.bank import Bank, BankEntry
from skipjack.errors import UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import banked_kernels
from skipjack.settings import Settings
from skipjack.solvers import find_solver

KEY = "add:320"


def entry(key: str, solver: str) -> BankEntry:
    """Of weak evidence: anything that met it would replace it."""
    device, nest = cpu.detect(), find_solver("nest")
    return BankEntry(
        problem=parse("add:320").key.replace("add:320", key),
        device=device.class_key,
        device_name=device.name,
        solver=solver,
        solver_version=1,
        config=nest.space(parse(KEY), device).default(),
        time_ns=1e9,
        default_ns=1e9,
        vendor_ns=None,
        vendor="",
        speedup={},
        created="2020-01-01T00:00:00.000000Z",
    )


def test_tuning_leaves_an_entry_that_it_cannot_meet(
    user_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = entry(KEY, "streaming")
    Bank.open(user_dir).put(held)
    result = skipjack.tune(KEY, budget=2)
    assert result.status in ("kept", "noisy", "reserved")
    if result.status != "noisy":
        assert "solver streaming, which is not loaded" in result.reason
    assert Bank.open(user_dir).lookup(held.problem, held.device) == held
    with caplog.at_level(logging.WARNING):
        assert skipjack.lookup(KEY, strict=True) is None
    assert "solver streaming" in caplog.text


def test_what_cannot_be_built_is_left_out_with_a_remark(user_dir: Path) -> None:
    bank = Bank.open(user_dir)
    good = entry(KEY, "nest")
    bank.put(good)
    bank.put(entry("add:321", "streaming"))
    bank.put(entry("cdist1:320", "nest"))
    found = banked_kernels(Settings(user_dir))
    assert [record.problem for record, _ in found.kernels] == [good.problem]
    assert len(found.left_out) == 2
    assert "solver streaming, which is not known here" in found.left_out[0]
    assert "unknown operation 'cdist1'" in found.left_out[1]


def test_a_bank_of_nothing_else_says_why(user_dir: Path) -> None:
    Bank.open(user_dir).put(entry(KEY, "streaming"))
    with pytest.raises(UsageError, match="streaming, which is not known"):
        banked_kernels(Settings(user_dir))


def test_lookup_loads_plug_ins(
    user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "loaded"
    (tmp_path / "marking.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setenv("SKIPJACK_PLUGINS", str(tmp_path / "marking.py"))
    assert skipjack.lookup(KEY, strict=True) is None
    assert mark.exists()
    mark.unlink()
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setenv("SKIPJACK_PLUGINS", "")
    assert skipjack.lookup(KEY, plugins=str(tmp_path / "marking.py"), strict=True) is None
    assert mark.exists()
    mark.unlink()
    monkeypatch.setattr(plugins, "_loaded", {})
    chosen = Settings(user_dir)
    assert (
        skipjack.lookup(KEY, plugins=str(tmp_path / "marking.py"), settings=chosen, strict=True)
        is None
    )
    assert mark.exists()
