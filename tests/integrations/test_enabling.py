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
    assert "no operation 'Conv2D' is tuned under PyTorch; there are _log_soft" in record.message
    assert record.message.endswith("did you mean conv2d?")
    calls = [one for one in skipjack.torch.report().calls if "3x4" in one.decision.description]
    assert [one.decision.reason for one in calls] == ["no bank knows it"]
