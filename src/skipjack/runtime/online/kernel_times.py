"""How long a program's kernels take, sampled, and what trials may take of that."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from skipjack.processes import began, this_process
from skipjack.runtime.online.tuning_lock import is_recording

# The time for trials: a share of the kernel time of a program, over all of its processes.
#
# Two sums of nanoseconds are in a small file of the user directory that the processes of a program
# share: the time of kernels, and the time of trials. A program is a process group, as a shell or a
# launcher starts one; ranks with groups of their own have separate sums.

FOLDER = "online"
_PREFIX = "regret-"
_SUMS = struct.Struct("<QQ")
_PATIENCE_S, _TRIAL_PATIENCE_S, _PAUSE_S = 0.01, 1.0, 0.001
"""How long to wait for other processes, which lock the file for microseconds: for kernel time,
which must not delay the program, and for trials, which must be counted."""
_KEPT_S = 7 * 86_400.0
"""Files that were not written for this long are removed, whatever machine they are from."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """The sums so far."""

    kernel_ns: int = 0
    trial_ns: int = 0

    def allow(self, share: float, next_ns: float = 0.0) -> bool:
        """Whether trials that take this long would stay within their share."""
        return self.trial_ns + next_ns <= share * self.kernel_ns


class RegretAccount:
    """The sums of one program. If the file cannot be used, no trial is allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, kernel_ns: int = 0, trial_ns: int = 0) -> KernelTimes:
        """Add to the sums; returns the new sums."""
        try:
            with self._locked(_TRIAL_PATIENCE_S if trial_ns else _PATIENCE_S) as file:
                before = os.pread(file, _SUMS.size, 0)
                sums = _SUMS.unpack(before) if len(before) == _SUMS.size else (0, 0)
                now = KernelTimes(sums[0] + kernel_ns, sums[1] + trial_ns)
                if kernel_ns or trial_ns:
                    os.pwrite(file, _SUMS.pack(now.kernel_ns, now.trial_ns), 0)
                return now
        except OSError:
            return KernelTimes(0, 1)

    @contextlib.contextmanager
    def _locked(self, patience_s: float) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, flags, 0o600)
        try:
            _lock(file, patience_s)
            try:
                yield file
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # a process forked just now has the file open, too
        finally:
            os.close(file)


def _lock(file: int, patience_s: float) -> None:
    """Lock; `TimeoutError` if another process, which may be stopped, holds the lock too long."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError(f"the sums are locked for {patience_s:g} s") from None
        time.sleep(_PAUSE_S)


def account_of_program(user_dir: Path) -> RegretAccount:
    """The account of this process's program."""
    group = os.getpgid(0)
    folder = user_dir / FOLDER
    path = folder / f"{_PREFIX}{group}-{began(group) or '0'}-{_machine()}"
    if not path.exists():
        _forget_others(folder)
    return RegretAccount(path)


def _forget_others(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{_PREFIX}*"):
            if path.stat().st_mtime < time.time() - _KEPT_S or _has_ended(path):
                path.unlink(missing_ok=True)


def _machine() -> str:
    """Identifies this host and boot, for which process ids are valid; empty if unknown."""
    here = this_process()
    return hashlib.sha256(f"{here.host} {here.boot}".encode()).hexdigest()[:8] if here.boot else ""


def _has_ended(path: Path) -> bool:
    """Whether the file belongs to a program of this machine that has ended."""
    group, _, rest = path.name.removeprefix(_PREFIX).partition("-")
    since, _, machine = rest.partition("-")
    if not group.isdigit() or not machine or machine != _machine():
        return False
    try:
        os.killpg(int(group), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    now = began(int(group))
    return bool(now) and now != since  # another program has this number now


# The time of a program's kernels, estimated by timing one call in 64.

EVERY = 64
_FLUSH_NS = 200_000_000
"""The shortest time between two writes to the account."""

K = TypeVar("K")


class CallSampler:
    """Counts calls of kernels, and times one in 64.

    Without locks, threads may count a call twice or not at all, which hardly changes the sums.
    """

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._calls = 0
        self._events: tuple[Any, Any] | None = None

    def took(self, time_ns: int) -> None:
        """Called with the time of a sampled call."""
        raise NotImplementedError

    def has(self, meter: CallSampler) -> bool:
        """Whether calls are counted for this meter."""
        return self is meter

    def call(self, run: Callable[..., Any], on_gpu: bool, /, *args: Any, **named: Any) -> Any:
        """The result of `run`, which is timed if it is sampled."""
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
        """A launch returns before its kernel ends, so the time of the previous sample is read."""
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
    """Adds the time of all sampled kernels of this process to an account."""

    def __init__(
        self, account: RegretAccount, now_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        super().__init__(now_ns)
        self._account = account
        self._unwritten_ns = 0
        self._written_at = now_ns() - _FLUSH_NS

    def took(self, time_ns: int) -> None:
        """Count the time for 64 calls."""
        self.add(time_ns * EVERY)

    def add(self, kernel_ns: int) -> None:
        """Add time that kernels took."""
        self._unwritten_ns += kernel_ns
        now = self._now_ns()
        if now - self._written_at >= _FLUSH_NS:
            unwritten, self._unwritten_ns, self._written_at = self._unwritten_ns, 0, now
            self._account.add(kernel_ns=unwritten)


class _Both(CallSampler):
    """Two samplers of the same calls."""

    def __init__(self, outer: CallSampler, inner: CallSampler) -> None:
        self._outer, self._inner = outer, inner

    def has(self, meter: CallSampler) -> bool:
        return self._outer.has(meter) or self._inner.has(meter)

    def call(self, run: Callable[..., Any], on_gpu: bool, /, *args: Any, **named: Any) -> Any:
        counted = functools.partial(self._inner.call, run, on_gpu)
        return self._outer.call(counted, on_gpu, *args, **named)


def sampled(kernel: K, meter: CallSampler, *, on_gpu: bool) -> K:
    """The same kernel, whose calls are counted; also those of its bound calls."""
    kind = type(kernel)
    counted = kind in _sampled_classes.values()
    if counted:
        before: CallSampler = kernel.__dict__["_meter"]
        meter = before if before.has(meter) else _Both(meter, before)
    kernel.__dict__["_meter"] = meter
    kernel.__dict__["_on_gpu"] = on_gpu
    if not counted:  # last: another thread may be about to call it
        kernel.__class__ = _sampled_classes.get(kind) or _sampled_class(kind)
    return kernel


class _BoundCalls:
    """A bound call of a sampled kernel."""

    def __init__(self, bound: Any, meter: CallSampler, on_gpu: bool) -> None:
        self._bound, self._meter, self._on_gpu = bound, meter, on_gpu

    def __call__(self) -> Any:
        return self._meter.call(self._bound, self._on_gpu)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bound, name)


_sampled_classes: dict[type[Any], type[Any]] = {}
"""Sampled classes by kernel class."""


def _sampled_class(kind: type[Any]) -> type[Any]:
    """A subclass of a kernel's class that counts its calls."""

    def call(self: Any, *inputs: Any, out: Any = None) -> Any:
        return self._meter.call(
            functools.partial(kind.__call__, self), self._on_gpu, *inputs, out=out
        )

    def bind(self: Any, *inputs: Any, out: Any = None) -> Any:
        return _BoundCalls(kind.bind(self, *inputs, out=out), self._meter, self._on_gpu)

    made = _sampled_classes[kind] = type(kind.__name__, (kind,), {"__call__": call, "bind": bind})
    return made
