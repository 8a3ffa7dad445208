"""Operations are named as PyTorch or Skipjack does; a name that means nothing is told."""

from __future__ import annotations

import pytest

import skipjack.torch


def test_an_operation_that_is_not_there_is_one_sentence(
    user_dir: object, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    with skipjack.torch.autotune(ops=["aten::mm", "matmul", "Conv2D"]):
        torch.mm(torch.ones(3, 4), torch.ones(4, 5))
    (record,) = caplog.records
    assert "PyTorch has no tunable operation 'Conv2D'; choose from _log_soft" in record.message
    assert record.message.endswith("did you mean conv2d?")
    calls = [one for one in skipjack.torch.report().calls if "3x4" in one.decision.description]
    assert [one.decision.reason for one in calls] == ["no bank knows it"]


def test_names_are_told_once(user_dir: object, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("torch")
    with skipjack.torch.autotune(ops=["mmm"]):
        pass
    (record,) = caplog.records
    words = record.message.partition("there are ")[2].partition(";")[0].split(", ")
    assert len(set(words)) == len(words)
    assert "; did you mean mm or bmm or " in record.message


def test_a_block_inside_of_an_enabled_program_changes_nothing_after_it(user_dir: object) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.ones(3, 6), torch.ones(6, 5)

    def reason() -> str:
        a @ b
        (found,) = [one for one in skipjack.torch.report().calls if "3x6" in str(one.decision)]
        return found.decision.reason

    with skipjack.torch.autotune("db"):
        assert reason() == "no bank knows it"
        with skipjack.torch.autotune("off"):
            assert reason() == "the policy is off"
        assert skipjack.torch.is_enabled() and reason() == "no bank knows it"
    assert not skipjack.torch.is_enabled()
