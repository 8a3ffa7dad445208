"""Does the hook under PyTorch compute on a GPU what PyTorch does? Each check runs for real.

Kernels of ours are forced wherever there can be any. For machines with an NVIDIA GPU: CI has none.
Writes ``bench/results/torch_gpu_<device>.json``.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import machine
import skipjack.torch
import torch_hook
from skipjack.native import cpu

NAME = "torch_gpu"
DEVICE = "cuda"
_TOLERANCE = 2e-2
Check = Callable[[], object]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """A function that raises if something is wrong; what it gives is printed."""
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


def plainly(compute: Callable[[], Any]) -> Any:
    """Without the hook."""
    skipjack.torch.disable()
    try:
        return compute()
    finally:
        skipjack.torch.enable("db", force=True)


def as_it_is(compute: Callable[[], Any]) -> Any:
    """With the hook."""
    return compute()


def hits(compute: Callable[[], object]) -> dict[str, int]:
    """Calls by our kernels, by operation."""
    found = torch_hook.calls_during(compute)["ops"]
    return {op.removeprefix("aten::"): counts["hits"] for op, counts in found.items()}


def near(ours: Tensor, theirs: Tensor) -> float:
    """The difference of two tensors by their norms; wrong if it is more than rounding explains."""
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    assert ours.stride() == theirs.stride(), (ours.stride(), theirs.stride())
    difference = float((ours.double() - theirs.double()).norm() / theirs.double().norm())
    assert difference < _TOLERANCE, difference
    return difference


def same(compute: Callable[[], Sequence[Tensor]], **wanted: int) -> str:
    """Results are PyTorch's, and so many calls of these operations were ours."""
    torch.manual_seed(0)
    theirs = [one.clone() for one in plainly(compute)]
    compute()
    found = hits(compute)
    missing = {op: found.get(op, 0) for op, count in wanted.items() if found.get(op, 0) != count}
    assert not missing, f"hits of {missing}, not {wanted}: {reasons()}"
    worst = max(near(one, other) for one, other in zip(compute(), theirs, strict=True))
    return f"{sum(wanted.values())} hits, differs by {worst:.1e}"


def reasons() -> str:
    calls = skipjack.torch.report().calls
    return "; ".join(f"{one.decision.description}: {one.decision.reason}" for one in calls[-3:])


def drawn(*sizes: int, dtype: torch.dtype = torch.float16, grad: bool = False) -> Tensor:
    return torch.randn(*sizes, device=DEVICE, dtype=dtype, requires_grad=grad)


def gradients(result: Tensor, *inputs: Tensor) -> list[Tensor]:
    return [result.detach(), *torch.autograd.grad(result, inputs, torch.ones_like(result))]


@check
def products_in_float16() -> str:
    a, b = drawn(256, 192), drawn(192, 128)
    return same(lambda: [a @ b, b.mT @ a.mT], mm=2)


@check
def products_in_bfloat16() -> str:
    a, b = (drawn(*sizes, dtype=torch.bfloat16) for sizes in ((256, 192), (192, 128)))
    return same(lambda: [a @ b], mm=1)


@check
def linear_layers_and_their_gradients() -> str:
    x, w, bias = drawn(64, 192, grad=True), drawn(128, 192, grad=True), drawn(128, grad=True)
    return same(lambda: gradients(functional.linear(x, w, bias), x, w), addmm=1, mm=2)


@check
def batches_of_products() -> str:
    a, b = drawn(4, 64, 96, grad=True), drawn(4, 96, 128, grad=True)
    return same(lambda: gradients(torch.bmm(a, b), a, b), bmm=3)


@check
def softmax_and_its_gradient() -> str:
    x = drawn(64, 512, grad=True)
    weights = drawn(64, 512)

    def compute() -> list[Tensor]:
        y = torch.softmax(x, -1)
        return [y.detach(), *torch.autograd.grad((y * weights).sum(), x)]

    return same(compute, _softmax=1, _softmax_backward_data=1)


@check
def log_softmax_and_its_gradient() -> str:
    x = drawn(64, 512, grad=True)
    weights = drawn(64, 512)

    def compute() -> list[Tensor]:
        y = torch.log_softmax(x, -1)
        return [y.detach(), *torch.autograd.grad((y * weights).sum(), x)]

    return same(compute, _log_softmax=1, _log_softmax_backward_data=1)


