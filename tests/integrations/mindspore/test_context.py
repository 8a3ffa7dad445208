"""`skipjack.context` turns tuning on by MindSpore's words; what it does not know it refuses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skipjack import context
from skipjack.errors import UsageError
from skipjack.integrations import context as module
from skipjack.runtime.process import tuning_policy


@pytest.fixture
def enabled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What the hook is asked for, without a hook."""
    calls: list[dict[str, Any]] = []
    wishes: list[Any] = []

    def enable(policy: str, **more: Any) -> None:
        calls.append({"policy": policy, **more, "wish": wishes[-1]})

    monkeypatch.setattr(module, "enable", enable)
    monkeypatch.setattr(module, "keep_results", wishes.append)
    monkeypatch.setattr(module, "_context", module.Context())
    for name in ("TUNE_BANK_PATH", "REPEAT_TUNE", "ENABLE_TUNE_BANK", "TUNE_OPS_NAME"):
        monkeypatch.delenv(name, raising=False)
    yield calls


def test_the_documents_own_call_tunes_both_classes(enabled: list[dict[str, Any]]) -> None:
    context.set_context(mode=context.GRAPH_MODE, device_target="CPU", auto_tune_mode="GA,RL")
    (call,) = enabled
    assert call["policy"] == "incremental"
    assert call["searchers"] == {"cube": "genetic", "vector": "policy"}
    assert call["wish"].is_asked_for and call["wish"].auto_tune_mode == "GA,RL"
    assert context.get_context("auto_tune_mode") == "GA,RL"
    assert context.get_context("mode") == context.GRAPH_MODE
    assert context.get_context("device_target") == "CPU"


def test_one_mode_leaves_the_other_class_alone(enabled: list[dict[str, Any]]) -> None:
    context.set_context(auto_tune_mode="RL")
    assert enabled[0]["searchers"] == {"vector": "policy"}
    context.set_context(auto_tune_mode="NO_TUNE")
    assert enabled[1]["policy"] == "db" and enabled[1]["searchers"] is None
    assert not enabled[1]["wish"].is_asked_for


def test_a_context_without_a_mode_of_tuning_turns_nothing_on(
    enabled: list[dict[str, Any]],
) -> None:
    context.set_context(mode=context.PYNATIVE_MODE)
    assert enabled == [] and context.get_context("auto_tune_mode") == "NO_TUNE"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"device_target": "Ascend"}, "device_target is 'Ascend', for which Skipjack has no"),
        ({"auto_tune_mode": "MCTS"}, "unknown mode 'MCTS'"),
        ({"mode": 7}, "mode is 7; write GRAPH_MODE or PYNATIVE_MODE"),
        ({"device_target": "Ascend", "auto_tune_mode": "GA"}, "device_target is 'Ascend'"),
    ],
)
def test_what_means_nothing_is_one_sentence_and_the_program_goes_on(
    words: dict[str, Any],
    said: str,
    enabled: list[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        context.set_context(**words)
    assert len(caplog.records) == 1 and said in caplog.text
    assert enabled == []
    assert context.get_context("auto_tune_mode") == "NO_TUNE"
    assert context.get_context("device_target") == "CPU"


def test_settings_that_pytorch_does_not_have_are_left_out(
    enabled: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    context.set_context(auto_tune_mode="GA", device_id=0, save_graphs=False)
    assert (
        "set_context ignores device_id and save_graphs, which PyTorch does not have" in caplog.text
    )
    assert len(caplog.records) == 1 and len(enabled) == 1
    assert context.get_context("auto_tune_mode") == "GA"


def test_a_hook_that_cannot_be_enabled_is_one_sentence(
    enabled: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise UsageError("PyTorch 2.4 is too old")

    monkeypatch.setattr(module, "enable", fail)
    context.set_context(auto_tune_mode="GA")
    assert "PyTorch 2.4 is too old; the program continues unchanged" in caplog.text
    assert context.get_context("auto_tune_mode") == "NO_TUNE"


def test_the_variables_count(
    enabled: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", "elsewhere")
    monkeypatch.setenv("SKIPJACK_TORCH_OPS", "")
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path))
    monkeypatch.setenv("REPEAT_TUNE", "True")
    monkeypatch.setenv("TUNE_OPS_NAME", "mm, bmm")
    context.set_context(auto_tune_mode="GA")
    assert enabled[0]["policy"] == "exhaustive" and enabled[0]["ops"] == ["mm", "bmm"]
    assert module.os.environ["SKIPJACK_USER_DB_PATH"] == str(tmp_path)


def test_budgets_are_those_of_the_policy_in_force(enabled: list[dict[str, Any]]) -> None:
    with tuning_policy("db", seconds=2.0, background=True, regret="3%"):
        context.set_context(auto_tune_mode="GA,RL")
    (call,) = enabled
    assert (call["seconds"], call["background"], call["regret"]) == (2.0, True, 0.03)
    assert call["policy"] == "incremental"


def test_a_name_that_the_context_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="the context has no setting 'device_id'; it has mode"):
        context.get_context("device_id")
