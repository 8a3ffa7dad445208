"""Each variable of AutoTune's has its effect; one that cannot be used is told and left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from skipjack.errors import UsageError
from skipjack.integrations.mindspore import (
    AUTO_TUNE_MODES,
    VARIABLES,
    auto_tune_mode,
    mode_policy,
    read_variables,
    searchers_of,
)
from skipjack.integrations.mindspore import settings as module
from skipjack.native import cpu


def test_the_bank_path_is_the_user_directory(tmp_path: Path) -> None:
    found = read_variables({"TUNE_BANK_PATH": str(tmp_path)})
    assert found.variables == {"SKIPJACK_USER_DB_PATH": str(tmp_path)} and not found.complaints


@pytest.mark.parametrize("name", ["TUNE_BANK_PATH", "ASCEND_WORK_PATH"])
def test_a_directory_must_exist_and_be_open_to_the_user(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = read_variables({name: str(tmp_path / "missing")})
    assert "this directory does not exist; create it" in missing.complaints[0]
    assert not missing.variables and missing.unusable == [name]
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    closed = read_variables({name: str(tmp_path)})
    assert (
        "this directory cannot be read and written" in closed.complaints[0] and not closed.variables
    )


def bank_of(folder: Path, *devices: str) -> Path:
    """A directory with a bank whose entries are for these devices."""
    lines = [f'{{"created":"x","device":"{one}","device_name":"x"}}\n' for one in devices]
    (folder / "bank.jsonl").write_text("".join(lines))
    return folder


def test_a_bank_that_others_closed_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank_of(tmp_path)
    monkeypatch.setattr(module.os, "access", lambda path, _: path.name != "bank.jsonl")
    found = read_variables({"TUNE_BANK_PATH": str(tmp_path)})
    assert "its bank.jsonl cannot be read and written; ask its owner" in found.complaints[0]
    assert found.unusable == ["TUNE_BANK_PATH"] and not found.variables


def test_a_bank_of_another_processor_is_one_sentence_and_is_used(tmp_path: Path) -> None:
    bank_of(tmp_path, "cpu:nocona/1:a", "cpu:nocona/2:b", "cpu:i386/1:c")
    found = read_variables({"TUNE_BANK_PATH": str(tmp_path)})
    (sentence,) = found.complaints
    assert "its bank is for another processor (i386, nocona) and has nothing for this" in sentence
    assert found.variables and not found.unusable


@pytest.mark.parametrize("other", [cpu.detect().class_key, "cuda:sm_90/132:x", None])
def test_a_bank_that_may_have_something_for_this_machine_is_not_complained_about(
    other: str | None, tmp_path: Path
) -> None:
    bank_of(tmp_path, *(["cpu:nocona/1:a", other] if other else []))
    assert not read_variables({"TUNE_BANK_PATH": str(tmp_path)}).complaints


def test_the_work_path_is_where_the_result_file_goes(tmp_path: Path) -> None:
    found = read_variables({"ASCEND_WORK_PATH": str(tmp_path)})
    assert found.variables == {"SKIPJACK_TUNE_RESULT_PATH": str(tmp_path)}


def test_repeating_searches_what_banks_know() -> None:
    repeats = read_variables({"REPEAT_TUNE": "True"})
    assert repeats.policy("incremental") == "exhaustive"
    assert repeats.policy("db") == "db" and repeats.policy(None) is None
    assert read_variables({"REPEAT_TUNE": "false"}).policy("incremental") == "incremental"


def test_without_banks_nothing_answers_or_all_is_searched() -> None:
    blind = read_variables({"ENABLE_TUNE_BANK": "False"})
    assert blind.policy(None) == blind.policy("db") == "off"
    assert blind.policy("incremental") == "exhaustive"
    assert read_variables({"ENABLE_TUNE_BANK": "TRUE"}).policy(None) is None


def test_operations_are_named() -> None:
    found = read_variables({"TUNE_OPS_NAME": "mm,convolution"})
    assert found.variables == {"SKIPJACK_TORCH_OPS": "mm,convolution"}


@pytest.mark.parametrize(("given", "workers"), [("0", "1"), ("8", "8"), ("32", "32")])
def test_compilers_are_build_workers(given: str, workers: str) -> None:
    found = read_variables({"TE_PARALLEL_COMPILER": given})
    assert found.variables == {"SKIPJACK_BUILD_WORKERS": workers}


def test_the_device_is_the_gpu_that_the_program_sees() -> None:
    found = read_variables({"ASCEND_DEVICE_ID": "3"})
    assert found.variables["CUDA_VISIBLE_DEVICES"] == "3"
    both = read_variables({"ASCEND_DEVICE_ID": "3", "CUDA_VISIBLE_DEVICES": "1"})
    assert both.variables == {} and both.complaints
    hip = read_variables({"ASCEND_DEVICE_ID": "3", "HIP_VISIBLE_DEVICES": "1"})
    assert hip.variables == {} and hip.complaints
    again = read_variables({"ASCEND_DEVICE_ID": "3", **found.variables})
    assert again.variables == found.variables and not again.complaints


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REPEAT_TUNE", "maybe"),
        ("ENABLE_TUNE_BANK", "1"),
        ("ENABLE_TUNE_DUMP", "on"),
        ("TE_PARALLEL_COMPILER", "33"),
        ("TE_PARALLEL_COMPILER", "many"),
        ("ASCEND_DEVICE_ID", "-1"),
        ("TUNE_BANK_PATH", "~nobody-of-this-name/bank"),
    ],
)
def test_a_value_that_means_nothing_is_one_sentence(name: str, value: str) -> None:
    found = read_variables({name: value})
    (sentence,) = found.complaints
    assert sentence.startswith(f"{name} is {value!r}, which is ignored: ")
    assert found.variables == {} and found.unusable == [name]
    assert found.policy("incremental") == "incremental"


def test_an_empty_variable_is_not_set() -> None:
    assert not read_variables(dict.fromkeys(VARIABLES, "")).complaints


@pytest.mark.parametrize(
    ("mode", "searchers"),
    [
        ("NO_TUNE", {}),
        ("RL", {"vector": "policy"}),
        ("GA", {"cube": "genetic"}),
        ("RL,GA", {"vector": "policy", "cube": "genetic"}),
        ("GA,RL", {"vector": "policy", "cube": "genetic"}),
    ],
)
def test_modes_name_classes_and_searchers(mode: str, searchers: dict[str, str]) -> None:
    assert mode in AUTO_TUNE_MODES
    assert searchers_of(mode) == searchers
    assert mode_policy(searchers) == ("incremental" if searchers else "db")
    words = set(auto_tune_mode(searchers.items()).split(","))
    assert words == ({""} if mode == "NO_TUNE" else set(mode.split(",")))


@pytest.mark.parametrize("mode", ["rl", "RL,RL", "RL, GA", "", "DQN"])
def test_other_modes_are_refused_in_a_sentence(mode: str) -> None:
    with pytest.raises(UsageError, match="unknown mode"):
        searchers_of(mode)


def test_searchers_that_no_mode_has_are_none() -> None:
    assert auto_tune_mode([("cube", "auto"), ("vector", "auto")]) == ""
    assert auto_tune_mode([("cube", "genetic"), ("vector", "auto")]) == ""
