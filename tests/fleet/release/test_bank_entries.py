"""Files for a device's name hold the results of one width of vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skipjack.bank import Bank, BankEntry
from skipjack.fleet.release.results import ranking_sources
from skipjack.fleet.release.results.ranking_sources import entries_of
from skipjack.native import cpu


def entry(problem: str, name: str, width: int | None) -> BankEntry:
    evidence: dict[str, Any] = {} if width is None else {"vector_bytes": width}
    key = f"cpu:{name}:{width}"
    return BankEntry(
        problem, key, name, "nest", 1, {"schedule": "n"}, 1.0, 2.0, None, "", {}, evidence
    )


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    made = Bank.open(tmp_path)
    made.add(
        [
            entry("add:8:f32", "elsewhere/1", 32),
            entry("add:8:f32", "elsewhere/1", 64),
            entry("add:9:f32", "elsewhere/1", 32),
            entry("add:9:f32", "elsewhere/1", None),
            entry("add:8:f32", "haswell/1", 32),
        ]
    )
    return made


def kept(bank: Bank) -> set[str]:
    return {one.device for one in entries_of(bank)}


def test_of_two_widths_the_larger_is_exported_and_the_other_named(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    found = {"cpu:elsewhere/1:64", "cpu:elsewhere/1:None", "cpu:haswell/1:32"}
    assert kept(bank) == found
    (sentence,) = caplog.messages
    assert sentence == (
        "2 entries of elsewhere/1 (256-bit) are left out: "
        "the file is for the 512-bit device of this name"
    )


def test_the_width_of_this_machine_goes_first(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    here = replace(cpu.detect(), arch="elsewhere", vector_bytes=32)
    monkeypatch.setattr(ranking_sources, "local_devices", lambda: [here])
    assert kept(bank) == {"cpu:elsewhere/1:32", "cpu:elsewhere/1:None", "cpu:haswell/1:32"}


def test_one_width_of_a_name_is_left_alone(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    assert [one.device for one in entries_of(bank, "haswell/1")] == ["cpu:haswell/1:32"]
    assert not caplog.messages


def test_files_have_what_is_deployed_as_is_usual(bank: Bank) -> None:
    before = entries_of(bank)
    bank.put(replace(before[0], protocol="eager/cold"))
    assert len(bank.entries()) > len(before)
    assert entries_of(bank) == before
