"""Softmax, norms and their gradients through the hook: same results, whoever computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skipjack.native.cpu import usable_cores

torch = pytest.importorskip("torch")
hooked = pytest.importorskip("skipjack.torch")


pytestmark = pytest.mark.usefixtures("built_kernels", "seeded")


@pytest.fixture
def seeded() -> None:
    torch.manual_seed(0)


def counted(op: str) -> tuple[int, int]:
    """Calls by our kernels, and those that cannot be but PyTorch's."""
    found = [one for one in hooked.report().calls if one.decision.op == f"aten::{op}"]
    theirs = [one for one in found if one.decision.problem is None]
    return sum(one.our_calls for one in found), sum(one.torch_calls for one in theirs)


def hits_and_misses(run: Callable[[], Any], *ops: str) -> list[tuple[int, int]]:
    before = [counted(op) for op in ops]
    run()
    after = [counted(op) for op in ops]
    return [(a - c, b - d) for (a, b), (c, d) in zip(after, before, strict=True)]


def with_gradients(layer: Callable[[Any], Any], *tensors: Any) -> list[Any]:
    """The result of a layer of the first, and the gradients of all."""
    for tensor in tensors:
        tensor.grad = None
    result = layer(tensors[0])
    (result * torch.linspace(-1, 1, result.numel()).reshape(result.shape)).sum().backward()
    return [result.detach(), *(tensor.grad.clone() for tensor in tensors)]


def are_close(ours: list[Any], theirs: list[Any]) -> bool:
    return all(
        one.shape == other.shape
        and one.stride() == other.stride()
        and torch.allclose(one, other, atol=1e-4, rtol=1e-4)
        for one, other in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_kernels_compute_softmax_of_any_rank_and_its_gradient(name: str) -> None:
    x, y = torch.randn(3, 4, 40, requires_grad=True), torch.randn(12, 40, requires_grad=True)

    def layer(given: Any) -> Any:
        return getattr(torch, name)(given, -1)

    wanted = [with_gradients(layer, given) for given in (x, y)]
    hooked.enable("db", force=True)

    def run() -> None:
        assert are_close(with_gradients(layer, x), wanted[0])
        assert are_close(with_gradients(layer, y), wanted[1])

    assert hits_and_misses(run, f"_{name}", f"_{name}_backward_data") == [(2, 0), (2, 0)]


def test_other_axes_and_strides_of_a_softmax_stay_with_pytorch() -> None:
    x = torch.randn(8, 8)
    cases = (
        lambda: torch.softmax(x, 0),
        lambda: torch.softmax(x.T, -1),
        lambda: torch.softmax(x[:, :4], -1),
        lambda: torch.softmax(torch.randn(0, 8), -1),
        lambda: torch.softmax(torch.tensor(2.0), -1),
    )
    wanted = [case() for case in cases[:3]]
    hooked.enable("db", force=True)
    for case, value in zip(cases, wanted, strict=False):
        assert torch.equal(case(), value)
    assert [hits_and_misses(case, "_softmax") for case in cases] == [[(0, 1)]] * len(cases)


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_compute_a_layer_norm_and_its_gradients(threads: int) -> None:
    if threads > len(usable_cores()):
        pytest.skip("one core")
    torch.set_num_threads(threads)
    layer, x = torch.nn.LayerNorm(24), torch.randn(2, 5, 24, requires_grad=True)
    torch.nn.init.normal_(layer.weight)
    several = torch.nn.LayerNorm((4, 6))
    wanted = with_gradients(layer, x, *layer.parameters())
    image = torch.randn(10, 4, 6, requires_grad=True)
    wanted_of_image = with_gradients(several, image, *several.parameters())
    statistics = torch.native_layer_norm(x, [24], None, None, 1e-5)[1:]
    hooked.enable("db", force=True)

    def run() -> None:
        assert are_close(with_gradients(layer, x, *layer.parameters()), wanted)
        assert are_close(with_gradients(several, image, *several.parameters()), wanted_of_image)

    ops = ("native_layer_norm", "native_layer_norm_backward")
    assert hits_and_misses(run, *ops) == [(2, 0), (2, 0)]
    saved = torch.native_layer_norm(x, [24], layer.weight, layer.bias, 1e-5)[1:]
    assert are_close(list(saved), list(statistics))


def test_a_layer_norm_without_vectors_stays_with_pytorch() -> None:
    layer = torch.nn.LayerNorm(24, elementwise_affine=False)
    x = torch.randn(10, 24, requires_grad=True)
    wanted = with_gradients(layer, x)
    hooked.enable("db", force=True)

    def run() -> None:
        for mine, theirs in zip(with_gradients(layer, x), wanted, strict=True):
            assert torch.equal(mine, theirs)

    ops = ("native_layer_norm", "native_layer_norm_backward")
    assert hits_and_misses(run, *ops) == [(0, 1), (0, 1)]


def test_kernels_compute_a_batch_norm_in_training_with_its_running_statistics() -> None:
    ours, theirs = torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4)
    x = 3.0 * torch.randn(3, 4, 5, 6) + 1.0
    x.requires_grad_()
    wanted = with_gradients(theirs, x, *theirs.parameters())
    hooked.enable("db", force=True)

    def run() -> None:
        assert are_close(with_gradients(ours, x, *ours.parameters()), wanted)

    ops = ("native_batch_norm", "native_batch_norm_backward")
    assert hits_and_misses(run, *ops) == [(1, 0), (1, 0)]
    assert are_close(list(ours.buffers()), list(theirs.buffers()))


