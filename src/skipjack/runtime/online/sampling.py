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


class CallMeter:
    """Counts the calls of all sampled kernels of a process and adds their time to an account.

    Threads may count a call twice or not at all, which changes a sum by one in 64.
    """

    def __init__(
        self, account: RegretAccount, now_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._account, self._now_ns = account, now_ns
        self._calls = self._unwritten_ns = 0
        self._written_at = now_ns() - _FLUSH_NS
        self._events: tuple[Any, Any] | None = None

    def call(self, run: Callable[..., Any], on_gpu: bool, /, *args: Any, **named: Any) -> Any:
        """What `run` gives; its time is taken if it is its turn."""
        self._calls += 1
        if self._calls % EVERY:
            return run(*args, **named)
        if on_gpu:
            return self._on_gpu(run, *args, **named)
        began = self._now_ns()
        result = run(*args, **named)
        self.add((self._now_ns() - began) * EVERY)
        return result

    def _on_gpu(self, run: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """A launch returns before its kernel ends: the time of the sample before is read now."""
        torch = sys.modules.get("torch")
        if torch is None or is_recording():
            return run(*args, **named)
        if self._events is not None and self._events[1].query():
            first, last = self._events
            self.add(int(first.elapsed_time(last) * 1e6) * EVERY)
            self._events = None
        if self._events is not None:
            return run(*args, **named)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        result = run(*args, **named)
        last.record()
        self._events = first, last
        return result

    def add(self, kernel_ns: int) -> None:
        """Take note of what kernels took."""
        self._unwritten_ns += kernel_ns
        now = self._now_ns()
        if now - self._written_at >= _FLUSH_NS:
            unwritten, self._unwritten_ns, self._written_at = self._unwritten_ns, 0, now
            self._account.add(kernel_ns=unwritten)


def sampled(kernel: K, meter: CallMeter, *, on_gpu: bool) -> K:
    """The same kernel, whose calls are counted; also those of what is bound to it."""
    kind = type(kernel)
    if kind not in _sampled_classes.values():
        kernel.__class__ = _sampled_classes.get(kind) or _sampled_class(kind)
    kernel.__dict__["_meter"] = meter
    kernel.__dict__["_on_gpu"] = on_gpu
    return kernel


class _BoundCalls:
    """What a sampled kernel was bound to."""

    def __init__(self, bound: Any, meter: CallMeter, on_gpu: bool) -> None:
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
