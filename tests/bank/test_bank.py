"""The bank: one line for each problem on each device, in whatever order they were written."""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.bank import FIND, REPLACED, Bank, BankEntry, Changes, ReplacementReason, replacing
from skipjack.core import Config, Problem, Study
from skipjack.errors import CorruptFileError, NewerFormatError, UsageError
from skipjack.ledger import DecisionRecord, Ledger

MakeEntry = Any

EARLY, LATE = "2025-01-01T00:00:00.000000Z", "2025-06-01T00:00:00.000000Z"


def test_what_was_put_is_found(bank: Bank, entry: MakeEntry) -> None:
    assert bank.lookup("matmul:8x8x8:f32", "cpu:znver4/1:abc") is None
    bank.put(entry())
    assert bank.lookup("matmul:8x8x8:f32", "cpu:znver4/1:abc") == entry()
    assert bank.lookup("matmul:8x8x8:f32", "cpu:other") is None
    assert Bank.open(bank.path.parent).entries() == [entry()]


def test_stronger_evidence_replaces_weaker_and_not_the_reverse(
    bank: Bank, entry: MakeEntry
) -> None:
    for low, created in ((1.1, LATE), (1.3, EARLY), (1.2, LATE)):
        speedup = {"vendor": {"ratio": 1.4, "low": low, "high": 1.5}}
        bank.put(entry(speedup=speedup, created=created))
    assert [one.speedup["vendor"]["low"] for one in bank.entries()] == [1.3]


def test_a_clock_that_is_set_back_loses_nothing(bank: Bank, entry: MakeEntry) -> None:
    held = entry(created="2090-01-01T00:00:00.000000Z")
    bank.put(held)
    evidence = {REPLACED: replacing(held, ReplacementReason.SLOWER)}
    bank.put(entry(config={"tile": 4}, created=EARLY, evidence=evidence))
    assert [one.config for one in bank.entries()] == [{"tile": 4}]


def test_entries_are_appended_and_a_compacted_file_is_sorted_lines(
    bank: Bank, entry: MakeEntry
) -> None:
    for problem in ("b:1:f32", "c:1:f32", "a:1:f32"):
        before = bank.path.read_bytes() if bank.path.exists() else b""
        bank.put(entry(problem))
        assert bank.path.read_bytes() == before + entry(problem).line.encode() + b"\n"
    bank.join({})
    lines = bank.path.read_text().split("\n")
    assert [BankEntry.from_line(line).problem for line in lines[:-1]] == [
        "a:1:f32",
        "b:1:f32",
        "c:1:f32",
    ]
    assert lines[-1] == ""


def test_two_open_banks_see_each_others_entries(bank: Bank, entry: MakeEntry) -> None:
    other = Bank.open(bank.path.parent)
    bank.put(entry("a:1:f32"))
    other.put(entry("b:1:f32"))
    assert bank.entries() == other.entries() == [entry("a:1:f32"), entry("b:1:f32")]


def test_an_unchanged_file_is_parsed_once(bank: Bank, entry: MakeEntry) -> None:
    bank.put(entry())
    first = bank.lookup(entry().problem, entry().device)
    assert bank.lookup(entry().problem, entry().device) is first


def make(problem: int, created: str, tile: int, low: float) -> BankEntry:
    gain = {"ratio": 1.0, "low": low, "high": 1.0}
    return BankEntry(
        f"add:{problem}:f32", "cpu:a", "a/1", "loops", 1, {"tile": tile}, 1.0, 1.0, 1.0, "numpy",
        {"default": gain, "vendor": gain}, {}, created,
    )  # fmt: skip


banks = st.lists(
    st.lists(
        st.builds(
            make,
            st.integers(1, 3),
            st.sampled_from([EARLY, LATE]),
            st.integers(0, 2),
            st.sampled_from([1.0, 1.1]),
        ),
        max_size=4,
    ),
    min_size=2,
    max_size=3,
)


