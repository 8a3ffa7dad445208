"""How long a program's kernels take: one call in 64 is timed, and stands for the others."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from skipjack.runtime.online.account import RegretAccount
from skipjack.runtime.online.turns import is_recording

EVERY = 64
_FLUSH_NS = 200_000_000
"""The account is written to this often at most."""

K = TypeVar("K")


class CallSampler:
    """Counts calls of kernels, and takes the time of one in 64.

    Threads may count a call twice or not at all, which changes a sum by one in 64.
    """

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._calls = 0
        self._events: tuple[Any, Any] | None = None

    def took(self, time_ns: int) -> None:
        """What a call took that was timed."""
        raise NotImplementedError

    def has(self, meter: CallSampler) -> bool:
        """Whether calls are counted for it."""
        return self is meter

    def call(self, run: Callable[..., Any], on_gpu: bool, /, *args: Any, **named: Any) -> Any:
        """What `run` gives; its time is taken if it is its turn."""
        self._calls += 1
        if self._calls % EVERY:
            return run(*args, **named)
        if on_gpu:
            return self._on_gpu(run, *args, **named)
        began = self._now_ns()
        result = run(*args, **named)
        self.took(self._now_ns() - began)
        return result

    def _on_gpu(self, run: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """A launch returns before its kernel ends: the time of the sample before is read now."""
        torch = sys.modules.get("torch")
        if torch is None or is_recording():
            return run(*args, **named)
        if self._events is not None and self._events[1].query():
            first, last = self._events
            self.took(int(first.elapsed_time(last) * 1e6))
            self._events = None
        if self._events is not None:
            return run(*args, **named)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        result = run(*args, **named)
        last.record()
        self._events = first, last
        return result


class CallMeter(CallSampler):
    """Adds the time of all sampled kernels of a process to an account."""

    def __init__(
        self, account: RegretAccount, now_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        super().__init__(now_ns)
        self._account = account
        self._unwritten_ns = 0
        self._written_at = now_ns() - _FLUSH_NS

    def took(self, time_ns: int) -> None:
        """It stands for the 63 before it."""
        self.add(time_ns * EVERY)

    def add(self, kernel_ns: int) -> None:
        """Take note of what kernels took."""
        self._unwritten_ns += kernel_ns
        now = self._now_ns()
        if now - self._written_at >= _FLUSH_NS:
            unwritten, self._unwritten_ns, self._written_at = self._unwritten_ns, 0, now
            self._account.add(kernel_ns=unwritten)


class _Both(CallSampler):
    """Two who count the same calls."""

    def __init__(self, outer: CallSampler, inner: CallSampler) -> None:
        self._outer, self._inner = outer, inner

    def has(self, meter: CallSampler) -> bool:
        return self._outer.has(meter) or self._inner.has(meter)

    def call(self, run: Callable[..., Any], on_gpu: bool, /, *args: Any, **named: Any) -> Any:
        counted = functools.partial(self._inner.call, run, on_gpu)
        return self._outer.call(counted, on_gpu, *args, **named)


def sampled(kernel: K, meter: CallSampler, *, on_gpu: bool) -> K:
    """The same kernel, whose calls are counted; also those of what is bound to it."""
    kind = type(kernel)
    counted = kind in _sampled_classes.values()
    if counted:
        before: CallSampler = kernel.__dict__["_meter"]
        meter = before if before.has(meter) else _Both(meter, before)
    kernel.__dict__["_meter"] = meter
    kernel.__dict__["_on_gpu"] = on_gpu
    if not counted:  # at last: another thread may be about to call it
        kernel.__class__ = _sampled_classes.get(kind) or _sampled_class(kind)
    return kernel


class _BoundCalls:
    """What a sampled kernel was bound to."""

    def __init__(self, bound: Any, meter: CallSampler, on_gpu: bool) -> None:
        self._bound, self._meter, self._on_gpu = bound, meter, on_gpu

    def __call__(self) -> Any:
        return self._meter.call(self._bound, self._on_gpu)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bound, name)


_sampled_classes: dict[type[Any], type[Any]] = {}
"""By the classes whose calls they count."""


def _sampled_class(kind: type[Any]) -> type[Any]:
    """A kernel's class whose calls are counted."""

    def call(self: Any, *inputs: Any, out: Any = None) -> Any:
        return self._meter.call(
            functools.partial(kind.__call__, self), self._on_gpu, *inputs, out=out
        )

    def bind(self: Any, *inputs: Any, out: Any = None) -> Any:
        return _BoundCalls(kind.bind(self, *inputs, out=out), self._meter, self._on_gpu)

    made = _sampled_classes[kind] = type(kind.__name__, (kind,), {"__call__": call, "bind": bind})
    return made
