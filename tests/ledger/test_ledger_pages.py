"""Summaries of a ledger for pages: counts that go on from what was counted before."""

from pathlib import Path

import pytest

from skipjack.core import Config, Problem, Status, Study, Trial
from skipjack.ledger import BuildRecord, CandidateKey, FailedBuilds, Ledger, LedgerBrowser

STUDY = Study(Problem("matmul", (8, 8, 8)), "loops", "cpu:a/1:b", "genetic", 0, "1:space:code")


def fill(place: Path, told: int, asked: int = 0, *, reason: str) -> None:
    """A ledger with so many trials and asks, and as many failed builds."""
    with Ledger.open(place) as ledger:
        ledger.start_study(STUDY, 1)
        for tile in range(told):
            ledger.log_ask(STUDY.id, Config(tile=tile))
            ledger.log_tells(STUDY.id, [Trial(Config(tile=tile), value=1.0)])
            key = CandidateKey("matmul:8x8x8:f32", "loops", 1, Config(tile=tile).key)
            build = BuildRecord(
                f"source {tile}", "cpu", Status.BUILD_ERROR, None, "k", "abi", reason=reason
            )
            ledger.add_build(build, key)
        for tile in range(asked):
            ledger.log_ask(STUDY.id, Config(tile=told + tile))


def counted(place: Path) -> tuple[int, list[FailedBuilds]]:
    with Ledger.read(place) as ledger:
        browser = LedgerBrowser(ledger)
        return browser.counts().trials, browser.failed_builds()


def test_counts_go_on_from_what_was_counted(tmp_path: Path) -> None:
    for reason in ("no memory", "no time"):
        fill(tmp_path, 3, reason=reason)
        trials, _ = counted(tmp_path)
    assert trials == 6
    assert {(one.reason, one.count) for one in counted(tmp_path)[1]} == {
        ("no memory", 3),
        ("no time", 3),
    }


@pytest.mark.parametrize("in_place", [False, True])
def test_a_file_that_was_replaced_by_a_larger_one_is_counted_anew(
    tmp_path: Path, in_place: bool
) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    fill(here, 3, reason="no memory")
    fill(other, 2, 9, reason="no time")
    fill(other, 2, reason="no time")
    assert counted(here)[0] == 3
    source, target = other / "ledger.sqlite", here / "ledger.sqlite"
    if in_place:
        target.write_bytes(source.read_bytes())
    else:
        source.replace(target)
    trials, failed = counted(here)
    assert trials == 4
    assert [(one.reason, one.count) for one in failed] == [("no time", 4)]