@settings(max_examples=15, deadline=None)
@given(banks)
def test_any_order_of_merges_gives_the_same_bytes(several: list[list[BankEntry]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, entries in enumerate(several):
            paths.append(Path(folder) / f"{number}.jsonl")
            paths[-1].write_text("".join(f"{entry.line}\n" for entry in entries))
        results = set()
        for number, order in enumerate(itertools.permutations(paths)):
            bank = Bank.open(Path(folder) / f"bank{number}")
            for path in order:
                bank.merge(path)
            results.add(bank.path.read_bytes() if bank.path.exists() else b"")
        assert len(results) == 1


def test_a_merge_counts_what_became_of_the_entries(
    bank: Bank, entry: MakeEntry, tmp_path: Path
) -> None:
    def gain(low: float) -> dict[str, Any]:
        return {"speedup": {"vendor": {"ratio": 2.0, "low": low, "high": 2.0}}}

    other = Bank.open(tmp_path / "other")
    both = entry("same:1:f32")
    bank.add([both, entry("kept:1:f32", **gain(1.5)), entry("gone:1:f32", **gain(1.4))])
    offered = {"kept": 1.4, "gone": 1.5, "new": 1.0}
    other.add(
        [both, *(entry(f"{n}:1:f32", config={"tile": 1}, **gain(g)) for n, g in offered.items())]
    )
    assert bank.merge(other.path) == Changes(new=1, replaced=1, kept=1, same=1)
    assert bank.merge(other.path) == Changes(kept=1, same=3)
    assert [one.config["tile"] for one in bank.entries()] == [1, 8, 1, 8]


PUT = """
import sys
from pathlib import Path
from skipjack.bank import FIND, Bank, BankEntry
directory, writer, line = sys.argv[1:]
bank = Bank.open(Path(directory))
for number in range(15):
    bank.put(BankEntry.from_line(line.replace("matmul:8x8x8", f"add:{writer}x{number}")))
"""


def test_many_processes_put_and_none_loses_an_entry(bank: Bank, entry: MakeEntry) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", PUT, str(bank.path.parent), str(writer), entry().line]
        )
        for writer in range(1, 4)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(bank.entries()) == 45


# Rebuilding


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.open(tmp_path / "ledger") as opened:
        yield opened


def conclude(ledger: Ledger, entry: BankEntry, status: str = "banked") -> None:
    study = Study(Problem("matmul", (8, 8, 8)), "loops", entry.device, "random", 0)
    ledger.start_study(study, 1)
    ledger.add_decision(
        DecisionRecord(
            study.id,
            entry.problem,
            entry.device,
            entry.solver,
            Config(entry.config),
            status,
            entry.record(),
        )
    )


def test_rebuilding_gives_the_same_bytes(bank: Bank, ledger: Ledger, entry: MakeEntry) -> None:
    for made in (
        entry("b:1:f32", created=LATE, time_ns=1 / 3),
        entry("a:1:f32"),
        entry("b:1:f32", created=EARLY),
        entry("a:1:f32", device="cpu:other", vendor_ns=None),
    ):
        bank.put(made)
        conclude(ledger, made)
    conclude(ledger, entry("a:1:f32", created=LATE), status="reserved")
    bank.join({})
    before = bank.path.read_bytes()
    bank.path.unlink()
    assert bank.rebuild(ledger) == Changes(new=3)
    assert bank.path.read_bytes() == before


def test_rankings_stand_beside_configs_and_are_rebuilt_too(
    bank: Bank, ledger: Ledger, entry: MakeEntry
) -> None:
    perf = entry("a:1:f32")
    find = entry("a:1:f32", kind=FIND, evidence={"ranking": [{"solver": "loops"}]})
    for made, status in ((perf, "banked"), (find, "found")):
        bank.put(made)
        conclude(ledger, made, status)
    assert bank.lookup(perf.problem, perf.device) == perf
    assert bank.lookup(find.problem, find.device, FIND) == find
    bank.join({})
    before = bank.path.read_bytes()
    assert bank.rebuild(ledger) == Changes(same=2)
    assert bank.path.read_bytes() == before


def test_rebuilding_keeps_what_came_from_other_banks(
    bank: Bank, ledger: Ledger, entry: MakeEntry
) -> None:
    bank.put(entry())
    bank.put(entry("a:1:f32"))
    speedup = {"vendor": {"ratio": 1.0, "low": 0.9, "high": 1.1}}
    conclude(ledger, entry(created=LATE, config={"tile": 1}, speedup=speedup))
    conclude(ledger, entry("b:1:f32"))
    assert bank.rebuild(ledger) == Changes(new=1, kept=1)
    assert bank.entries() == [entry("a:1:f32"), entry("b:1:f32"), entry()]
    assert not list(bank.path.parent.glob("bank.jsonl.*"))


def test_a_verdict_that_is_no_entry_is_left_out_by_name(
    bank: Bank, ledger: Ledger, entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    conclude(ledger, entry())
    study = ledger.studies()[0]
    odd = {"format": 1}, {"format": 3}, {**entry().record(), "time_ns": "fast"}
    for record in odd:
        ledger.add_decision(DecisionRecord(study.id, "p", "d", "s", Config(), "banked", record))
    assert bank.rebuild(ledger) == Changes(new=1)
    assert bank.entries() == [entry()]
    assert len(caplog.messages) == len(odd)
    assert "it has format 3, this Skipjack knows 2" in caplog.text


# Damage

DAMAGE = [
    *(b"{torn", b"\xff\xfe", b"<<<<<<< ours", b"", b"{}", b"[" * 100_000, b"9" * 4301),
    *(b'{"format":1e309}', b'{"format":NaN}', b'{"solver":"\\ud800"}'),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_a_bad_line_costs_that_line(
    bank: Bank,
    ledger: Ledger,
    entry: MakeEntry,
    damage: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    both = [entry("a:1:f32"), entry("b:1:f32")]
    bank.add(both)
    for one in both:
        conclude(ledger, one)
    first, second = bank.path.read_bytes().splitlines()
    hurt = first + b"\n" + damage + b"\n" + second + b"\n"
    bank.path.write_bytes(hurt)
    for _ in range(2):  # a process is told once
        reader = Bank.open(bank.path.parent)
        assert reader.entries() == both
        assert reader.lookup("b:1:f32", both[1].device) == both[1]
        (said,) = caplog.messages
        assert f"{bank.path}: line 2: " in said and "skipjack bank rebuild" in said
        assert bank.path.read_bytes() == hurt, "reading changes nothing"
    bank.put(entry("c:1:f32"))
    assert len(bank.entries()) == 3
    assert damage in bank.path.read_bytes().split(b"\n"), "writing loses nothing"
    bank.rebuild(ledger)
    caplog.clear()
    assert len(Bank.open(bank.path.parent).entries()) == 3
    assert not caplog.messages, "a rebuilt bank is sound"
    assert bank.path.with_name("bank.jsonl.bad-lines").read_bytes() == damage + b"\n"


def test_rebuilding_restores_what_a_bad_line_said(
    bank: Bank, ledger: Ledger, entry: MakeEntry
) -> None:
    both = [entry("a:1:f32"), entry("b:1:f32")]
    bank.add(both)
    for one in both:
        conclude(ledger, one)
    whole = bank.path.read_bytes()
    bank.path.write_bytes(whole.replace(b"100.5", b"1e309", 1))
    assert bank.entries() == both[1:]
    assert bank.rebuild(ledger) == Changes(new=1, same=1)
    assert bank.path.read_bytes() == whole


def test_a_newer_line_is_left_out_and_the_file_untouched(
    bank: Bank, entry: MakeEntry, caplog: pytest.LogCaptureFixture, ledger: Ledger
) -> None:
    newer = entry().line.replace('"format":2', '"format":3').replace('"kind"', '"sort"')
    bank.path.write_text(f"{entry().line}\n{newer}\n")
    before = bank.path.read_bytes()
    assert bank.entries() == [entry()]
    assert "line 2: it has format 3" in caplog.text and "use a newer Skipjack" in caplog.text
    for act in (lambda: bank.put(entry("a:1:f32")), lambda: bank.rebuild(ledger)):
        with pytest.raises(
            NewerFormatError, match=rf"{bank.path} line 2: it has format 3.*knows 2"
        ):
            act()
    assert bank.path.read_bytes() == before


def test_the_good_lines_of_another_bank_are_merged(
    bank: Bank, entry: MakeEntry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other.jsonl").write_text(f"nonsense\n{entry().line}\n")
    assert bank.merge(tmp_path / "other.jsonl") == Changes(new=1)
    assert "other.jsonl: line 1: this is not JSON" in caplog.text
    assert "its other lines are merged; for these, get a new copy of the file" in caplog.text
    assert "rebuild" not in caplog.text, "that mends our own bank"
    assert bank.path.read_text() == f"{entry().line}\n"


def test_a_bad_file_to_merge_is_left_where_it_is(
    bank: Bank, entry: MakeEntry, tmp_path: Path
) -> None:
    bank.put(entry())
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    with pytest.raises(CorruptFileError, match="it was not changed and nothing was merged"):
        bank.merge(tmp_path / "bad.jsonl")
    with pytest.raises(UsageError, match="no bank at"):
        bank.merge(tmp_path / "missing.jsonl")
    assert (tmp_path / "bad.jsonl").exists()
    assert bank.entries() == [entry()]
