"""The result file: AutoTune's fields, counts that add up, valid JSON at any moment."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from torch_decisions import decision

from skipjack.errors import NewerFormatError, SkipjackError
from skipjack.integrations.torch.outcomes import ResultRequest, TorchStatus, call_key, read_result
from skipjack.integrations.torch.outcomes.program_results import ProgramRecords, ProgramResults
from skipjack.integrations.torch.outcomes.result_file import ProgramFacts, ProgramTime, ResultFile

FACTS = ProgramFacts(("python", "train.py"), "/where", 4242, "incremental", "RL,GA")


def made(folder: Path) -> ResultFile:
    return ResultFile(folder, FACTS, lambda: datetime(2026, 11, 16, 10, 15, 0))


def test_its_name_has_the_time_and_the_process(tmp_path: Path) -> None:
    assert made(tmp_path).path.name == "tune_result_20261116_101500_pid4242.json"


def test_an_operation_has_the_fields_of_autotune(tmp_path: Path) -> None:
    file = made(tmp_path)
    rounds = ((82_000.0, "2026-11-16 10:15:01"), (71_500.0, "2026-11-16 10:15:02"))
    one = decision(1, TorchStatus.APPEND, searcher="genetic", rounds=rounds)
    file.add(one)
    file.count_calls(lambda: {call_key(one): 7})
    file.write()
    row = json.loads(file.path.read_text())["operations"][0]
    assert row["result_data"] == {"before_tune": 2.0, "after_tune": 1.0}
    assert row["status_data"] == {
        "bank_hit": False,
        "bank_append": True,
        "bank_update": False,
        "bank_reserved": False,
    }
    assert row["ticks_best"] == [[82.0, "2026-11-16 10:15:01"], [71.5, "2026-11-16 10:15:02"]]
    assert (row["searcher"], row["calls"], row["kernel"]) == ("genetic", 7, "skipjack")


def test_the_counts_add_up_whatever_comes(tmp_path: Path) -> None:
    file = made(tmp_path)
    for number, status in enumerate([*TorchStatus, *TorchStatus, TorchStatus.VENDOR]):
        file.add(decision(number, status, is_ours=status is TorchStatus.HIT))
    summary = file.content()["summary"]
    assert sum(summary[str(status)] for status in TorchStatus) == summary["total"] == 13
    assert summary["vendor"] == 3 and summary["with_skipjack_kernel"] == 2


def test_it_is_valid_whenever_it_is_read(tmp_path: Path) -> None:
    file = made(tmp_path)
    for number in range(20):
        file.add(decision(number))
        file.write()
        assert len(read_result(file.path).rows) == number + 1
    assert list(tmp_path.glob("*tune_result*")) == [file.path]


def test_a_later_decision_about_the_same_calls_takes_the_place_of_the_first(
    tmp_path: Path,
) -> None:
    file = made(tmp_path)
    file.add(decision(1, TorchStatus.VENDOR, is_ours=False))
    file.add(decision(1, TorchStatus.APPEND, searcher="policy"))
    file.add(decision(1, TorchStatus.HIT))
    (row,) = file.content()["operations"]
    assert (row["status"], row["searcher"]) == ("bank_append", "policy")


def test_a_newer_or_damaged_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "tune_result_1_pid1.json"
    path.write_text('{"format": 99}')
    with pytest.raises(NewerFormatError, match="format 99"):
        read_result(path)
    path.write_text('{"format": 1, "program": 3}')
    with pytest.raises(SkipjackError, match="expected"):
        read_result(path)


def test_the_gain_end_to_end_is_that_of_a_run_without_searches() -> None:
    assert ProgramTime(2.0, True, False, 3.0).gain == 1.5
    assert ProgramTime(2.0, True, True, 3.0).gain is None
    assert ProgramTime(2.0, False, False, 3.0).gain is None
    assert ProgramTime(2.0, True, False, None).gain is None
    assert ProgramTime(0.0, True, False, 3.0).gain is None


def test_programs_are_known_by_command_and_directory(tmp_path: Path) -> None:
    records = ProgramRecords(tmp_path)
    records.note(records.find(["python", "a.py"], "/x"), 3.0, was_tuned=False)
    records.note(records.find(["python", "a.py"], "/x"), 2.0, was_tuned=True)
    found = records.find(["python", "a.py"], "/x")
    assert (found.untuned_s, found.tuned_s) == (3.0, 2.0)
    assert records.find(["python", "a.py"], "/y").untuned_s is None
    assert records.find(["python", "a.py", "-v"], "/x").untuned_s is None
    for path in (tmp_path / "programs").iterdir():
        path.write_text("[")
    assert records.find(["python", "a.py"], "/x").untuned_s is None


@pytest.fixture
def results(tmp_path: Path, user_dir: Path) -> ProgramResults:
    return ProgramResults(ResultRequest("db"), tmp_path, ("python", "train.py"))


def written(folder: Path) -> list[Path]:
    return sorted(folder.glob("tune_result_*.json"))


def test_nothing_is_written_where_banks_are_only_read(
    results: ProgramResults, tmp_path: Path
) -> None:
    results.take(decision(1, TorchStatus.HIT))
    results.end()
    assert written(tmp_path) == []


def test_a_search_is_told_without_being_asked(results: ProgramResults, tmp_path: Path) -> None:
    results.take(decision(1, TorchStatus.HIT))
    results.take(decision(2, TorchStatus.RESERVED, searcher="genetic", is_ours=False))
    results.end()
    (path,) = written(tmp_path)
    found = read_result(path)
    assert len(found.rows) == 2 and found.has_ended
    assert found.time is not None and found.time.has_searched


def test_the_second_run_knows_what_the_first_took(tmp_path: Path, user_dir: Path) -> None:
    wish, command = ResultRequest("db", is_asked_for=True), ("python", "train.py")
    first = ProgramResults(wish, tmp_path, command)
    first.take(decision(1, TorchStatus.VENDOR, is_ours=False))
    first.end()
    second = ProgramResults(wish, tmp_path, command)
    second.take(decision(1, TorchStatus.HIT))
    second.end()
    time = read_result(second.file.path).time
    assert time is not None and time.was_tuned and time.before_seconds is not None
    assert time.gain == pytest.approx(time.before_seconds / time.seconds)


def test_a_folder_that_cannot_be_written_to_is_one_warning(
    user_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wish = ResultRequest("incremental", is_asked_for=True)
    results = ProgramResults(wish, tmp_path / "missing", ("python",))
    results.take(decision(1))
    results.end()
    results.end()
    assert caplog.text.count("cannot write the result file") == 1
