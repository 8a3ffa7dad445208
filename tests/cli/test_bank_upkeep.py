"""Merging bank files and removing entries, as run by users."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from skipjack.bank import Bank, BankEntry
from skipjack.cli.main import app
from skipjack.core import Status
from skipjack.errors import SkipjackError
from skipjack.ledger import BuildRecord, CandidateKey, Ledger
from skipjack.native import cpu
from skipjack.runtime.process import tuning_policy
from skipjack.storage import ArtifactStore

HERE = cpu.detect().name
CPU, GPU = f"cpu:{HERE}:abc", "cuda:sm_90/132:def"


def entry(size: int, device: str = CPU, **changes: Any) -> BankEntry:
    name = device.split(":")[1]
    return BankEntry(
        f"add:{size}:f32", device, name, "nest", 1, {"schedule": "n"}, 1.0, 2.0, None, "", {},
        **changes,
    )  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    for name, entries in {
        "a": [entry(1), entry(2)],
        "b": [entry(2), entry(3, GPU)],
        "c": [entry(4, GPU)],
    }.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{one.line}\n" for one in entries))
    return tmp_path


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_a_merge_into_a_file_leaves_ones_own_bank_alone(home: Path) -> None:
    merged = home / "merged.jsonl"
    files = [str(home / f"{name}.jsonl") for name in "abc"]
    told = json.loads(run("bank", "merge", *files, "-o", str(merged), "--json"))
    assert (told["keys"], told["entries"]) == (4, 4)
    first = merged.read_bytes()
    run("bank", "merge", *reversed(files), files[0], "-o", str(merged))
    assert merged.read_bytes() == first
    assert not (home / "user" / "bank.jsonl").exists()
    run("bank", "merge", *files[1:], "-o", str(merged), "--device", "sm_90/132")
    assert {json.loads(line)["device"] for line in merged.read_text().splitlines()} == {GPU}


def test_a_merge_overwrites_nothing_but_a_bank(home: Path) -> None:
    notes = home / "notes.txt"
    notes.write_text("do not lose this\n")
    with pytest.raises(SkipjackError, match="is not a bank"):
        run("bank", "merge", str(home / "a.jsonl"), "-o", str(notes))
    assert notes.read_text() == "do not lose this\n"


def test_a_directory_with_a_bank_is_merged(home: Path) -> None:
    other = home / "other"
    Bank.open(other).put(entry(9))
    run("bank", "merge", str(other))
    assert [one.problem for one in Bank.open(home / "user").entries()] == ["add:9:f32"]


def test_a_merge_of_strangers_is_refused_and_writes_nothing(home: Path) -> None:
    with pytest.raises(SkipjackError, match="shares no class of devices with"):
        run(
            *("bank", "merge", str(home / "a.jsonl"), str(home / "c.jsonl")),
            *("-o", str(home / "merged.jsonl")),
        )
    assert not (home / "merged.jsonl").exists()


def test_a_bank_of_another_processor_is_refused_and_both_are_named(home: Path) -> None:
    other = home / "haswell.jsonl"
    other.write_text(f"{entry(1, 'cpu:nocona/1:xyz').line}\n")
    with pytest.raises(SkipjackError) as refused:
        run("bank", "merge", str(other))
    assert "another processor (nocona)" in str(refused.value)
    assert HERE.partition("/")[0] in str(refused.value)
    assert not (home / "user" / "bank.jsonl").exists()
    run("bank", "merge", str(other), "--device", "nocona/1")
    assert len(Bank.open(home / "user").entries()) == 1
    run("bank", "merge", str(other))  # the bank has that processor now


def test_other_units_of_a_processor_are_no_other_processor(home: Path) -> None:
    arch = HERE.partition("/")[0]
    more = home / "more.jsonl"
    more.write_text(f"{entry(1, f'cpu:{arch}/64:xyz').line}\n")
    run("bank", "merge", str(more))
    assert len(Bank.open(home / "user").entries()) == 1


def test_entries_are_removed_by_problem_or_for_being_stale_and_come_back(home: Path) -> None:
    bank = Bank.open(home / "user")
    stale = entry(7, toolchain="llvm-1.0.0/llvmlite-0.0.1")
    bank.add([entry(5), entry(6), stale])
    assert f"removed add:7:f32 on {HERE} (native/hot): perf nest" in run("bank", "clean", "--stale")
    assert "nothing was removed" in run("bank", "clean", "--stale")
    removed = json.loads(run("bank", "clean", "add:5", "--json"))
    assert removed["removed"] == 1
    assert [one.problem for one in bank.entries()] == ["add:6:f32"]
    run("bank", "merge", removed["copies"])
    assert len(bank.entries()) == 3


def test_entries_of_other_machines_are_not_verified_here(home: Path) -> None:
    bank = Bank.open(home / "user")
    bank.add([entry(7, "cpu:z80/1:abc", toolchain="llvm-1.0.0/llvmlite-0.0.1"), entry(8)])
    assert "nothing to verify" in run("bank", "verify")
    assert "nothing to verify" in run("bank", "verify", "add:8")


@pytest.mark.parametrize("verb", ["show", "verify", "clean"])
def test_a_problem_that_the_bank_does_not_know_is_an_error(home: Path, verb: str) -> None:
    Bank.open(home / "user").put(entry(7))
    with pytest.raises(SkipjackError, match="the bank has no entry for relu:77:f32; try skipjack"):
        run("bank", verb, "relu:77")


def test_removed_entries_are_told_apart_by_their_deployments(home: Path) -> None:
    bank = Bank.open(home / "user")
    ways = ["native/hot", "native/cold", "eager/hot", "eager/cold"]
    bank.add([entry(7, protocol=way) for way in ways])
    told = run("bank", "clean", "add:7", "--deployed", "eager", "--caches", "cold")
    assert "1 entry removed" in told and "(eager/cold)" in told
    told = run("bank", "clean", "add:7")
    assert all(told.count(f"({way})") == 1 for way in ways[:3]) and "eager/cold" not in told


def test_a_stale_entry_behind_a_fresh_one_is_told_as_such(home: Path) -> None:
    bank = Bank.open(home / "user")
    bank.add([entry(7), entry(7, toolchain="llvm-1.0.0/llvmlite-0.0.1")])
    assert "a current entry is used instead" in run("bank", "clean", "--stale")
    assert len(bank.entries()) == 1


def test_why_names_the_device_that_cannot_compute_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skipjack.gpu.discovery.find_gpus", lambda *_: [])
    done = CliRunner().invoke(app, ["bank", "why", "relu:4096:f16"])
    assert done.exit_code == 1
    assert f"relu:4096:f16 on {cpu.detect().name}, policy db" in done.output


@pytest.mark.parametrize(
    ("mode", "said"), [("clean", "find nothing to remove"), ("incremental", "first tune it")]
)
def test_why_says_what_the_policy_has_a_program_do(home: Path, mode: str, said: str) -> None:
    with tuning_policy(mode):
        told = run("bank", "why", "relu:64", "--deployed", "eager")
    assert f"policy {mode}: a program would {said}" in told


def test_a_file_without_problems_is_named(home: Path) -> None:
    with pytest.raises(SkipjackError, match="/dev/null has no problems"):
        run("tune", "-f", "/dev/null")


def test_entries_are_removed_by_the_names_of_problems(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("bank", "merge", str(home / "a.jsonl"), str(home / "b.jsonl"), "--device", HERE)
    bank = Bank.open(home / "user")
    assert "1 entry would be removed" in run("bank", "remove", "add:1", "--dry-run")
    tried = json.loads(run("bank", "remove", "add:1", "add:2", "--dry-run", "--json"))
    assert (tried["removed"], tried["dry_run"], tried["copies"]) == (0, True, "")
    assert [one["problem"] for one in tried["entries"]] == ["add:1:f32", "add:2:f32"]
    with pytest.raises(SkipjackError, match="has no entry for add:9:f32"):
        run("bank", "remove", "add:1", "add:9", "--yes")
    with pytest.raises(SkipjackError, match="no terminal to ask on; add --yes"):
        run("bank", "remove", "add:1")
    assert len(bank.entries()) == 2
    monkeypatch.setattr("skipjack.cli.bank_removal.is_terminal", lambda: True)
    done = CliRunner().invoke(app, ["bank", "remove", "add:1", "add:2"], input="yes\nadd:2\n")
    assert "add:1:f32 was not removed" in done.output and "removed add:2:f32" in done.output
    assert [one.problem for one in bank.entries()] == ["add:1:f32"]
    told = json.loads(run("bank", "remove", "add:1", "--yes", "--json"))
    assert told["removed"] == 1 and not bank.entries()
    run("bank", "merge", told["copies"])
    assert len(bank.entries()) == 2, "what was removed can be brought back"


def test_a_ledger_is_collected_with_the_code_of_its_builds(home: Path) -> None:
    user = home / "user"
    store = ArtifactStore(user / "artifacts")
    digests = [store.put(data) for data in (b"needed", b"not needed")]
    with Ledger.open(user) as ledger:
        for number, digest in enumerate(digests, 1):
            key = CandidateKey(f"add:{number}:f32", "nest", 1, '{"schedule":"n"}')
            ledger.add_build(BuildRecord(f"{number}", "cpu", Status.OK, digest, "k", "abi"), key)
    Bank.open(user).put(entry(1))
    assert "no rows that are not needed" in run("ledger", "gc"), "it is younger than a day"
    tried = json.loads(run("ledger", "gc", "--days", "0", "--dry-run", "--json"))
    assert tried["rows"] == {"candidate_builds": 1, "builds": 1, "candidates": 1}
    assert (tried["kernels"], tried["kernel_bytes"]) == (1, len(b"not needed"))
    assert all(digest in store for digest in digests)
    assert "1  builds" in run("ledger", "gc", "--days", "0")
    assert [digest in store for digest in digests] == [True, False]
