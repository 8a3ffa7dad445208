"""Which operations are hooked, and how kernels are registered with PyTorch's dispatcher."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from skipjack.bank import BankLayer, is_library
from skipjack.errors import StorageError
from skipjack.integrations.torch.selection import RaceResult, StoredRace, own_kernel
from skipjack.integrations.torch.stubs import Signature, TorchBackend, torch_module

# Which operations are worth the overhead of the hook.
#
# For most, it is a third of a microsecond to some microseconds per call that PyTorch still
# computes. For those whose arguments the C interface cannot pass, it is 2 us and more in a loop,
# and 6 us in a program. On GPUs, whose programs often wait for the host, every microsecond counts.
# These operations are hooked only if they may gain: if the policy searches, if the program is
# dumped, or if a bank knows one of their problems and races have not shown that kernels save less
# than the overhead.

_CONVOLUTIONS = ("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d")
_OPERATIONS = {
    "mm": ("matmul",),
    "addmm": ("matmul",),
    "bmm": ("bmm",),
    "baddbmm": ("bmm",),
    "convolution": _CONVOLUTIONS,
    "convolution_backward": _CONVOLUTIONS,
    "_softmax": ("softmax",),
    "_log_softmax": ("logsoftmax",),
    "_softmax_backward_data": ("softmax_backward",),
    "_log_softmax_backward_data": ("logsoftmax_backward",),
}
"""Our operations by PyTorch's names."""
_ADDED = ("/bias=1", "/beta=1")
_NARROW = (":f16", ":bf16")
_MOST_PROBLEMS = 64
"""In a family with more, one is assumed to be for the right kind of device."""
_DETOUR_NS = {
    TorchBackend.CPU: {"addmm": 6_000.0, "baddbmm": 6_000.0},
    TorchBackend.CUDA: {
        **dict.fromkeys(("addmm", "baddbmm"), 12_000.0),
        **dict.fromkeys(("convolution", "convolution_backward"), 15_000.0),
    },
}
"""The overhead of a call that PyTorch still computes: in steps of small networks with cold caches,
not in a loop of one call (``bench/torch_overhead.py``)."""
_SHORT_DETOUR_NS = 2_000.0


def wanted_signatures(
    signatures: Sequence[Signature], layers: Sequence[BankLayer], verdicts: Iterable[StoredRace]
) -> tuple[tuple[Signature, ...], tuple[Signature, ...]]:
    """Operations with a low overhead or a possible gain, and those known not to gain."""
    raced: dict[tuple[str, str], list[RaceResult]] = {}
    for one in verdicts:
        raced.setdefault((one.subject.op, one.subject.backend), []).append(one.verdict)
    may_gain = [
        one for one in signatures if not is_costly(one) or any(_is_known(one, at) for at in layers)
    ]
    vain = tuple(one for one in may_gain if is_costly(one) and not _pays(one, raced))
    return tuple(one for one in may_gain if one not in vain), vain


def _pays(signature: Signature, raced: Mapping[tuple[str, str], Sequence[RaceResult]]) -> bool:
    """Whether kernels save more than the overhead, if all kinds of calls are equally frequent.

    An operation without races may gain.
    """
    found = raced.get((f"aten::{signature.name}", signature.backend.value))
    return not found or sum(_gain_ns(signature, one) for one in found) > 0.0


def _gain_ns(signature: Signature, verdict: RaceResult) -> float:
    """The gain of a call minus the overhead, or only the overhead if PyTorch won.

    Calls that have a stand-in were raced against PyTorch without the hook.
    """
    cost = _DETOUR_NS[signature.backend].get(signature.name, _SHORT_DETOUR_NS)
    if verdict.way is None or verdict.after_ns is None:
        return -cost
    return verdict.before_ns - verdict.after_ns - (0.0 if signature.schema else cost)


def is_costly(signature: Signature) -> bool:
    """Whether the overhead is too high for operations that do not gain."""
    return bool(signature.schema) or signature.backend is not TorchBackend.CPU


def _is_known(signature: Signature, layer: BankLayer) -> bool:
    try:
        families = layer.outline().families
        return any(
            _may_be(signature, family) and _is_for(signature, layer, list(problems.values()))
            for family, problems in families.items()
        )
    except StorageError:
        return True  # lookups report what is wrong with the bank


