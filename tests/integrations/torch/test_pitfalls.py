"""What goes wrong when kernels are put under PyTorch's operations, and must not go wrong here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hooked_calls import ForcedHook  # noqa: E402

from skipjack.integrations.torch import hook as hook_module  # noqa: E402
from skipjack.integrations.torch.stubs import torch_abi  # noqa: E402


def same(forced: ForcedHook, compute: Callable[[], Any], ours: int = 1) -> Any:
    """Our kernels ran so often, and give what PyTorch's give."""
    result, by_us, _ = forced.counted(compute)
    wanted = forced.plainly(compute)
    assert by_us.total() == ours
    assert (result.shape, result.stride(), result.dtype) == (
        wanted.shape,
        wanted.stride(),
        wanted.dtype,
    )
    torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)
    return result


# Recursion, out=, tracing


def test_the_gradient_of_a_product_is_made_of_products(forced: ForcedHook) -> None:
    a, b = torch.randn(12, 20, requires_grad=True), torch.randn(20, 8, requires_grad=True)

    def gradient() -> Any:
        return torch.autograd.grad((a @ b).square().sum(), a)[0]

    found, ours, theirs = forced.counted(gradient)
    assert ours["aten::mm"] == 2 and not theirs
    torch.testing.assert_close(found, forced.plainly(gradient), rtol=1e-4, atol=1e-4)


INTO: dict[str, Callable[..., Any]] = {
    "mm": lambda **into: torch.mm(base(12, 20), base(20, 8), **into),
    "bmm": lambda **into: torch.bmm(base(3, 12, 20), base(3, 20, 8), **into),
    "addmm": lambda **into: torch.addmm(base(8), base(12, 20), base(20, 8), **into),
    "softmax": lambda **into: torch.softmax(base(12, 8), -1, **into),
}


@pytest.mark.parametrize("name", INTO)
def test_results_into_a_given_tensor_are_pytorchs_own(forced: ForcedHook, name: str) -> None:
    wanted = forced.plainly(INTO[name])
    out = torch.empty_like(wanted)
    _, ours, theirs = forced.counted(lambda: INTO[name](out=out))
    assert not ours and not theirs
    assert torch.equal(out, wanted)


