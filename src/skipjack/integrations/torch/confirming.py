"""Is our kernel really faster than PyTorch's, called as the program calls it, through the hook?

The same paired test as everywhere (`skipjack.execute.confirm`). The operation itself is timed, with
the table's entry set to PyTorch's kernel and to ours in turn, on tensors like those of the call.
"""

from __future__ import annotations

import functools
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median
from typing import Any

from skipjack.execute.confirm import MIN_EFFECT, confirm
from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block, summarize
from skipjack.integrations.torch.abi import torch_module
from skipjack.integrations.torch.calls import DTYPES, TensorFacts, TorchCall
from skipjack.integrations.torch.decisions import TorchDecision
from skipjack.integrations.torch.signatures import TorchBackend
from skipjack.integrations.torch.table import TableEntry

TORCH_KERNEL = 0
"""Its number in a session; ways to compute a call with ours are 1, 2 and so on."""
_SAMPLE_NS = 100_000
_GPU_SAMPLE_NS = 1_000_000
"""Waiting for a GPU takes microseconds, whatever it computed."""
_SAMPLES = 3
_LONG_NS = 20_000
"""In a program, calls that take longer find little in the caches."""
_FLUSHED_BYTES = 8 << 20
_HOPELESS = 1.3
"""What takes so many times as long as PyTorch in three calls is not raced."""
_AS_LONG = 1.0
"""On a GPU itself a kernel may not take longer."""
_AHEAD_CYCLES = 4_000_000
"""Some milliseconds, in which the host queues all calls that are timed."""
_QUEUED = 20
_POSITIVE = ("running_var",)
"""Arguments of which a root is taken."""
_TOLERANCE = {4: 1e-3, 8: 1e-9, 2: 3e-2}
"""Of the norm of the difference, by the size of an element: kernels were verified elsewhere, this
finds arguments that were mixed up."""

_DTYPES = {
    **{0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 11: "bool"},
    **{5: "float16", 6: "float32", 7: "float64", 15: "bfloat16"},
}
_BATCHES = {"convolution": (0,), "convolution_backward": (0, 1)}
"""Arguments with a batch, of operations whose kernels check more than those of meta tensors."""


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """What came of it."""

    way: int | None
    """The number of the fastest way that beats PyTorch; None if there is none."""
    gain: float
    """How many times faster the best is."""
    before_ns: float
    after_ns: float | None
    reason: str
    is_sure: bool = True
    """Whether another race would give the same."""


class SampleCall:
    """The operation on tensors made up for it."""

    def __init__(self, call: TorchCall) -> None:
        torch = torch_module()
        self._torch = torch
        self._operation = _overload(call)
        schema = self._operation._schema.arguments
        self.gpu = call.gpu
        self._arguments = [
            _made(torch, one, str(at.type), at.name, device_of(call))
            for one, at in zip(call.arguments, schema, strict=True)
        ]
        flushed = _FLUSHED_BYTES // 4 if self.gpu is None else 0
        self._flushed = torch.zeros(flushed, dtype=torch.float32, device="cpu")

    def __call__(self) -> Any:
        """Compute."""
        return self._operation(*self._arguments)

    def wait(self) -> None:
        """Until the GPU has computed what it was given."""
        if self.gpu is not None:
            self._torch.cuda.synchronize(self.gpu)

    def queued_ns(self, calls: int) -> float:
        """Nanoseconds of a call on the GPU, which is kept waiting until all are queued."""
        cuda = self._torch.cuda
        with cuda.device(self.gpu):
            first, last = (cuda.Event(enable_timing=True) for _ in range(2))
            cuda.synchronize()
            cuda._sleep(_AHEAD_CYCLES)
            first.record()
            for _ in range(calls):
                self()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last)) * 1e6 / calls

    def flush(self) -> None:
        """Push the tensors out of the nearer caches of a CPU."""
        self._flushed.add_(1.0)

    def results(self) -> list[Any]:
        """The tensors that it gives, those that were not asked for left out."""
        found = self()
        found = found if isinstance(found, list | tuple) else [found]
        return [one for one in found if one is not None and one.numel()]

    def differs(self, ours: Sequence[Any], theirs: Sequence[Any]) -> str:
        """In what two results differ more than rounding explains; empty if they do not."""
        if len(ours) != len(theirs):
            return f"{len(ours)} results instead of {len(theirs)}"
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if one.shape != other.shape or one.stride() != other.stride():
                return f"result {place} has another shape or other strides"
            difference = (one.double() - other.double()).norm()
            if not difference <= _TOLERANCE[one.element_size()] * other.double().norm() + 1e-30:
                return f"result {place} is wrong"
        return ""


