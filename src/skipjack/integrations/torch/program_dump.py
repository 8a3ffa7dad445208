"""Dumping a program: its calls, hooked or not, are counted into a dump every few seconds and at the
end.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from skipjack.core import Device, Problem
from skipjack.devices import find_device
from skipjack.errors import SkipjackError
from skipjack.integrations.torch.outcomes import TorchDecision
from skipjack.operations import bytes_moved, get, parse
from skipjack.runtime.dumps import Dump, PassedCalls
from skipjack.settings import Settings, load_settings

# Counts and times calls of operations that are not hooked while a program is dumped.
#
# Every operation of the thread goes through Python then, which costs some microseconds each. This
# is done only for dumps, whose purpose is to find out what a program computes.

_MOST_KINDS = 20_000
"""The limit for programs whose shapes never repeat."""
_NO_WORK = ("profiler",)
"""Namespaces whose operations compute nothing."""
_REASON = "the operation is not hooked"
_DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
_DTYPES |= {"int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8"}


class OtherCalls:
    """The calls of the thread that starts it; a forked process continues to count."""

    def __init__(self, hooked: Collection[str]) -> None:
        """`hooked` are names such as ``aten::mm``."""
        self._torch = import_module("torch")
        self._hooked = frozenset(hooked)
        self._sums: dict[tuple[Any, ...], list[int]] = {}
        self._left_out: set[Any] = set()

    def start(self) -> None:
        """Count from now on."""
        _mode_of(self).__enter__()

    def computed(self, operation: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Compute a call, and count it."""
        if operation in self._left_out:
            return operation(*arguments, **named)
        began = time.perf_counter_ns()
        result = operation(*arguments, **named)
        self._count(operation, arguments, time.perf_counter_ns() - began)
        return result

    def _count(self, operation: Any, arguments: tuple[Any, ...], taken_ns: int) -> None:
        if self._is_left_out(operation):
            self._left_out.add(operation)
            return
        tensors = [one for one in arguments if isinstance(one, self._torch.Tensor)]
        kind: tuple[Any, ...] = (
            operation,
            *((one.dtype, one.shape, one.device.type) for one in tensors),
        )
        sums = self._sums.get(kind)
        if sums is None:
            if len(self._sums) >= _MOST_KINDS:
                return
            sums = self._sums[kind] = [0, 0]
        sums[0] += 1
        sums[1] += taken_ns

    def _is_left_out(self, operation: Any) -> bool:
        """Whether an operation is hooked, or computes nothing."""
        schema = operation._schema
        namespace = schema.name.partition("::")[0]
        is_no_work = namespace in _NO_WORK or bool(operation.is_view)
        return schema.name in self._hooked or is_no_work

    def __call__(self) -> Iterable[PassedCalls]:
        """The counts so far."""
        found: dict[tuple[str, str, str], PassedCalls] = {}
        for (operation, *tensors), (calls, time_ns) in list(self._sums.items()):
            one = PassedCalls(
                str(operation._schema.name),
                ", ".join(_shown(str(dtype), shape) for dtype, shape, _ in tensors),
                next((device for _, _, device in tensors), "cpu"),
                _REASON,
                calls,
                time_ns,
            )
            found[one.key] = found[one.key] + one if one.key in found else one
        return found.values()


def _shown(dtype: str, shape: Iterable[int]) -> str:
    name = dtype.removeprefix("torch.")
    return f"{_DTYPES.get(name, name)}[{'x'.join(map(str, shape))}]"


