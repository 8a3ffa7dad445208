"""Convolutions of PyTorch through the hook: same results, errors and gradients as without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from skipjack.integrations.torch.hook import existing_hook
from skipjack.integrations.torch.stubs import SIGNATURES, TableEntry

torch = pytest.importorskip("torch")
hooked = pytest.importorskip("skipjack.torch")

pytestmark = pytest.mark.usefixtures("own_directory")


@dataclass(frozen=True)
class Case:
    """A layer and the shape of its input."""

    sizes: tuple[int, ...]
    channels: int = 8
    taps: int | tuple[int, ...] = 3
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int = 1
    groups: int = 1
    bias: bool = True
    transposed: bool = False
    output_padding: int = 0
    channels_last: bool = False
    dtype: str = "float32"

    def layer(self) -> Any:
        axes = len(self.sizes) - 2
        kinds = torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d
        more = {}
        if self.transposed:
            kinds = (
                *(torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d),
                torch.nn.ConvTranspose3d,
            )
            more["output_padding"] = self.output_padding
        made = kinds[axes - 1](
            *(self.sizes[1], self.channels, self.taps, self.stride, self.padding),
            dilation=self.dilation,
            groups=self.groups,
            bias=self.bias,
            dtype=getattr(torch, self.dtype),
            **more,
        )
        return made.to(memory_format=self.memory_format)

    @property
    def memory_format(self) -> Any:
        last = torch.channels_last if len(self.sizes) == 4 else torch.channels_last_3d
        return last if self.channels_last else torch.contiguous_format

    def input(self) -> Any:
        made = torch.randn(self.sizes, dtype=getattr(torch, self.dtype))
        return made.to(memory_format=self.memory_format)


IMAGE = (2, 8, 9, 10)
CASES = {
    "plain": Case(IMAGE, padding=1),
    "without bias": Case(IMAGE, channels=20, bias=False),
    "strided": Case((2, 3, 11, 12), taps=(3, 5), stride=(2, 3), padding=(1, 2)),
    "dilated": Case(IMAGE, dilation=2, padding=2),
    "1x1": Case(IMAGE, channels=24, taps=1),
    "1x1 strided": Case(IMAGE, taps=1, stride=2, bias=False),
    "grouped": Case(IMAGE, groups=2),
    "depthwise": Case(IMAGE, groups=8, padding=1),
    "twice as deep": Case(IMAGE, channels=16, groups=8, stride=2),
    "one pixel": Case((4, 8, 3, 3), channels=17),
    "channels last": Case(IMAGE, channels=20, padding=1, channels_last=True),
    "channels last 1x1": Case(IMAGE, taps=1, channels_last=True, bias=False),
    "channels last depthwise": Case(IMAGE, groups=8, channels_last=True),
    "transposed": Case(IMAGE, channels=6, stride=2, output_padding=1, transposed=True),
    "one dimension": Case((2, 8, 21), taps=5, stride=2, padding=2),
    "three dimensions": Case((1, 4, 5, 6, 7), padding=1),
    "double": Case(IMAGE, padding=1, dtype="float64"),
}


def computed(layer: Any, x: Any, dy: Any) -> list[Any]:
    """The result, and gradients of what wants one."""
    layer.zero_grad(set_to_none=True)
    x = x.detach().requires_grad_(x.requires_grad)
    y = layer(x)
    y.backward(dy)
    return [y.detach(), x.grad, layer.weight.grad, None if layer.bias is None else layer.bias.grad]


def of_case(case: Case) -> tuple[Any, Any, Any]:
    torch.manual_seed(7)
    layer, x = case.layer(), case.input().requires_grad_()
    return layer, x, torch.randn_like(layer(x))


def assert_close(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is None:
            continue
        assert one.shape == other.shape
        assert one.stride() == other.stride()
        assert one.dtype == other.dtype
        assert (one - other).norm() <= 1e-5 * other.norm()


def calls_of(op: str) -> tuple[int, int]:
    """By our kernels and by PyTorch's, in this process so far."""
    found = [one for one in all_entries() if SIGNATURES[one.words[0]].name == op]
    return sum(one.our_calls for one in found), sum(one.torch_calls for one in found)


def all_entries() -> list[TableEntry]:
    hook = existing_hook()
    return [] if hook is None else list(hook.table.entries.values())


def calls() -> tuple[int, int]:
    both = calls_of("convolution"), calls_of("convolution_backward")
    return both[0][0] + both[1][0], both[0][1] + both[1][1]


@pytest.mark.parametrize("name", CASES)
def test_kernels_compute_what_pytorch_does(name: str, built_kernels: Callable[[str], None]) -> None:
    layer, x, dy = of_case(CASES[name])
    wanted = computed(layer, x, dy)
    hits, misses = calls()
    with hooked.autotune("db", force=True):
        assert_close(computed(layer, x, dy), wanted)
    assert calls() == (hits + 2, misses), hooked.report()


@pytest.mark.parametrize("name", CASES)
def test_without_a_bank_results_are_those_of_pytorch_bit_for_bit(name: str) -> None:
    layer, x, dy = of_case(CASES[name])
    wanted = computed(layer, x, dy)
    hits, misses = calls()
    with hooked.autotune("db"):
        for ours, theirs in zip(computed(layer, x, dy), wanted, strict=True):
            assert (ours is None and theirs is None) or torch.equal(ours, theirs)
    assert calls() == (hits, misses + 2)


