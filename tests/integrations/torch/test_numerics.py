"""Results under the hook: which switches change them, and how to have them stay what they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import skipjack
from skipjack.integrations.torch.hook import existing_hook
from skipjack.integrations.torch.selection import RaceResult
from skipjack.native.cpu import usable_cores

torch = pytest.importorskip("torch")
hooked = pytest.importorskip("skipjack.torch")

from hooked_calls import ForcedHook  # noqa: E402


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def precision(place: Any, value: str) -> Iterator[None]:
    before = place.fp32_precision
    place.fp32_precision = value
    try:
        yield
    finally:
        place.fp32_precision = before


SWITCHES: dict[str, Callable[[], Any]] = {
    "deterministic": deterministic,
    "matmul precision": lambda: precision(torch.backends.mkldnn.matmul, "bf16"),
    "conv precision": lambda: precision(torch.backends.mkldnn.conv, "bf16"),
    "all precisions": lambda: precision(torch.backends, "tf32"),
}


def a_step(seed: int = 0) -> list[Any]:
    """A training step with every kind of operation that is hooked; results and gradients."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()),
        *(torch.nn.Flatten(), torch.nn.Linear(288, 16), torch.nn.LayerNorm(16)),
        torch.nn.Linear(16, 5, bias=False),
    )
    x = torch.randn(4, 3, 8, 8)
    y = network(x)
    torch.nn.functional.cross_entropy(y, torch.arange(4)).backward()
    scores = torch.softmax(torch.bmm(x.flatten(2), x.flatten(2).mT), -1)
    return [y.detach(), scores, *(one.grad for one in network.parameters()), *network.buffers()]


