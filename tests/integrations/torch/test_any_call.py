"""Calls with any sizes, strides and options: with kernels of ours they give what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from hooked_calls import ForcedHook  # noqa: E402

pytestmark = pytest.mark.long
any_call = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
functional = torch.nn.functional
few, several, many = st.integers(1, 3), st.integers(1, 6), st.integers(1, 33)


def transposed(t: Any) -> Any:
    return t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() > 1 else t


def channels_last(t: Any) -> Any:
    return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t


LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    lambda t: t,
    transposed,
    channels_last,
    lambda t: torch.cat([t, t], -1)[..., : t.shape[-1]],
    lambda t: torch.cat([t, t])[len(t) :],
    lambda t: torch.cat([t.new_zeros(3), t.flatten()])[3:].view(t.shape),
)
"""Other strides, and addresses that are not aligned."""


@pytest.fixture(autouse=True)
def kernels_run(forced: ForcedHook) -> Iterator[None]:
    """Or else nothing was compared. How many calls have a kernel depends on what is drawn."""
    yield
    assert forced.counts()[0].total() >= 10


class Drawn:
    """Tensors of one dtype, each laid out in its own way, that want gradients."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
        self._generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
        self.tensors: list[Any] = []

    def __call__(self, *sizes: int) -> Any:
        plain = torch.randn(sizes, dtype=self.dtype, generator=self._generator)
        laid_out = self.data.draw(st.sampled_from(LAYOUTS))(plain)
        self.tensors.append(laid_out.detach().requires_grad_())
        return self.tensors[-1]

    def maybe(self, *sizes: int) -> Any:
        return self(*sizes) if self.data.draw(st.booleans()) else None

    def numbers(self, count: int, values: st.SearchStrategy[int] = several) -> list[int]:
        return self.data.draw(st.lists(values, min_size=count, max_size=count))


def assert_same(forced: ForcedHook, compute: Callable[[], Any], tensors: list[Any]) -> None:
    """Results, gradients, their strides, and errors."""

    def run() -> list[Any] | str:
        try:
            y = compute()
            dy = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
            return [y.detach(), *torch.autograd.grad(y, tensors, dy)]
        except RuntimeError as error:
            return str(error).split("\n")[0]

    found, wanted = run(), forced.plainly(run)
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted
        return
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.shape, ours.stride(), ours.dtype) == (
            *(theirs.shape, theirs.stride(), theirs.dtype),
        )
        most = 1e-4 if theirs.dtype == torch.float32 else 1e-10
        assert (ours - theirs).norm() <= most * theirs.norm() + 1e-6


@any_call
@given(st.data())
def test_products(forced: ForcedHook, data: st.DataObject) -> None:
    drawn = Drawn(data)
    m, n, k = drawn.numbers(3, many)
    if data.draw(st.booleans()):
        batch = data.draw(several)
        a, b = drawn(batch, m, k), drawn(batch, k, n)
        assert_same(forced, lambda: torch.bmm(a, b), drawn.tensors)
        return
    a, b = drawn(m, k), drawn(k, n)
    sizes = data.draw(st.sampled_from([None, (n,), (m, n), (m, 1), (1, n), (1,)]))
    if sizes is None:
        assert_same(forced, lambda: a @ b, drawn.tensors)
        return
    added = drawn(*sizes)
    scale = data.draw(st.sampled_from([{}, {"beta": 0.5}, {"alpha": 2}, {"beta": 1, "alpha": 1}]))
    assert_same(forced, lambda: torch.addmm(added, a, b, **scale), drawn.tensors)


@any_call
@given(st.data())
def test_convolutions(forced: ForcedHook, data: st.DataObject) -> None:
    drawn = Drawn(data)
    axes, groups = data.draw(few), data.draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = (groups * count for count in drawn.numbers(2))
    taps, stride, dilation = (drawn.numbers(axes, few) for _ in range(3))
    padding, pixels = drawn.numbers(axes, st.integers(0, 2)), drawn.numbers(axes, st.integers(4, 9))
    x, bias = drawn(data.draw(few), inputs, *pixels), drawn.maybe(outputs)
    if data.draw(st.booleans()):
        w = drawn(outputs, inputs // groups, *taps)
        conv = getattr(functional, f"conv{axes}d")
        options = (stride, padding, dilation, groups)
    else:
        w = drawn(inputs, outputs // groups, *taps)
        conv = getattr(functional, f"conv_transpose{axes}d")
        options = (stride, padding, 0, groups, dilation)
    assert_same(forced, lambda: conv(x, w, bias, *options), drawn.tensors)


@any_call
@given(st.data())
def test_rows_and_channels(forced: ForcedHook, data: st.DataObject) -> None:
    drawn = Drawn(data)
    kind = data.draw(st.sampled_from(["softmax", "log_softmax", "layer norm", "batch norm"]))
    lead = drawn.numbers(data.draw(few))
    if kind.endswith("softmax"):
        x, axis = drawn(*lead, data.draw(many)), data.draw(st.sampled_from([-1, -1, 0]))
        assert_same(forced, lambda: getattr(torch, kind)(x, axis), drawn.tensors)
    elif kind == "layer norm":
        # The gradient of a row of one element is 0. What PyTorch gives for it is rounding alone,
        # 316 times as large as elsewhere: a row without variance is divided by the root of eps.
        row = [max(2, data.draw(many)), *drawn.numbers(data.draw(st.integers(0, 1)))]
        x, weight, bias = drawn(*lead, *row), drawn.maybe(*row), drawn.maybe(*row)
        assert_same(forced, lambda: functional.layer_norm(x, row, weight, bias), drawn.tensors)
    else:
        channels, training = data.draw(several), data.draw(st.booleans())
        x, weight, bias = drawn(4, channels, *lead), drawn.maybe(channels), drawn.maybe(channels)
        mean, variance = torch.zeros(channels, dtype=x.dtype), torch.ones(channels, dtype=x.dtype)

        def normalised() -> Any:
            running = mean.clone(), variance.clone()
            return functional.batch_norm(x, *running, weight, bias, training, 0.1)

        assert_same(forced, normalised, drawn.tensors)
