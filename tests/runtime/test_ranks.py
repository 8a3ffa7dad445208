"""Processes of one program use the same kernels, whatever their measurements say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy_entry import entry

import skipjack
from processes import PATIENCE_S
from skipjack.bank import Bank
from skipjack.errors import StorageError
from skipjack.runtime import bank_lookup
from skipjack.runtime.answers import Agreement, agreement, agreement_of
from skipjack.runtime.answers.agreement import AgreedAnswer, _entered
from skipjack.runtime.process import next_generation, program, ranked_program

HERE = Path(__file__).parent
SOME, OTHER = AgreedAnswer("nest", "{}", "user", True), AgreedAnswer("numpy", "{}", "x", False)


@pytest.fixture(autouse=True)
def fresh(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for names in program._RANKS:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    for name in ("SKIPJACK_FIND_ENFORCE", "SKIPJACK_FIND_MODE", "SKIPJACK_ON_MISS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(program, "_said", set())
    monkeypatch.setitem(_entered, Path("/"), None)  # undone with the rest
    _entered.clear()


def never() -> AgreedAnswer:
    raise AssertionError("it was decided before")


def run_ranks(count: int, folder: Path, rounds: int, problems: list[str]) -> list[list[object]]:
    """What each rank got, round by round."""
    folder.mkdir()
    paths = os.pathsep.join([str(HERE), str(HERE.parent)])
    command = [sys.executable, str(HERE / "rank_program.py"), str(folder), str(rounds), *problems]
    started = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": paths,
                "RANK": str(rank),
                "WORLD_SIZE": str(count),
            },
        )
        for rank in range(count)
    ]
    said = [one.communicate(timeout=PATIENCE_S)[0] for one in started]
    assert [one.returncode for one in started] == [0] * count
    return [json.loads(text) for text in said]


def test_eight_ranks_that_measure_noise_never_diverge(tmp_path: Path) -> None:
    problems = ["add:64", "mul:64", "add:65"]
    said = run_ranks(8, tmp_path / "meeting", 2, problems)
    assert all(one == said[0] for one in said)
    for number in range(2):  # and not because each problem has one kernel
        assert len([what for round, _, what in said[0] if round == number]) == 2 * len(problems)


@pytest.mark.parametrize(
    ("given", "rank", "count"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, 3, 8),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, 0, 2),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, 1, 4),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "6"}, 5, 6),
    ],
)
def test_launchers_say_who_is_a_rank(given: dict[str, str], rank: int, count: int) -> None:
    found = ranked_program(given)
    assert found is not None
    assert (found.rank, found.ranks) == (rank, count)
    other = ranked_program(given | {next(iter(given)): "7"})
    assert other is not None and other.name == found.name


def test_a_process_alone_is_no_rank() -> None:
    assert ranked_program({}) is None
    assert ranked_program({"RANK": "0", "WORLD_SIZE": "1"}) is None
    assert ranked_program({"RANK": "zero", "WORLD_SIZE": "2"}) is None
    assert ranked_program({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) is None  # a batch script


def test_programs_are_told_apart_by_their_step_their_port_or_their_name() -> None:
    rank = {"RANK": "0", "WORLD_SIZE": "2"}
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    environments = (
        rank,
        rank | {"MASTER_PORT": "1"},
        rank | {"MASTER_PORT": "2"},
        rank | {"TORCHELASTIC_RESTART_COUNT": "1"},
        rank | step,
        rank | step | {"SLURM_STEP_ID": "1"},
        rank | step | {"SKIPJACK_PROGRAM": "mine"},
    )
    found = [ranked_program(one) for one in environments]
    assert len({one.name for one in found if one}) == len(environments)


def test_ranks_of_several_hosts_that_meet_at_one_address_are_of_one_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    here = there | {"MASTER_ADDR": "localhost"}
    before = ranked_program(there), ranked_program(here)
    monkeypatch.setattr(os, "getppid", lambda: 1)  # as on another host
    assert ranked_program(there) == before[0]
    assert ranked_program(here) != before[1]


def test_the_first_decides_and_the_others_take_it_until_they_reload(tmp_path: Path) -> None:
    first, second = Agreement(tmp_path / "one"), Agreement(tmp_path / "one")
    assert first.settle("add", lambda: SOME) == SOME
    assert second.settle("add", never) == SOME
    assert second.settle("mul", lambda: OTHER) == OTHER
    assert first.settle("mul", never) == OTHER
    next_generation()
    assert second.settle("add", lambda: OTHER) == OTHER
    assert first.settle("add", never) == OTHER


def test_a_rank_that_fails_to_decide_leaves_it_to_the_next(tmp_path: Path) -> None:
    first, second = Agreement(tmp_path / "one"), Agreement(tmp_path / "one")
    with pytest.raises(AssertionError):
        first.settle("add", never)
    assert second.settle("add", lambda: SOME) == SOME


def test_a_new_run_of_a_program_agrees_anew(tmp_path: Path) -> None:
    first = Agreement(tmp_path / "one")
    first.settle("add", lambda: SOME)
    first._held.__exit__(None, None, None)  # as when its process ends
    second = Agreement(tmp_path / "one")
    assert second.settle("add", lambda: OTHER) == OTHER


def test_folders_of_programs_that_ended_are_removed_when_another_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    ended, running = Agreement(tmp_path / "ranks" / "a"), Agreement(tmp_path / "ranks" / "b")
    ended.settle("add", lambda: SOME)
    running.settle("add", lambda: SOME)
    ended._held.__exit__(None, None, None)  # as when its process ends
    assert agreement_of(tmp_path) is not None
    assert not (tmp_path / "ranks" / "a").exists()
    assert running.settle("add", never) == SOME


def test_a_rank_that_comes_while_its_folder_is_removed_makes_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def made_and_removed(path: Path) -> Path:
        path.mkdir()
        made.append(path)
        if len(made) == 1:
            path.rmdir()
        return path

    monkeypatch.setattr(agreement, "ensure_directory", made_and_removed)
    assert Agreement(tmp_path / "one").settle("add", lambda: SOME) == SOME
    assert len(made) == 2


def test_a_record_that_cannot_be_read_is_decided_again(tmp_path: Path) -> None:
    first = Agreement(tmp_path / "one")
    first.settle("add", lambda: SOME)
    (record,) = (tmp_path / "one").glob("*.json")
    record.write_text("{")
    assert first.settle("add", lambda: OTHER) == OTHER


def source(key: str = "add:64") -> str:
    kernel = skipjack.lookup(key)
    assert kernel is not None
    return kernel.source


def test_new_results_are_used_after_reload_alone(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_lookup, "_INTERVAL_S", 0.0)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert source() != "user"
    Bank.open(user_dir).put(entry("add:64"))
    assert source() != "user"
    bank_lookup._kept.clear()  # as another rank that comes later
    assert source() != "user"
    skipjack.reload()
    assert source() == "user"
    bank_lookup._kept.clear()
    assert source() == "user"


def test_ranks_without_a_place_to_agree_are_warned_and_go_on(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    user_dir.mkdir()
    (user_dir / "ranks").write_text("in the way")
    assert source() and source("add:65")
    assert caplog.text.count("ranks may use different kernels") == 1


def test_a_decision_that_cannot_be_written_is_used_by_who_made_it(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")

    def full(*_: object, **__: object) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr("skipjack.runtime.answers.agreement.atomic_write", full)
    assert source()
    assert "this rank decides for itself: disk full" in caplog.text