def are_equal(ours: list[Any], theirs: list[Any]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.usefixtures("own_directory")
@pytest.mark.parametrize("switch", SWITCHES)
def test_what_is_left_to_pytorch_follows_its_switches(switch: str) -> None:
    with SWITCHES[switch]():
        wanted = a_step()
        with hooked.autotune("db"):
            assert are_equal(a_step(), wanted)


PRECISIONS = ["matmul precision", "conv precision"]
"""That of all is not passed on to one that was ever set, and other tests set them."""


@pytest.mark.parametrize("switch", PRECISIONS)
def test_a_call_of_another_precision_is_another_call(forced: ForcedHook, switch: str) -> None:
    """Decided about anew, or left to PyTorch, whose kernels are other ones then."""
    a, b = torch.randn(36, 20), torch.randn(20, 12)
    x, w = torch.randn(2, 4, 9, 9), torch.randn(8, 4, 3, 3)

    def compute() -> Any:
        return torch.conv2d(x, w) if switch == "conv precision" else a @ b

    compute()
    decided = len(hooked.report().calls)
    _, ours, theirs = forced.counted(compute)
    assert ours.total() == 1 and len(hooked.report().calls) == decided
    with SWITCHES[switch]():
        _, _, theirs = forced.counted(compute)
    assert theirs.total() == 1 or len(hooked.report().calls) == decided + 1
    _, ours, _ = forced.counted(compute)
    assert ours.total() == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_give_the_same_bits_every_time(forced: ForcedHook, threads: int) -> None:
    if threads > len(usable_cores()):
        pytest.skip("one core")
    torch.set_num_threads(threads)
    first = a_step()
    assert forced.counts()[0].total() >= 10
    with deterministic():
        for _ in range(10):
            assert are_equal(a_step(), first)


def test_the_policy_off_changes_no_bit(forced: ForcedHook) -> None:
    forced.disable()
    wanted = a_step()
    forced.enable()
    a_step()
    assert forced.counts()[0].total() >= 10
    assert not are_equal(a_step(), wanted)
    forced.disable()
    for policy in ("off", 1):
        with hooked.autotune(policy):
            assert are_equal(a_step(), wanted)
            assert not any(one.decision.is_ours for one in hooked.report().calls)


@pytest.mark.usefixtures("own_directory")
def test_a_choice_that_was_made_once_is_made_again(tmp_path: Path) -> None:
    """Or else results would change from run to run with the noise of the machine."""
    a, b = torch.randn(20, 12), torch.randn(12, 28)
    skipjack.tune("matmul:20x28x12:f32", seconds=0.5)
    with hooked.autotune("db"):
        first = a @ b
        chosen = decisions()
        (kept,) = (tmp_path / "torch").iterdir()
        written = kept.stat().st_mtime_ns
        for _ in range(3):
            hook = existing_hook()
            assert hook is not None
            hook.forget()
            assert torch.equal(a @ b, first)
            assert decisions() == chosen
    assert kept.stat().st_mtime_ns == written


LAYERS: dict[str, Callable[[], Any]] = {
    "convolution": lambda: torch.nn.Conv2d(3, 8, 3)(images()),
    "convolution without bias": lambda: torch.nn.Conv2d(3, 8, 3, bias=False)(images()),
    "linear": lambda: torch.nn.Linear(8, 16)(torch.randn(4, 8)),
    "linear without bias": lambda: torch.nn.Linear(8, 16, bias=False)(torch.randn(4, 8)),
    "batch norm": lambda: torch.nn.BatchNorm2d(3)(images()),
    "batch norm of inference": lambda: torch.nn.BatchNorm2d(3).eval()(images()),
    "layer norm": lambda: torch.nn.LayerNorm(8)(torch.randn(4, 8, requires_grad=True)),
    "softmax": lambda: torch.softmax(torch.randn(4, 8, requires_grad=True), -1),
    "bmm": lambda: torch.bmm(torch.randn(2, 4, 8, requires_grad=True), torch.randn(2, 8, 4)),
}


def images() -> Any:
    return torch.randn(2, 3, 9, 9, requires_grad=True)


@pytest.mark.usefixtures("built_kernels")
@pytest.mark.parametrize("name", LAYERS)
def test_what_is_raced_is_the_call_itself(name: str) -> None:
    with hooked.autotune("incremental"):
        LAYERS[name]().square().sum().backward()
        decided = len(hooked.report().calls)
        with torch.no_grad():  # what is not there arrives in another way
            LAYERS[name]()
        calls = [one.decision for one in hooked.report().calls]
    assert len(calls) == decided > 0
    assert all(one.before_ns for one in calls if one.problem)
    assert all("times" in one.reason or "too busy" in one.reason for one in calls), calls


@pytest.mark.usefixtures("own_directory")
def test_an_unsure_race_is_run_again_by_a_program_that_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    races = []

    def judge(*_: object) -> RaceResult:
        races.append(1)
        return RaceResult(None, 1.1, 1000.0, None, "not a significant gain", is_sure=False)

    monkeypatch.setattr("skipjack.integrations.torch.selection.call_chooser.race_kernels", judge)
    a, b = torch.randn(20, 12), torch.randn(12, 28)
    skipjack.tune("matmul:20x28x12:f32", seconds=0.5)
    for policy, raced in (("db", 1), ("db", 1), ("incremental", 2), ("incremental", 3), ("db", 3)):
        with hooked.autotune(policy):
            hook = existing_hook()
            assert hook is not None
            hook.forget()
            a @ b
        assert len(races) == raced


def decisions() -> list[tuple[str, bool, str, str]]:
    found = [one.decision for one in hooked.report().calls]
    return [(one.description, one.is_ours, one.kernel, one.reason) for one in found]


def test_numbers_that_the_program_draws_are_the_same(forced: ForcedHook) -> None:
    """Whatever is timed on made-up tensors meanwhile."""

    def drawn() -> Any:
        torch.manual_seed(5)
        torch.randn(30, 20) @ torch.randn(20, 30)
        return torch.rand(4)

    assert torch.equal(drawn(), forced.plainly(drawn))


@pytest.mark.long
@pytest.mark.parametrize("model", ["small_cnn", "small_transformer"])
@pytest.mark.usefixtures("own_directory")
def test_losses_are_as_near_to_those_of_float64_as_pytorchs(model: str) -> None:
    """The whole comparison is ``bench/torch_loss.py``."""
    from torch_loss import MOST, compare
    from torch_models import SMALL, Place

    found = compare(SMALL[model], Place(), seeds=3, steps=20, size=4)
    assert found["calls"]["hits"] > 0.9 * found["calls"]["calls"], found["ops"]
    assert found["ratio"] <= 2.0 * MOST, found  # so few seeds say little
