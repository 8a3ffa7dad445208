"""Tables of the bank: devices of the same name, and where an entry was timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skipjack.bank import BankEntry
from skipjack.report import bank, print_entries, print_entry


def entry(device: str, evidence: dict[str, Any], name: str = "znver4/1") -> BankEntry:
    key = f"cpu:{name}:{device}"
    return BankEntry(
        "add:8:f32", key, name, "nest", 1, {"schedule": "n"}, 1.0, 2.0, None, "", {}, evidence
    )


WIDE = entry("wide", {"model": "A CPU", "vector_bytes": 64})
NARROW = entry("narrow", {"model": "A hypervisor's CPU", "vector_bytes": 32})
OTHER = entry("other", {"model": "A CPU", "vector_bytes": 32}, "haswell/1")
OLDER = entry("older", {})


def test_devices_of_one_name_are_told_apart_by_their_vectors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_entries([WIDE, NARROW, OTHER, OLDER])
    shown = capsys.readouterr().out
    assert "znver4/1 (512-bit)" in shown and "znver4/1 (256-bit)" in shown
    assert "haswell/1 (" not in shown
    print_entries([WIDE, OTHER, OLDER])
    assert "-bit" not in capsys.readouterr().out


def test_what_was_found_with_pinned_settings_has_a_row_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pinned = replace(
        entry("wide", {"pinned": {"tile": "4x4"}}), kind="perf tile=4x4", solver="packed"
    )
    print_entries([WIDE, pinned])
    rows = [line for line in capsys.readouterr().out.splitlines() if "add:8" in line]
    assert len(rows) == 2
    assert "packed" in next(row for row in rows if "tile=4x4" in row)


def test_an_entry_says_on_which_model_it_was_timed(capsys: pytest.CaptureFixture[str]) -> None:
    print_entry(NARROW)
    assert "timed on  A hypervisor's CPU" in capsys.readouterr().out
    print_entry(OLDER)
    assert "timed on  unknown" in capsys.readouterr().out


def test_classes_that_share_a_name_and_a_width_are_told_apart_by_their_digests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_entries([WIDE, entry("second", {"vector_bytes": 64}), OTHER])
    shown = capsys.readouterr().out
    assert "znver4/1 (wide)" in shown and "znver4/1 (second)" in shown
    assert "haswell/1 (" not in shown


def test_entries_of_another_compiler_or_deployment_are_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stale = replace(WIDE, toolchain="llvm-1.0.0/llvmlite-0.0.1")
    print_entries([stale, replace(OTHER, protocol="eager/hot")])
    shown = capsys.readouterr().out
    assert [name in shown for name in ("deployed", "eager/hot")] == [True, True]
    assert "1 entry is stale" in shown and "skipjack bank verify" in shown
    print_entry(stale)
    assert "compiled by llvmlite-0.0.1, but this machine has llvmlite-" in capsys.readouterr().out
    print_entries([WIDE, OTHER])
    shown = capsys.readouterr().out
    assert "stale" not in shown and "deployed" not in shown


def test_a_long_list_looks_like_a_short_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [WIDE, NARROW, OTHER, OLDER]
    print_entries(entries)
    folded = capsys.readouterr().out
    monkeypatch.setattr(bank, "_MOST_FOLDED", len(entries) - 1)
    print_entries(entries)
    told = [[line.rstrip() for line in text.splitlines()] for text in (folded, _printed(capsys))]
    assert told[0] == told[1]


def test_a_long_list_folds_no_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank, "_MOST_FOLDED", 1)
    long = replace(WIDE, config={"text": "x" * 900})
    print_entries([long, OTHER])
    rows = [line for line in _printed(capsys).splitlines() if line.strip()]
    assert len(rows) == 4 and "x" * 900 in rows[2]


def _printed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out