def _overload(call: TorchCall) -> Any:
    torch = torch_module()
    return getattr(getattr(torch.ops, call.signature.namespace), call.signature.name).default


def _made(torch: Any, argument: object, kind: str, name: str = "", device: str = "cpu") -> Any:
    if isinstance(argument, TensorFacts):
        dtype = dtype_of(torch, argument.dtype)
        tensor = torch.empty_strided(argument.sizes, argument.strides, dtype=dtype, device=device)
        least = 0.25 if name in _POSITIVE else -1.0
        return tensor.uniform_(least, 1.0, generator=_generator(device))
    if "bool" in kind:
        return [bool(one) for one in argument] if isinstance(argument, tuple) else bool(argument)
    if isinstance(argument, tuple):
        return list(argument)
    return dtype_of(torch, argument) if "ScalarType" in kind else argument


def device_of(call: TorchCall) -> str:
    """As PyTorch calls it."""
    return "cpu" if call.gpu is None else f"cuda:{max(call.gpu, 0)}"


@functools.cache
def _generator(device: str) -> Any:
    """Numbers of our own: the program's are drawn as if nobody was here."""
    return torch_module().Generator(device)


def dtype_of(torch: Any, number: object) -> Any:
    """PyTorch's dtype of a number of its C interface."""
    return getattr(torch, _DTYPES[number]) if isinstance(number, int) else None


def why_invalid(call: TorchCall) -> str:
    """PyTorch's own words about a call that it refuses; empty if it does not.

    It is tried on tensors without memory. What cannot be tried is left to PyTorch's kernel.
    """
    torch = torch_module()
    try:
        operation = getattr(torch.ops.aten, call.signature.name).default
        kinds = [str(one.type) for one in operation._schema.arguments]
        arguments = []
        for argument, kind in zip(call.arguments, kinds, strict=False):
            if isinstance(argument, TensorFacts):
                dtype = dtype_of(torch, argument.dtype)
                if dtype is None or argument.rank != len(argument.sizes):
                    return ""
                made = torch.empty_strided(
                    argument.sizes, argument.strides, dtype=dtype, device="meta"
                )
                arguments.append(made)
            else:
                arguments.append(_made(torch, argument, kind))
    except (KeyError, RuntimeError, TypeError):
        return ""
    if call.signature.name in _BATCHES:
        refused = _words_of_its_kernel(torch, call, _without_batch(call, arguments))
        return refused and _words_of_its_kernel(torch, call, arguments)
    try:
        operation(*arguments)
    except Exception:
        return _words_of_its_kernel(torch, call, arguments)
    return ""


def _without_batch(call: TorchCall, arguments: Sequence[Any]) -> list[Any]:
    """With batches of no element there is nothing to compute; a mix of dtypes needs elements."""
    dtypes = {tensor.dtype for tensor in call.tensors}
    if len(dtypes) > 1 or not dtypes <= set(DTYPES):
        return list(arguments)
    given = list(arguments)
    for place in _BATCHES[call.signature.name]:
        if given[place].dim():
            given[place] = given[place][:0]
    return given


