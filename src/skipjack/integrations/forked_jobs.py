"""Calls that are made in forked children, so that a compiler may crash or hang in one of them.

A child is a copy of this process and inherits the calls, whatever they close over: nothing has to
be importable or picklable. It must not touch the GPU, whose context does not survive a fork; that
is for the calls to keep to. A child serves many calls, because forking a process with a large
memory takes milliseconds.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from skipjack.core.trial import Status
from skipjack.execute.worker import die_with
from skipjack.integrations.outcomes import Outcome, failed_build
from skipjack.reading import read_json

Job = Callable[[], object]


@dataclass
class _Child:
    pid: int
    orders: int
    """Descriptor to write to."""
    answers: int
    """Descriptor to read from."""
    job: int = -1
    """The one it is at; -1 if none."""
    since: float = 0.0
    heard: bytes = b""


def run_jobs(jobs: Sequence[Job], workers: int, timeout_s: float) -> list[Outcome]:
    """Make all calls, so many at once; each has this long. Gives what became of each, in order."""
    outcomes: list[Outcome | None] = [None] * len(jobs)
    waiting = deque(range(len(jobs)))
    children: list[_Child] = []
    try:
        while waiting or any(child.job >= 0 for child in children):
            busy = sum(child.job >= 0 for child in children)
            while len(children) < min(workers, busy + len(waiting)):
                children.append(_fork(jobs, children))
            for child in children:
                if child.job < 0 and waiting:
                    _order(child, waiting.popleft())
            for child, number, outcome in _settled(children, timeout_s):
                outcomes[number] = outcome
                if outcome.status in (Status.BUILD_CRASH, Status.BUILD_TIMEOUT):
                    _end(child)
                    children.remove(child)
    finally:
        for child in children:
            _end(child)
    return [outcome or Outcome(Status.ERROR, "was not tried") for outcome in outcomes]


def _fork(jobs: Sequence[Job], others: Sequence[_Child]) -> _Child:
    read_order, orders = os.pipe()
    answers, write_answer = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python warns of locks that other threads hold. The compiler takes none of theirs, and a
        # child that hangs all the same is ended after its time.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(read_order)
        os.close(write_answer)
        return _Child(pid, orders, answers)
    try:
        gc.disable()  # freeing the parent's device memory from here would be an error
        for descriptor in (orders, answers, *(fd for o in others for fd in (o.orders, o.answers))):
            os.close(descriptor)
        _serve(jobs, read_order, write_answer, parent)
    finally:
        os._exit(0)  # nothing of the parent's is torn down
    raise AssertionError("unreachable")


def _serve(jobs: Sequence[Job], orders: int, answers: int, parent: int) -> None:
    """In the child: make the calls that are ordered until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    die_with(parent)
    threading.excepthook = lambda _: None
    while order := os.read(orders, 8):
        started = time.monotonic()
        outcome = Outcome()
        try:
            jobs[int.from_bytes(order, "little")]()
        except BaseException as error:  # a compiler may fail in any way
            outcome = failed_build(error)
        done = replace(outcome, seconds=time.monotonic() - started)
        os.write(answers, json.dumps(asdict(done)).encode() + b"\n")


def _order(child: _Child, number: int) -> None:
    child.job, child.since = number, time.monotonic()
    # A child that is gone is found out when its answer is read.
    with contextlib.suppress(BrokenPipeError):
        os.write(child.orders, number.to_bytes(8, "little"))


def _settled(children: Sequence[_Child], timeout_s: float) -> Iterator[tuple[_Child, int, Outcome]]:
    busy = [child for child in children if child.job >= 0]
    left = min(child.since for child in busy) + timeout_s - time.monotonic()
    ready, _, _ = select.select([child.answers for child in busy], [], [], max(0.0, left))
    for child in busy:
        number, spent = child.job, time.monotonic() - child.since
        if child.answers in ready:
            outcome = _heard(child, spent)
        elif spent >= timeout_s:
            reason = f"the compiler took longer than {timeout_s:g} s"
            outcome = Outcome(Status.BUILD_TIMEOUT, reason, spent)
        else:
            continue
        if outcome:
            child.job = -1
            yield child, number, outcome


def _heard(child: _Child, spent: float) -> Outcome | None:
    """An answer, or the end of the child; None if only a part has come."""
    data = os.read(child.answers, 1 << 16)
    if not data:
        return Outcome(Status.BUILD_CRASH, f"the compiler {_ended(child)}", spent)
    child.heard += data
    if not child.heard.endswith(b"\n"):
        return None
    said = read_json(child.heard, "a compiler's answer", surrogates=True)
    child.heard = b""
    return said.of(Outcome)


def _ended(child: _Child) -> str:
    """How a child that closed its pipe ended."""
    _, state = os.waitpid(child.pid, 0)
    child.pid = 0
    code = os.waitstatus_to_exitcode(state)
    if code >= 0:
        return f"ended the process with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _end(child: _Child) -> None:
    os.close(child.orders)
    os.close(child.answers)
    if child.pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
