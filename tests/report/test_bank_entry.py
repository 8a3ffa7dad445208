"""A bank entry as text: its evidence, and what it replaced."""

from dataclasses import replace

import pytest

from skipjack.bank import MASKED, REPLACED, BankEntry, ReplacementReason, replacing
from skipjack.report import print_entry

GAIN = {"ratio": 1.5, "low": 1.4, "high": 1.6}
ENTRY = BankEntry(
    "add:8:f32", "cpu:a", "a/1", "nest", 1, {"tile": 8}, 10.0, 15.0, 15.0, "numpy",
    {"default": GAIN, "vendor": GAIN}, {"samples": 20, "set_aside": 1, "ties": [{"tile": 4}]},
)  # fmt: skip


@pytest.mark.parametrize("met", list(ReplacementReason))
def test_what_an_entry_replaced_is_shown(
    capsys: pytest.CaptureFixture[str], met: ReplacementReason
) -> None:
    evidence = {**ENTRY.evidence, REPLACED: replacing(ENTRY, met)}
    print_entry(replace(ENTRY, config={"tile": 2}, evidence=evidence))
    shown = capsys.readouterr().out
    assert "replaced  nest tile=8 (" in shown
    assert "(-)" not in shown


@pytest.mark.parametrize("replaced", [3, {}, {"config": [], "met": 7}, None])
def test_odd_evidence_is_shown_all_the_same(
    capsys: pytest.CaptureFixture[str], replaced: object
) -> None:
    odd = replace(ENTRY, evidence={REPLACED: replaced, "ties": ["rows"]})
    print_entry(BankEntry.from_line(odd.line))
    assert "add:8:f32" in capsys.readouterr().out


def test_what_kernels_did_without_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    said = "a has x86-64-v4: its vectors of more than 256 bits were masked"
    print_entry(replace(ENTRY, evidence={**ENTRY.evidence, MASKED: said}))
    assert f"masked  {said}" in capsys.readouterr().out