@pytest.mark.parametrize("asked", ["image", "weight", "bias", "weight and bias", "image and bias"])
def test_only_gradients_that_are_asked_for_are_computed(
    asked: str, built_kernels: Callable[[str], None]
) -> None:
    layer, x, dy = of_case(CASES["plain"])
    x.requires_grad_("image" in asked)
    layer.weight.requires_grad_("weight" in asked)
    layer.bias.requires_grad_("bias" in asked)
    wanted = computed(layer, x, dy)
    with hooked.autotune("db", force=True):
        assert_close(computed(layer, x, dy), wanted)


@pytest.mark.parametrize("kept", ["bwd", "wrw"])
def test_a_gradient_without_a_kernel_is_left_to_pytorch(
    kept: str, built_kernels: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from skipjack.integrations.torch.selection import call_chooser

    built = call_chooser.lookup
    monkeypatch.setattr(
        call_chooser,
        "lookup",
        lambda key, **options: built(key, **options) if key.endswith(kept) else None,
    )
    layer, x, dy = of_case(CASES["channels last"])
    wanted = computed(layer, x, dy)
    before = calls_of("convolution_backward")
    with hooked.autotune("db", force=True):
        found = computed(layer, x, dy)
    assert_close(found, wanted)
    assert calls_of("convolution_backward") == (before[0] + 1, before[1])
    left = found[1] if kept == "wrw" else found[2]
    assert torch.equal(left, wanted[1] if kept == "wrw" else wanted[2])


@pytest.mark.parametrize("sizes", [(2, 130, 17, 19), (40, 70, 1, 1)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_biases_are_added_and_summed_on_several_threads(
    sizes: tuple[int, ...], channels_last: bool, built_kernels: Callable[[str], None]
) -> None:
    torch.set_num_threads(2)
    case = Case((sizes[0], 4, *sizes[2:]), sizes[1], taps=1, channels_last=channels_last)
    layer, x, dy = of_case(case)
    wanted = computed(layer, x, dy)
    with hooked.autotune("db", force=True):
        assert_close(computed(layer, x, dy), wanted)
    exact = dy.double().sum((0, 2, 3))
    assert (layer.bias.grad - exact).norm() <= (wanted[3] - exact).norm() + 1e-7 * exact.norm()


def bad_calls() -> dict[str, Callable[[], object]]:
    x, w = torch.randn(2, 8, 9, 9), torch.randn(4, 8, 3, 3)
    conv = torch.nn.functional.conv2d
    return {
        "channels": lambda: conv(x, torch.randn(4, 7, 3, 3)),
        "negative padding": lambda: conv(x, w, padding=-1),
        "large filter": lambda: conv(x, torch.randn(4, 8, 30, 3)),
        "bias": lambda: conv(x, w, torch.randn(5)),
        "dtypes": lambda: conv(x, w.double()),
        "stride": lambda: conv(x, w, stride=0),
        "long stride": lambda: torch.convolution(
            x, w, None, [1] * 9, [0, 0], [1, 1], False, [0, 0], 1
        ),
    }


@pytest.mark.parametrize("name", bad_calls())
def test_errors_are_those_of_pytorch(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    bad = bad_calls()[name]
    with pytest.raises(RuntimeError) as wanted:
        bad()
    with hooked.autotune("db"):
        for _ in range(2):
            with pytest.raises(RuntimeError) as found:
                bad()
            assert str(found.value).split("\n")[0] == str(wanted.value).split("\n")[0]
    assert capfd.readouterr().err == ""


def test_integers_are_left_to_pytorch() -> None:
    x, w = torch.randint(9, (2, 8, 9, 9)), torch.randint(9, (4, 8, 3, 3))
    wanted = torch.conv2d(x, w)
    with hooked.autotune("db"):
        assert torch.equal(torch.conv2d(x, w), wanted)


def test_strides_that_no_kernel_takes_are_left_to_pytorch(
    built_kernels: Callable[[str], None],
) -> None:
    w = torch.randn(4, 8, 3, 3)
    for x in (torch.randn(2, 8, 9, 18)[..., ::2], torch.randn(1, 8, 9, 9).expand(2, -1, -1, -1)):
        wanted = torch.conv2d(x, w)
        hits, misses = calls()
        with hooked.autotune("db", force=True):
            assert torch.equal(torch.conv2d(x, w), wanted)
        assert calls() == (hits, misses + 1)


@pytest.mark.parametrize("sizes", [(1, 3, 1, 1), (1, 1, 1, 2)])
def test_the_gradient_of_weights_that_lie_both_ways_has_the_strides_of_pytorch(
    sizes: tuple[int, ...], built_kernels: Callable[[str], None]
) -> None:
    x = torch.empty((1, sizes[1], 2, 2), memory_format=torch.channels_last).fill_(1.0)
    w = torch.randn(sizes, requires_grad=True)

    def gradient() -> Any:
        y = torch.nn.functional.conv2d(x, w)
        return torch.autograd.grad(y, w, torch.ones(y.shape))[0]

    wanted = gradient()
    hooked.enable("db", force=True)
    assert gradient().stride() == wanted.stride()


def test_a_gradient_that_is_expanded_is_left_to_pytorch(
    built_kernels: Callable[[str], None],
) -> None:
    layer, x, _ = of_case(replace(CASES["plain"], bias=False))
    layer(x).sum().backward()
    wanted = layer.weight.grad.clone()
    layer.zero_grad()
    with hooked.autotune("db", force=True):
        layer(x).sum().backward()
    assert torch.allclose(layer.weight.grad, wanted, atol=1e-4)