def _words_of_its_kernel(torch: Any, call: TorchCall, arguments: Sequence[Any]) -> str:
    """What PyTorch's kernel itself says; those for tensors without memory have words of their own.

    It checks before it computes, so that the tensors need not hold anything.
    """
    device = device_of(call)
    real = [
        torch.empty_strided(one.size(), one.stride(), dtype=one.dtype, device=device)
        if isinstance(one, torch.Tensor)
        else one
        for one in arguments
    ]
    backend = call.signature.backend
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, backend.key))
    try:
        own_kernel(call.signature.name, backend).call_boxed(keys, *real)
    except torch.OutOfMemoryError:
        return ""  # it may have room the next time
    except Exception as error:
        return str(error).split("\n")[0]
    return ""


@functools.cache
def own_kernel(name: str, backend: TorchBackend) -> Any:
    """PyTorch's own kernel of an operation; first to be asked for before ours is registered."""
    return torch_module().library.get_kernel(f"aten::{name}", backend.key)


class HookSession:
    """Times an entry of the table both ways; as a run session does for `confirm`."""

    def __init__(self, entry: TableEntry, plans: Sequence[int], sample: SampleCall) -> None:
        self._entry, self._plans, self._sample = entry, plans, sample
        self._calls: dict[int, int] = {}
        self._typical: dict[int, float] = {}

    def choose(self, kernel: int) -> None:
        """Which kernel runs from now on."""
        if kernel == TORCH_KERNEL:
            self._entry.torch()
        else:
            self._entry.ours(self._plans[kernel - 1])

    def typical_ns(self, kernel: int) -> float:
        """About how long a call takes."""
        if kernel not in self._typical:
            self.choose(kernel)
            self._sample()
            self._typical[kernel] = median(self._timed(1) for _ in range(_SAMPLES))
        return self._typical[kernel]

    def our_results(self) -> list[Any] | None:
        """What the kernel gives that is chosen; None if the sample is a call of another kind."""
        before = self._entry.our_calls
        results = self._sample.results()
        return results if self._entry.our_calls > before else None

    def gpu_ns(self, kernel: int) -> float:
        """What a call takes the GPU, however long the host needs to queue it."""
        self.choose(kernel)
        self._sample()
        return min(self._sample.queued_ns(_QUEUED) for _ in range(_SAMPLES))

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks; which one is first changes from round to round."""
        found = []
        for number in range(blocks):
            for kernel in kernels if number % 2 == 0 else reversed(kernels):
                found.append(self._block(kernel, number))
        return found, []

    def _block(self, kernel: int, number: int) -> Block:
        typical = self.typical_ns(kernel)
        sample_ns = _SAMPLE_NS if self._sample.gpu is None else _GPU_SAMPLE_NS
        calls = max(1, int(sample_ns / max(typical, 1.0)))
        samples = _SAMPLES if typical < 100 * _SAMPLE_NS else 1
        self.choose(kernel)
        quiet, disturbed = list[float](), list[float]()
        for _ in range(samples):
            if typical > _LONG_NS and self._sample.gpu is None:
                self._sample.flush()
            before = _switches()
            taken = self._timed(calls)
            (quiet if _switches() == before else disturbed).append(taken)
        return Block(
            *(kernel, number, calls, tuple(quiet or disturbed), ()),
            disturbed=not quiet and typical < 100 * _SAMPLE_NS,
            dropped=len(disturbed) if quiet else 0,
        )

    def _timed(self, calls: int) -> float:
        sample = self._sample
        sample.wait()
        began = time.perf_counter_ns()
        for _ in range(calls):
            sample()
        sample.wait()
        return (time.perf_counter_ns() - began) / calls


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def time_plainly(call: TorchCall) -> float:
    """Nanoseconds of a call with the kernel that runs now; roughly."""
    sample = SampleCall(call)
    sample()
    return min(_once(sample) for _ in range(_SAMPLES))


def _once(sample: SampleCall) -> float:
    sample.wait()
    began = time.perf_counter_ns()
    sample()
    sample.wait()
    return float(time.perf_counter_ns() - began)


def judge(
    entry: TableEntry,
    plans: Sequence[int],
    call: TorchCall,
    stop: Callable[[], bool],
    detour_ns: float = 0.0,
) -> HookVerdict:
    """Which way beats PyTorch, if any does. Leaves PyTorch's kernel in the entry.

    `detour_ns` is what a call of PyTorch's kernel takes longer for the hook: without the hook it
    would not, and a kernel has to beat that.
    """
    sample = SampleCall(call)
    session = HookSession(entry, plans, sample)
    calls = entry.our_calls, entry.torch_calls
    try:
        session.choose(TORCH_KERNEL)
        theirs = sample.results()
        verdicts = [
            _without_detour(_raced(session, sample, way, theirs, stop), detour_ns)
            for way in range(1, len(plans) + 1)
        ]
        best = max(verdicts, key=lambda one: (one.way is not None, one.gain))
        if best.way is None and not all(one.is_sure for one in verdicts):
            return replace(best, is_sure=False)
        return best
    finally:
        entry.torch()
        entry.forget_counts(*calls)


def with_torch_time(decision: TorchDecision, call: TorchCall, entry: TableEntry) -> TorchDecision:
    """The decision with what a call takes PyTorch's kernel, where that runs and nobody timed it."""
    if decision.is_ours or decision.problem is None or decision.before_ns is not None:
        return decision
    counts = entry.our_calls, entry.torch_calls
    try:
        time_ns = HookSession(entry, (), SampleCall(call)).typical_ns(TORCH_KERNEL)
        return replace(decision, before_ns=time_ns)
    finally:
        entry.forget_counts(*counts)