def convolved(memory: torch.memory_format, stride: int = 1, groups: int = 1) -> str:
    x = drawn(4, 64, 28, 28).to(memory_format=memory).requires_grad_()
    w = drawn(64, 64 // groups, 3, 3).to(memory_format=memory).requires_grad_()

    def compute() -> list[Tensor]:
        y = functional.conv2d(x, w, stride=stride, padding=1, groups=groups)
        return [y.detach(), *torch.autograd.grad(y, (x, w), torch.ones_like(y))]

    return same(compute, convolution=1, convolution_backward=1)


@check
def convolutions_with_channels_last() -> str:
    return convolved(torch.channels_last)


@check
def convolutions_with_channels_second() -> str:
    return convolved(torch.contiguous_format)


@check
def convolutions_with_strides() -> str:
    return convolved(torch.channels_last, stride=2)


@check
def convolutions_with_a_bias_are_pytorchs() -> str:
    x, w, bias = drawn(2, 16, 8, 8), drawn(16, 16, 3, 3), drawn(16)
    return same(lambda: [functional.conv2d(x, w, bias)], convolution=0)


@check
def tensors_that_are_not_aligned_are_pytorchs() -> str:
    store = drawn(1 + 256 * 192)
    b = drawn(192, 128)
    aligned, odd = store[:-1].view(256, 192), store[1:].view(256, 192)
    aligned @ b
    wanted = plainly(lambda: odd @ b)
    found = hits(lambda: odd @ b)
    near(odd @ b, wanted)
    return f"{found['mm']} hits at an odd address"


@check
def float32_is_pytorchs() -> str:
    a = drawn(64, 64, dtype=torch.float32)
    return same(lambda: [a @ a], mm=0)


@check
def autocast_reaches_the_hook() -> str:
    x, w = drawn(256, 192, dtype=torch.float32), drawn(128, 192, dtype=torch.float32)

    def compute() -> list[Tensor]:
        with torch.autocast(DEVICE, torch.float16):
            return [functional.linear(x, w)]

    return same(compute, mm=1)


@check
def other_streams() -> str:
    a, b = drawn(1024, 1024), drawn(1024, 1024)
    wanted = plainly(lambda: a @ b)
    streams = [torch.cuda.Stream() for _ in range(4)]  # type: ignore[no-untyped-call]
    a @ b
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(a @ b)
    torch.cuda.synchronize()
    return f"{len(results)} results, worst {max(near(one, wanted) for one in results):.1e}"


@check
def graphs_are_captured_and_replayed() -> str:
    a, b = drawn(256, 192), drawn(192, 128)
    x = drawn(64, 512)

    def compute() -> tuple[Tensor, Tensor]:
        return a @ b, torch.softmax(x, -1)

    compute()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    found: list[Tensor] = []
    with torch.cuda.graph(graph):
        found += compute()
    a.copy_(drawn(256, 192))
    x.copy_(drawn(64, 512))
    graph.replay()
    torch.cuda.synchronize()
    wanted = plainly(compute)
    return f"differs by {max(near(*pair) for pair in zip(found, wanted, strict=True)):.1e}"


@check
def what_is_new_while_a_graph_is_captured_is_pytorchs() -> str:
    a, b = drawn(80, 48), drawn(48, 112)
    torch.cuda.synchronize()
    plainly(lambda: a @ b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = a @ b
    graph.replay()
    torch.cuda.synchronize()
    return f"differs by {near(found, plainly(lambda: a @ b)):.1e}"


@check
def deterministic_algorithms_are_pytorchs() -> str:
    a, b = drawn(256, 192), drawn(192, 128)
    a @ b
    torch.use_deterministic_algorithms(True)
    try:
        found = hits(lambda: a @ b)
    finally:
        torch.use_deterministic_algorithms(False)
    assert found["mm"] == 0
    assert hits(lambda: a @ b)["mm"] == 1
    return "0 hits"


@check
def errors_are_pytorchs() -> str:
    a, b = drawn(16, 32), drawn(16, 32)
    words = []
    for left, right in ((a, b), (a, torch.randn(32, 8, dtype=torch.float16))):
        for state in (plainly, as_it_is):
            try:
                state(functools.partial(torch.mm, left, right))
            except RuntimeError as error:
                words.append(str(error).splitlines()[0])
            else:
                raise AssertionError("no error")
    assert words[0] == words[1], words[:2]
    return f"{words[0]!r}; {words[3]!r} (plain: {words[2]!r})"


@check
def what_is_disabled_is_away() -> str:
    a, b = drawn(256, 192), drawn(192, 128)
    a @ b
    skipjack.torch.disable()
    found = hits(lambda: a @ b)
    skipjack.torch.enable("db", force=True)
    assert not found, found
    return "no calls"


def main(argv: Sequence[str] | None = None) -> int:
    """All checks; the exit code is how many failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="checks with one of these words, with commas")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    records = []
    with torch_hook.no_banks():
        skipjack.torch.enable("db", force=True)
        for name, function in CHECKS.items():
            if not any(word in name for word in args.only.split(",")):
                continue
            began = time.monotonic()
            try:
                passed, said = True, str(function())
            except Exception as error:
                passed, said = False, f"{type(error).__name__}: {error}"
                traceback.print_exc()
            taken = time.monotonic() - began
            print(f"{'ok  ' if passed else 'FAIL'} {name} ({taken:.1f} s): {said}", flush=True)
            records.append({"check": name, "passed": passed, "said": said})
        skipjack.torch.disable()
    result = machine.header(NAME, cpu.detect(), range(1))
    result |= {"gpu": torch.cuda.get_device_name(), "checks": records}
    machine.write_result(args.json or machine.RESULTS / f"{NAME}_h200.json", result)
    return sum(not one["passed"] for one in records)


if __name__ == "__main__":
    sys.exit(main())