def test_kernels_compute_a_batch_norm_by_running_statistics_and_its_gradients() -> None:
    layer, x = torch.nn.BatchNorm1d(4), torch.randn(3, 4, 6, requires_grad=True)
    layer(x)
    layer.eval()
    given = (*layer.parameters(), layer.running_mean, layer.running_var, False, 0.1, 1e-5)
    wanted = with_gradients(layer, x, *layer.parameters())
    saved = torch.native_batch_norm(x, *given)[1:]
    hooked.enable("db", force=True)

    def run() -> None:
        assert are_close(with_gradients(layer, x, *layer.parameters()), wanted)

    ops = ("native_batch_norm", "native_batch_norm_backward")
    assert hits_and_misses(run, *ops) == [(1, 0), (1, 0)]
    assert are_close(list(torch.native_batch_norm(x, *given)[1:]), list(saved))


def test_a_batch_norm_whose_momentum_changes_with_each_call_stays_with_pytorch() -> None:
    layer, x = torch.nn.BatchNorm1d(4, momentum=None), torch.randn(3, 4, 6)
    layer.num_batches_tracked.fill_(2)
    hooked.enable("db", force=True)
    assert hits_and_misses(lambda: layer(x), "native_batch_norm") == [(0, 1)]

    def seven_times() -> None:
        for batches in (6, 8, 10, 11, 12, 13, 14):  # 1/7 to 1/15, of which 0.1111... has no end
            layer.num_batches_tracked.fill_(batches)
            layer(x)

    assert hits_and_misses(seven_times, "native_batch_norm") == [(0, 7)]
    kinds = [one for one in hooked.report().calls if "f32[3x4x6]" in one.decision.description]
    assert len(kinds) == 1, "all of them are one kind of call"


def test_momenta_of_four_digits_are_told_apart() -> None:
    hooked.enable("db", force=True)
    x = torch.randn(3, 5, 7)
    for momentum in (0.1, 0.01, 0.0003, 0.7, 0.9999, 0.29):
        layer = torch.nn.BatchNorm1d(5, momentum=momentum)
        other = torch.nn.BatchNorm1d(5, momentum=momentum)
        layer(x)
        with torch.no_grad():
            wanted = x.mean((0, 2)) * momentum
        assert are_close([layer.running_mean], [wanted]), momentum
        assert hits_and_misses(lambda other=other: other(x), "native_batch_norm") == [(1, 0)]


def test_a_batch_norm_of_channels_last_stays_with_pytorch() -> None:
    layer = torch.nn.BatchNorm2d(4, track_running_stats=False)
    x = torch.randn(3, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    wanted = layer(x)
    hooked.enable("db", force=True)

    def run() -> None:
        assert torch.equal(layer(x), wanted)

    assert hits_and_misses(run, "native_batch_norm") == [(0, 1)]


def test_errors_of_rows_are_those_of_pytorch() -> None:
    calls: tuple[Callable[[], Any], ...] = (
        lambda: torch.softmax(torch.ones(2, 3), 7),
        lambda: torch.native_layer_norm(torch.ones(2, 3), [4], None, None, 1e-5),
    )

    def refused(call: Callable[[], Any]) -> tuple[type, str]:
        with pytest.raises(Exception) as error:
            call()
        return error.type, str(error.value)

    wanted = [refused(call) for call in calls]
    hooked.enable("db")
    for _ in range(2):
        assert [refused(call) for call in calls] == wanted


def test_what_pytorch_refuses_lets_go_of_its_tensors() -> None:
    hooked.enable("db")
    x = torch.ones(2, 3)
    before = x._use_count()
    for _ in range(3):
        with pytest.raises(IndexError):
            torch.softmax(x, 7)
    assert x._use_count() == before
