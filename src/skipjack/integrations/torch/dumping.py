"""Dumping a program: what the hook saw is counted into a dump every few seconds and at the end.

Calls are counted by the hook; here is only who asks for the counts. A forked process counts its own
calls, from the fork on. Nothing here raises: a program is not to fail because of its dump.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.devices import find_device
from skipjack.errors import SkipjackError
from skipjack.integrations.torch.decisions import TorchDecision
from skipjack.operations import bytes_moved, get, parse
from skipjack.runtime.dumps import Dump, PassedCalls
from skipjack.settings import Settings, load_settings

log = logging.getLogger(__name__)

_FLUSH_S = 5.0
_AT_EXIT_S = 30.0
"""How long default kernels are still built for when the program ends."""
_THREAD_ENDS_S = 60.0


class CountedCalls(NamedTuple):
    """What was decided about a kind of call, and how often it was made until now."""

    decision: TorchDecision
    calls: int


Counts = Callable[[], Iterable[CountedCalls]]
Others = Callable[[], Iterable[PassedCalls]]
_Kind = tuple[str, str, str]


class TorchDump:
    """Of one process and those that it forks, from `start` on."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        torch: str,
        counts: Counts,
        others: Others = tuple,
    ) -> None:
        """`others` are calls of operations that are not hooked, with all of their counts."""
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
        """Write from time to time, and when the program ends."""
        self._start_thread()
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        from multiprocessing import util

        # Processes of multiprocessing end without `atexit`, but with its finalizers.
        util.register_after_fork(self, lambda one: util.Finalize(None, one.stop, exitpriority=10))

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="skipjack dump", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_FLUSH_S):
            self.flush(seconds=_FLUSH_S)

    def flush(self, *, seconds: float | None = None) -> None:
        """Write what was counted until now."""
        try:
            self._collect()
            self._dump.flush(seconds=seconds)
        except Exception:
            log.debug("problems could not be dumped", exc_info=True)

    def stop(self) -> None:
        """Write all, and stop."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None:
            # It may be compiling, which must end before the interpreter does.
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
        """Calls of each kind; switches that no description tells of are one kind."""
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
    """The part of a call's time that each of its problems is taken to need: by their arithmetic."""
    work = [max(get(one.operation).flops(one), bytes_moved(one), 1) for one in problems]
    return [one / sum(work) for one in work]


_dump: TorchDump | None = None


def dump_program(folder: Path, ops: Sequence[str] = ()) -> None:
    """Dump this program from now on, if nobody has begun to; only `ops` if any are named.

    The hook is there. What is not hooked is counted in the thread that calls this.
    """
    from skipjack.integrations.torch.abi import torch_abi
    from skipjack.integrations.torch.hook import torch_hook
    from skipjack.integrations.torch.other_calls import OtherCalls

    if _dump is not None:
        return
    others = OtherCalls({f"aten::{one.name}" for one in torch_hook().signatures})
    start_dump(folder, torch_abi().version, partial(_counted, frozenset(ops)), others)
    others.start()


def start_dump(folder: Path, torch: str, counts: Counts, others: Others = tuple) -> None:
    """Dump what is counted from now on; the first folder is the one."""
    global _dump
    if _dump is None:
        _dump = TorchDump(folder, load_settings(), torch, counts, others)
        _dump.start()


def _counted(ops: frozenset[str]) -> Iterable[CountedCalls]:
    """What the hook has counted of operations of PyTorch's or ours with these names."""
    from skipjack.integrations.torch.reporting import report

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
