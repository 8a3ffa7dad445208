"""Products of PyTorch through the hook: same results, errors and gradients, whoever computes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_the_detour_of_linear_layers_is_no_call_of_the_program() -> None:
    before = hooked.report().calls_without_entry  # of other tests
    with hooked.autotune("db"), hooked.autotune("incremental", seconds=0.1):
        report = hooked.report()
    assert not report.calls and report.calls_without_entry in (0, before)


def test_errors_are_those_of_pytorch() -> None:
    with hooked.autotune("db"):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied \(2x3 and 4x5\)"):
                torch.mm(torch.ones(2, 3), torch.ones(4, 5))


def test_kernels_of_ours_compute_forward_and_backward() -> None:
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


def test_what_a_search_finds_later_is_used_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipjack.integrations.torch.selection.call_chooser._STARTING_S", 0.0)
    a, b = torch.randn(20, 12), torch.randn(12, 28)
    with hooked.autotune("incremental", seconds=0.001):
        a @ b
        (first,) = [one for one in hooked.report().calls if "20x12" in one.decision.description]
        assert not first.decision.is_final
        skipjack.tune("matmul:20x28x12:f32", seconds=1.0)
        end = time.monotonic() + 60.0
        while time.monotonic() < end and not decided("20x12").is_final:
            a @ b
            time.sleep(0.05)
    assert decided("20x12").is_final
    assert decided("20x12").status == "bank_hit"


def test_a_disk_without_room_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_FREE_DISK", "1000 TB")
    with hooked.autotune("incremental", seconds=0.1):
        torch.randn(21, 13) @ torch.randn(13, 29)
    found = decided("21x13")
    assert found.is_final and found.status == "failed"
    assert "SKIPJACK_FREE_DISK requires" in found.reason


def decided(sizes: str) -> Any:
    (found,) = [one for one in hooked.report().calls if sizes in one.decision.description]
    return found.decision


@pytest.mark.parametrize(
    "numbers", [{}, {"beta": 0}, {"alpha": 2}, {"beta": 2.5, "alpha": 0.5}, {"beta": 1, "alpha": 1}]
)
def test_numbers_of_addmm_that_are_not_one_are_left_to_pytorch(numbers: dict[str, float]) -> None:
    added, a, b = torch.randn(3), torch.randn(5, 4, requires_grad=True), torch.randn(4, 3)
    wanted = torch.addmm(added, a, b, **numbers)
    (gradient,) = torch.autograd.grad(wanted.sum(), a)
    with hooked.autotune("db"):
        found = torch.addmm(added, a, b, **numbers)
        assert torch.equal(found, wanted)
        assert torch.equal(torch.autograd.grad(found.sum(), a)[0], gradient)


def test_addmm_takes_complex_and_whole_numbers() -> None:
    a, b = torch.randn(5, 4, dtype=torch.complex64), torch.ones(4, 4, dtype=torch.int64)
    wanted = torch.addmm(a, a, a[:4], alpha=2j), torch.addmm(b, b, b, beta=3)
    with hooked.autotune("db"):
        assert torch.equal(torch.addmm(a, a, a[:4], alpha=2j), wanted[0])
        assert torch.equal(torch.addmm(b, b, b, beta=3), wanted[1])