def test_tensors_without_memory_do_not_reach_the_hook(forced: ForcedHook) -> None:
    from torch._subclasses import FakeTensorMode

    def meta() -> Any:
        return torch.mm(torch.empty(5, 6, device="meta"), torch.empty(6, 7, device="meta"))

    def fake() -> Any:
        with FakeTensorMode():
            return torch.nn.functional.linear(torch.ones(5, 6), torch.ones(7, 6), torch.ones(7))

    for compute in (meta, fake):
        result, ours, theirs = forced.counted(compute)
        assert result.shape == (5, 7) and not ours and not theirs


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_traced_graphs_have_pytorchs_operations(forced: ForcedHook, mode: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def layer(x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.linear(x, weight, bias).relu()

    arguments = torch.randn(9, 6), torch.randn(7, 6), torch.randn(7)
    text = make_fx(layer, tracing_mode=mode)(*arguments).code
    assert "aten.addmm" in text and "skipjack" not in text
    assert text == forced.plainly(lambda: make_fx(layer, tracing_mode=mode)(*arguments).code)


def test_an_exported_program_has_pytorchs_operations(forced: ForcedHook) -> None:
    layer, x = torch.nn.Linear(6, 7), torch.randn(9, 6)
    program = torch.export.export(layer, (x,)).run_decompositions()
    names = {str(node.target) for node in program.graph.nodes}
    assert "aten.addmm.default" in names and not any("skipjack" in name for name in names)
    same(forced, lambda: program.module()(x).detach())


# Dtypes, strides, memory


def test_autocast_reaches_the_hook_with_the_dtype_it_casts_to(forced: ForcedHook) -> None:
    a, b = torch.randn(12, 20), torch.randn(20, 8)

    def cast() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return a @ b

    found, ours, theirs = forced.counted(cast)
    assert found.dtype == torch.bfloat16
    assert not ours and theirs["aten::mm"] == 1
    assert torch.equal(found, forced.plainly(cast))
    same(forced, lambda: a @ b)


ERRORS: dict[str, Callable[[], Any]] = {
    "dtypes": lambda: torch.mm(torch.ones(2, 3), torch.ones(3, 2, dtype=torch.float64)),
    "no such kernel": lambda: torch.mm(torch.ones(2, 3) > 0, torch.ones(3, 2) > 0),
    "ranks": lambda: torch.mm(torch.ones(2, 3), torch.ones(3)),
    "memory": lambda: torch.mm(torch.zeros(1, 1).expand(1 << 22, 1), torch.ones(1, 1 << 22)),
    "batches": lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(3, 4, 5)),
    "bias": lambda: torch.addmm(torch.ones(9), torch.ones(2, 3), torch.ones(3, 4)),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_those_of_pytorch(
    forced: ForcedHook, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError) as wanted:
        forced.plainly(ERRORS[kind])
    for _ in range(2):
        with pytest.raises(RuntimeError) as found:
            ERRORS[kind]()
        assert str(found.value).split("\n")[0] == str(wanted.value).split("\n")[0]
    assert capfd.readouterr() == ("", "")


def test_whole_numbers_are_multiplied_by_pytorch(forced: ForcedHook) -> None:
    a, b, c = (torch.arange(20).reshape(4, 5), torch.arange(30).reshape(5, 6), torch.arange(6))
    for compute in (lambda: a @ b, lambda: torch.addmm(c, a, b)):
        assert torch.equal(compute(), forced.plainly(compute))


def base(*sizes: int) -> Any:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(7))


LAYOUTS: dict[str, tuple[int, Callable[[], Any]]] = {
    "transposed": (1, lambda: base(20, 12).t() @ base(8, 20).t()),
    "sliced rows": (1, lambda: base(30, 20)[9:21] @ base(20, 8)),
    "odd address": (1, lambda: base(241)[1:].view(12, 20) @ base(163)[3:].view(20, 8)),
    "sliced columns": (0, lambda: base(12, 40)[:, :20] @ base(20, 8)),
    "expanded": (0, lambda: base(1, 20).expand(12, 20) @ base(20, 8)),
    "overlapping": (0, lambda: base(60).as_strided((12, 20), (3, 1)) @ base(20, 8)),
    "one row": (1, lambda: base(40).as_strided((1, 20), (77, 1)) @ base(20, 8)),
    "one column": (1, lambda: base(12, 20) @ base(40).as_strided((20, 1), (1, 1))),
    "nothing to sum": (0, lambda: base(12, 0) @ base(0, 8)),
    "no columns": (0, lambda: base(12, 20) @ base(20, 0)),
    "no matrices": (0, lambda: torch.bmm(base(0, 3, 4), base(0, 4, 5))),
    "no rows": (0, lambda: torch.bmm(base(2, 0, 4), base(2, 4, 5))),
    "batch of expanded": (0, lambda: torch.bmm(base(1, 6, 7).expand(4, 6, 7), base(4, 7, 5))),
    "row added": (1, lambda: torch.addmm(base(8), base(12, 20), base(20, 8))),
    "matrix added": (1, lambda: torch.addmm(base(12, 8), base(12, 20), base(20, 8))),
    "column added": (0, lambda: torch.addmm(base(12, 1), base(12, 20), base(20, 8))),
    "number added": (0, lambda: torch.addmm(base(1), base(12, 20), base(20, 8))),
    "expanded added": (0, lambda: torch.addmm(base(8).expand(12, 8), base(12, 20), base(20, 8))),
    "added in part": (0, lambda: torch.addmm(base(8), base(12, 20), base(20, 8), beta=0.5)),
    "twice the same": (1, lambda: (lambda x: x @ x)(base(16, 16))),
    "negated view": (1, lambda: torch._neg_view(base(12, 20)) @ base(20, 8)),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_any_layout_gives_what_pytorch_gives(forced: ForcedHook, kind: str) -> None:
    ours, compute = LAYOUTS[kind]
    same(forced, compute, ours)


def test_lazy_clones_stay_lazy(forced: ForcedHook) -> None:
    a, b = torch.randn(12, 20), torch.randn(20, 8)
    clone = torch._lazy_clone(a)
    same(forced, lambda: clone @ b)
    assert torch._C._is_cow_tensor(clone) and torch._C._is_cow_tensor(a)
    same(forced, lambda: clone[:, :10] @ b[:10], 0)
    assert torch._C._is_cow_tensor(clone)


@pytest.mark.parametrize("bias", [True, False])
def test_no_error_is_made_that_nobody_sees(forced: ForcedHook, bias: bool) -> None:
    """PyTorch writes a backtrace for each: a call without bias took 6 ms longer."""
    last_error = torch_abi().address("torch_exception_get_what_without_backtrace")
    if not last_error:
        pytest.skip("this PyTorch does not tell its last error")
    what = ctypes.CFUNCTYPE(ctypes.c_char_p)(last_error)
    layer, x = torch.nn.Conv2d(4, 4, 3, bias=bias), torch.randn(1, 4, 6, 6)[:, :, ::2, ::2]

    def compute() -> tuple[Any, Any]:  # errors are those of a thread
        before = what()
        layer(x)
        return before, what()

    with ThreadPoolExecutor(1) as pool:
        before, after = pool.submit(compute).result()
    assert before == after


# Subclasses and transformations


def test_a_subclass_stays_one(forced: ForcedHook) -> None:
    class Named(torch.Tensor):
        pass

    a, b = torch.randn(12, 20).as_subclass(Named), torch.randn(20, 8)
    found, ours, _ = forced.counted(lambda: a @ b)
    assert isinstance(found, Named) and ours["aten::mm"] == 1


def test_functions_of_functions(forced: ForcedHook) -> None:
    weight, x = torch.randn(20, 8), torch.randn(5, 12, 20)

    def loss(w: Any) -> Any:
        return (x[0] @ w).square().sum()

    same(forced, lambda: torch.func.grad(loss)(weight), 2)
    same(forced, lambda: torch.func.vmap(lambda one: one @ weight)(x))
    same(forced, lambda: torch.func.vmap(torch.mm)(x, weight.expand(5, 20, 8).contiguous()))
    same(forced, lambda: torch.func.jvp(lambda w: x[0] @ w, (weight,), (weight,))[1], 2)
    same(forced, lambda: torch.func.jacrev(lambda w: (x[0] @ w).sum(0))(weight))


TRACED: dict[str, Callable[[], Any]] = {
    "linear": lambda: (torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU()), base(5, 6)),
    "norms": lambda: (torch.nn.LayerNorm(6), base(5, 6)),
    "convolution": lambda: (torch.nn.Conv2d(3, 4, 3), base(2, 3, 8, 8)),
}


@pytest.mark.parametrize("name", TRACED)
def test_torchscript_traces_pytorchs_operations(forced: ForcedHook, name: str) -> None:
    module, x = TRACED[name]()

    def traced() -> tuple[int, Any]:
        made = torch.jit.trace(module, x)
        return str(made.inlined_graph).partition("return")[0].count("aten::"), made(x).detach()

    module(x)
    (found, result), (wanted, value) = traced(), forced.plainly(traced)
    assert found == wanted
    torch.testing.assert_close(result, value, rtol=1e-4, atol=1e-4)


def test_tensors_of_inference_mode_stay_so(forced: ForcedHook) -> None:
    a, b = torch.randn(12, 20, requires_grad=True), torch.randn(20, 8)

    def compute() -> Any:
        with torch.inference_mode():
            return a @ b

    assert same(forced, compute).is_inference() and not compute().requires_grad


def test_gradients_of_gradients(forced: ForcedHook) -> None:
    x, w = base(2, 3, 8, 8).requires_grad_(), base(4, 3, 3, 3).requires_grad_()

    def twice() -> Any:
        y = torch.conv2d(x, w, padding=1)
        (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        both = torch.autograd.grad(gradient.square().sum(), (x, w))
        return torch.cat([one.flatten() for one in both])

    found, ours, _ = forced.counted(twice)
    assert ours["aten::convolution"] >= 2 and ours["aten::convolution_backward"] >= 1
    torch.testing.assert_close(found, forced.plainly(twice), rtol=1e-3, atol=1e-3)


def test_dispatch_modes_see_pytorchs_operations(forced: ForcedHook) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, given: Any = (), named: Any = None
        ) -> Any:
            seen.append(str(function))
            return function(*given, **(named or {}))

    with Recorder(), torch.no_grad():
        _, ours, _ = forced.counted(lambda: torch.nn.Linear(20, 8)(torch.ones(12, 20)))
    assert ours["aten::addmm"] == 1
    assert "aten.addmm.default" in seen and not any("skipjack" in name for name in seen)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions(forced: ForcedHook, backend: str) -> None:
    layer, x = torch.nn.Linear(20, 8), torch.randn(12, 20)
    compiled = torch.compile(layer, backend=backend)
    same(forced, lambda: compiled(x).detach())
    torch._dynamo.reset()


@pytest.mark.long
def test_convolutions_of_inductor_reach_the_hook(forced: ForcedHook) -> None:
    """It calls PyTorch's operations for them, and checks the strides of what they give."""
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
    x = base(2, 3, 8, 8)
    compiled = torch.compile(network)

    def step() -> Any:
        network.zero_grad()
        compiled(x).square().sum().backward()
        return network[0].weight.grad.clone()

    found, ours, theirs = forced.counted(step)
    assert ours == {"aten::convolution": 1, "aten::convolution_backward": 1} and not theirs
    torch.testing.assert_close(found, forced.plainly(step), rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()


@pytest.mark.long
def test_products_of_inductor_do_not_reach_the_hook(forced: ForcedHook) -> None:
    layer, x = torch.nn.Linear(20, 8), torch.randn(12, 20)
    compiled = torch.compile(layer)
    found, ours, theirs = forced.counted(lambda: compiled(x).detach())
    assert not ours and not theirs
    torch.testing.assert_close(found, forced.plainly(lambda: compiled(x).detach()))
    torch._dynamo.reset()


def test_nothing_is_decided_while_a_graph_is_captured(
    forced: ForcedHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = torch.randn(12, 20), torch.randn(20, 8)
    monkeypatch.setattr(hook_module, "_is_capturing", lambda: True)
    found, ours, theirs = forced.counted(lambda: a @ b)
    assert not ours and not theirs and torch.equal(found, forced.plainly(lambda: a @ b))
    monkeypatch.undo()
    same(forced, lambda: a @ b)