def _without_detour(verdict: HookVerdict, detour_ns: float) -> HookVerdict:
    before_ns = verdict.before_ns - detour_ns
    if not detour_ns or verdict.way is None or verdict.after_ns is None:
        return replace(verdict, before_ns=max(before_ns, 0.0))
    gain = before_ns / verdict.after_ns
    reason = f"{gain:.2f} times the speed of PyTorch without the hook"
    if gain < 1.0 + MIN_EFFECT:
        return HookVerdict(None, gain, before_ns, None, reason)
    return replace(verdict, gain=gain, before_ns=before_ns, reason=f"{gain:.2f} times faster")


def _raced(
    session: HookSession,
    sample: SampleCall,
    way: int,
    theirs: Sequence[Any],
    stop: Callable[[], bool],
) -> HookVerdict:
    """One way against PyTorch."""
    before_ns = session.typical_ns(TORCH_KERNEL)
    session.choose(way)
    ours = session.our_results()
    if ours is None:
        reason = "no call like it can be made up to time it"
        return HookVerdict(None, 0.0, before_ns, None, reason)
    if wrong := sample.differs(ours, theirs):
        reason = f"it does not compute what PyTorch does: {wrong}"
        return HookVerdict(None, 0.0, before_ns, None, reason)
    slower = session.typical_ns(way) / before_ns
    if sample.gpu is not None:
        # A call that is quicker to launch wins a race that the GPU would lose.
        slower = max(slower, session.gpu_ns(way) / session.gpu_ns(TORCH_KERNEL))
    if slower > (_HOPELESS if sample.gpu is None else _AS_LONG):
        # Three calls tell little on a busy machine, and three more cost little.
        reason = f"PyTorch is {slower:.2f} times faster"
        return HookVerdict(None, 1.0 / slower, before_ns, None, reason, is_sure=False)
    confirmation = confirm(session, way, [TORCH_KERNEL], stop=stop)
    gain = confirmation.gains[TORCH_KERNEL].ratio
    if not isfinite(gain):
        reason = "the machine was too busy to tell whether it is faster than PyTorch"
        return HookVerdict(None, 1.0, before_ns, None, reason, is_sure=False)
    if not confirmation.confirmed(TORCH_KERNEL):
        reason = f"{gain:.2f} times the speed of PyTorch, which is no sure gain"
        is_sure = confirmation.decided(TORCH_KERNEL)
        return HookVerdict(None, gain, before_ns, None, reason, is_sure)
    before_ns = summarize(confirmation.blocks[TORCH_KERNEL]).time_ns
    return HookVerdict(way, gain, before_ns, before_ns / gain, f"{gain:.2f} times faster")