def _mode_of(others: OtherCalls) -> Any:
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

    def dispatch(
        self: Any, operation: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        return others.computed(operation, arguments, named or {})

    mode = type("SkipjackOtherCalls", (base,), {"__torch_dispatch__": dispatch})
    return mode()


# Dumping a program: the hook's counts go into a dump every few seconds and at the end.
#
# The hook counts calls; this module reads the counts. A forked process counts its own calls after
# the fork. Nothing here raises: a program must not fail because of its dump.

log = logging.getLogger(__name__)

_FLUSH_S = 5.0
_AT_EXIT_S = 30.0
"""How long default kernels are still built when the program ends."""
_THREAD_ENDS_S = 60.0


class CountedCalls(NamedTuple):
    """The decision about a kind of call, and the number of calls so far."""

    decision: TorchDecision
    calls: int


Counts = Callable[[], Iterable[CountedCalls]]
Others = Callable[[], Iterable[PassedCalls]]
_Kind = tuple[str, str, str]


class TorchDump:
    """The dump of a process and of those that it forks, after `start`."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        torch: str,
        counts: Counts,
        others: Others = tuple,
    ) -> None:
        """`others` returns calls of operations that are not hooked, with total counts."""
        self._folder, self._settings, self._torch = folder, settings, torch
        self._counts, self._others = counts, others
        self._devices: dict[str, Device] = {}
        self._written: dict[_Kind, int] = {}
        self._passed: dict[_Kind, PassedCalls] = {}
        self._begin()

    def _begin(self) -> None:
        self._dump = Dump(self._folder, self._settings, torch=self._torch)
        self._collecting = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Write periodically, and when the program ends."""
        self._start_thread()
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        from multiprocessing import util

        # Processes of multiprocessing skip `atexit`, but run its finalizers.
        util.register_after_fork(self, lambda one: util.Finalize(None, one.stop, exitpriority=10))

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="skipjack dump", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_FLUSH_S):
            self.flush(seconds=_FLUSH_S)

    def flush(self, *, seconds: float | None = None) -> None:
        """Write the counts so far."""
        try:
            self._collect()
            self._dump.flush(seconds=seconds)
        except Exception:
            log.debug("problems could not be dumped", exc_info=True)

    def stop(self) -> None:
        """Write everything, and stop."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None:
            # It may be compiling, which must end before the interpreter shuts down.
            self._thread.join(_THREAD_ENDS_S)
        self.flush(seconds=_AT_EXIT_S)

    def _after_fork(self) -> None:
        if self._ended.is_set():
            return
        try:
            self._begin()
            self._written = self._totals()[0]
            self._passed = {one.key: one for one in self._others()}
            self._start_thread()
        except Exception:
            log.debug("a forked process is not dumped", exc_info=True)

    def _totals(self) -> tuple[dict[_Kind, int], dict[_Kind, TorchDecision]]:
        """Calls of each kind; options that are not in the description are ignored."""
        totals: dict[_Kind, int] = {}
        decisions: dict[_Kind, TorchDecision] = {}
        for decision, calls in self._counts():
            kind = decision.op, decision.description, decision.device
            totals[kind] = totals.get(kind, 0) + calls
            decisions[kind] = decision
        return totals, decisions

    def _collect(self) -> None:
        with self._collecting:
            totals, decisions = self._totals()
            for kind, total in totals.items():
                new = total - self._written.get(kind, 0)
                if new > 0:
                    self._written[kind] = total
                    self._add(decisions[kind], new)
            for one in self._others():
                before = self._passed.get(one.key)
                self._passed[one.key] = one
                if before is not None:
                    calls, time_ns = one.calls - before.calls, one.time_ns - before.time_ns
                    one = replace(one, calls=max(calls, 0), time_ns=max(time_ns, 0))
                if one.calls:
                    self._dump.pass_through(one)

    def _add(self, one: TorchDecision, calls: int) -> None:
        try:
            problems = [parse(key) for key in (one.problem or "").split()]
            device = self._device(one.device)
        except SkipjackError as error:
            self._pass(one, calls, str(error))
            return
        if not problems:
            self._pass(one, calls, one.reason)
        for problem, share in zip(problems, _shares(problems), strict=True):
            taken = None if one.before_ns is None else share * one.before_ns
            self._dump.add(problem, device, calls, taken, one.op)

    def _pass(self, one: TorchDecision, calls: int, reason: str) -> None:
        self._dump.pass_through(PassedCalls(one.op, one.description, one.device, reason, calls))

    def _device(self, name: str) -> Device:
        if name not in self._devices:
            self._devices[name] = find_device(name)
        return self._devices[name]


def _shares(problems: list[Problem]) -> list[float]:
    """The assumed share of each problem in a call's time, by arithmetic."""
    work = [max(get(one.operation).flops(one), bytes_moved(one), 1) for one in problems]
    return [one / sum(work) for one in work]


_dump: TorchDump | None = None


def dump_program(folder: Path, ops: Sequence[str] = ()) -> None:
    """Dump this program from now on, unless it is dumped already; only `ops` if any are named.

    The hook must be installed. Other operations are counted in the calling thread only.
    """
    from skipjack.integrations.torch.hook import torch_hook
    from skipjack.integrations.torch.stubs import torch_abi

    pass

    if _dump is not None:
        return
    others = OtherCalls({f"aten::{one.name}" for one in torch_hook().signatures})
    start_dump(folder, torch_abi().version, partial(_counted, frozenset(ops)), others)
    others.start()


def start_dump(folder: Path, torch: str, counts: Counts, others: Others = tuple) -> None:
    """Dump new counts from now on; only the first call has an effect."""
    global _dump
    if _dump is None:
        _dump = TorchDump(folder, load_settings(), torch, counts, others)
        _dump.start()


def _counted(ops: frozenset[str]) -> Iterable[CountedCalls]:
    """The hook's counts of PyTorch's or our operations with these names."""
    from skipjack.integrations.torch.activation import report

    for one in report().calls:
        decision = one.decision
        names = {decision.op.rpartition("::")[2]}
        names |= {key.partition(":")[0] for key in (decision.problem or "").split()}
        if not ops or names & ops:
            yield CountedCalls(decision, one.our_calls + one.torch_calls)


def flush_dump() -> None:
    """Write what was counted until now, if this program is dumped."""
    if _dump is not None:
        _dump.flush()
