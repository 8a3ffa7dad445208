"""Products of PyTorch through the hook: same results, errors and gradients, whoever computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import skipjack

torch = pytest.importorskip("torch")
hooked = pytest.importorskip("skipjack.torch")


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path))
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(tmp_path))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    hooked.disable()


def calls_of(op: str) -> list[tuple[int, int]]:
    found = hooked.report().calls
    return [(one.our_calls, one.torch_calls) for one in found if one.decision.op == op]


def test_without_a_bank_pytorch_computes_and_calls_are_counted() -> None:
    a, b = torch.randn(7, 5), torch.randn(5, 3)
    before = a @ b
    with hooked.autotune("db"):
        assert torch.equal(a @ b, before)
        assert torch.equal(a @ b, before)
    assert (0, 2) in calls_of("aten::mm")


def test_what_is_disabled_is_not_called(capfd: pytest.CaptureFixture[str]) -> None:
    hooked.enable("db")
    assert hooked.is_enabled()
    hooked.disable()
    assert not hooked.is_enabled()
    before = hooked.report().misses
    torch.mm(torch.ones(3, 4), torch.ones(4, 9))
    assert hooked.report().misses == before
    assert capfd.readouterr().err == ""


def test_errors_are_those_of_pytorch() -> None:
    with hooked.autotune("db"):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied \(2x3 and 4x5\)"):
                torch.mm(torch.ones(2, 3), torch.ones(4, 5))


def test_a_kernel_of_the_bank_computes_forward_and_backward() -> None:
    layer = torch.nn.Linear(32, 24)
    x = torch.randn(16, 32)
    layer(x).square().sum().backward()
    wanted = layer(x).detach(), layer.weight.grad.clone()
    for problem in ("matmul:16x24x32/tb=1/bias=1:f32", "matmul:24x32x16/ta=1:f32"):
        assert skipjack.tune(problem, seconds=1.0).problem.key == problem
    layer.zero_grad()
    with hooked.autotune("db", force=True):
        result = layer(x)
        result.square().sum().backward()
    assert (1, 0) in calls_of("aten::addmm")
    assert (1, 0) in calls_of("aten::mm")
    assert torch.allclose(result, wanted[0], atol=1e-5)
    assert torch.allclose(layer.weight.grad, wanted[1], atol=1e-4)