def _may_be(signature: Signature, family: tuple[str, str]) -> bool:
    """Whether a family may be the operation's, by its name and the end of its keys."""
    operation, rest = family
    if operation not in _OPERATIONS[signature.name]:
        return False
    if signature.schema and not any(word in rest for word in _ADDED):
        return False
    return signature.backend is TorchBackend.CPU or any(word in rest for word in _NARROW)


def _is_for(signature: Signature, layer: BankLayer, problems: Sequence[str]) -> bool:
    """Whether an entry with our kernel is for the operation's backend."""
    if len(problems) > _MOST_PROBLEMS:
        return True
    on_gpu = signature.backend is TorchBackend.CUDA
    return any(
        one.device_name.startswith("sm_") is on_gpu and not is_library(one)
        for problem in problems
        for one in layer.of_problem(problem)
    )


# Registering kernels with PyTorch's dispatcher in place of PyTorch's own.

_WARNING = re.compile(rb"^[^\n]*Warning only once for all operators[^\n]*\n(?:  [^\n]*\n)*", re.M)

_SMALL_CALLS = 10


def backends_by_name(signatures: list[Signature]) -> dict[str, list[TorchBackend]]:
    found: dict[str, list[TorchBackend]] = {}
    for one in signatures:
        found.setdefault(one.name, []).append(one.backend)
    return found


def is_replaced(signature: Signature) -> bool:
    """Whether another library has replaced PyTorch's kernel.

    Ours would hide it, and its fallback would bypass it, so such an operation is not hooked.
    """
    with suppress(AttributeError, RuntimeError):
        lines = torch_module()._C._dispatch_dump(f"aten::{signature.name}").splitlines()
        return any(line.startswith(f"{signature.backend.key} (inactive):") for line in lines)
    return False


def scaled_overloads(name: str, backends: Sequence[TorchBackend]) -> Any:
    """Overloads of our operation for numbers other than 1: PyTorch computes those calls."""
    torch = torch_module()

    def computed_on(backend: TorchBackend) -> Any:
        def compute(keys: Any, added: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
            kernel = own_kernel(name, backend)
            return kernel.call_boxed(keys, added, a, b, beta=beta, alpha=alpha)

        return compute

    library = torch.library.Library("skipjack", "FRAGMENT")
    for overload, numbers in (("beta", "Scalar beta, Scalar alpha=1"), ("alpha", "Scalar alpha")):
        tensors = "Tensor added, Tensor a, Tensor b"
        library.define(f"{name}.{overload}({tensors}, *, {numbers}) -> Tensor")
        for backend in backends:
            compute = computed_on(backend)
            library.impl(f"{name}.{overload}", compute, backend.key, with_keyset=True)
    return library


def stand_in(signature: Signature) -> Any:
    """Register our operation for one of PyTorch's whose numbers the C interface cannot pass.

    PyTorch passes only numbers other than 1, and selects the overload by them. It calls an object
    that it takes for a Python function, but no Python code runs: in a program with cold caches, a
    few lines of Python took 20 us per call.
    """
    torch = torch_module()
    own, _ = torch._C._jit_get_operation(f"skipjack::{signature.name}")
    library = torch.library.Library("aten", "IMPL")
    library.impl(signature.name, own, signature.backend.key, allow_override=True)
    return library


def small_call_ns() -> float:
    """The time of a small call of the cheapest operation with a stand-in."""
    torch = torch_module()
    with torch.inference_mode(), torch.device("cpu"):
        a = torch.zeros(8, 8, dtype=torch.float32)

        def timed() -> float:
            began = time.perf_counter_ns()
            for _ in range(_SMALL_CALLS):
                torch.addmm(a, a, a)
            return (time.perf_counter_ns() - began) / _SMALL_CALLS

        return min(timed() for _ in range(_SMALL_CALLS))


@contextmanager
def without_override_warning() -> Iterator[None]:
    """Suppress the warning of PyTorch's C++ code that a kernel is overridden, which is intended.

    Other output is passed on.
    """
    try:
        before = os.dup(2)
    except OSError:  # the program has closed standard error
        yield
        return
    room = os.memfd_create("skipjack")
    try:
        os.dup2(room, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        written = os.pread(room, 1 << 20, 0)
        os.close(room)
        if rest := _WARNING.sub(b"", written):
            os.write(2, rest)
