"""Commands on other machines: one, or many at once, each with its output and exit code.

Nothing is left behind here: a command that takes too long, or is interrupted, loses its ssh. What
it began over there may go on; commands that must not outlive their caller limit themselves.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from skipjack.fleet.machines.client import (
    CONNECT_S,
    SSH_FAILED,
    command_line,
    failure,
    never_got_in,
)
from skipjack.fleet.machines.output import Line, Output
from skipjack.fleet.machines.registration import Registration
from skipjack.interrupt import ends_interrupt

__all__ = ["Answer", "Line", "run_everywhere", "run_on"]

AT_ONCE = 64
"""Machines that are talked to at the same time."""
_LOOK_S = 0.1
_AFTER_END_S = 1.0
"""Something that was left in the background there may hold the pipes open."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a command on a machine."""

    machine: str
    exit_code: int
    """255 if ssh itself failed, or the time was over."""
    stdout: str
    """Bytes that are no UTF-8 are replaced; the middle of very long output is left out."""
    stderr: str
    seconds: float
    failure: str = ""
    """Why there is no exit code of the command itself, in one sentence."""
    connected: bool = True
    """False if ssh never got in: nothing was begun there."""

    @property
    def ok(self) -> bool:
        """Whether the command ran and was content."""
        return self.exit_code == 0 and not self.failure


def run_on(
    machine: Registration,
    command: str,
    *,
    stdin: bytes = b"",
    timeout_s: float = 60.0,
    observer: Callable[[Line], None] | None = None,
    accept_new: bool = False,
    stop: threading.Event | None = None,
) -> Answer:
    """Let the machine's login shell run a command: build it with `shlex.join`.

    Secrets go by `stdin`, which appears in no list of processes and no log. `observer` is told
    every line as it comes, from the calling thread. `accept_new` trusts a machine that was never
    seen before. `stop` ends the command early, when another thread sets it.
    """
    started = time.monotonic()
    connect_s = min(CONNECT_S, math.ceil(timeout_s / 2))  # ssh counts in seconds
    with tempfile.TemporaryDirectory(prefix="skipjack-ssh-") as folder:
        log = Path(folder) / "log"
        line = command_line(machine, command, log=log, connect_s=connect_s, accept_new=accept_new)
        outputs = [Output(machine.name, name, observer) for name in ("stdout", "stderr")]
        with _Conversation(line, stdin, outputs) as conversation:
            why = conversation.until_over(started + timeout_s, stop or threading.Event())
        code = conversation.exit_code
        complaint = log.read_text(errors="replace") if log.exists() else ""
    reason, connected = "", True
    if why == "late":
        reason = (
            f"{machine.place} was not done within {timeout_s:g} s; what was begun there may go on"
        )
    elif why == "stopped":
        reason = f"interrupted; what was begun on {machine.place} may go on"
    elif code == SSH_FAILED:
        reason = failure(machine, complaint, connect_s)
        connected = not never_got_in(complaint)
    elif code < 0:
        reason = f"the ssh to {machine.place} was ended by signal {-code}"
    stdout, stderr = (output.text for output in outputs)
    seconds = time.monotonic() - started
    code = SSH_FAILED if reason else code
    return Answer(machine.name, code, stdout, stderr, seconds, reason, connected)


def run_everywhere(
    machines: Sequence[Registration],
    command: str | Callable[[Registration], str],
    *,
    stdin: bytes | Callable[[Registration], bytes] = b"",
    timeout_s: float = 60.0,
    observer: Callable[[Line], None] | None = None,
    accept_new: bool = False,
) -> list[Answer]:
    """`run_on` for many machines at once; answers in their order.

    Ctrl-C ends all of them, and so do SIGTERM and SIGHUP, as `KeyboardInterrupt`.

    `command` and `stdin` are the same for all, or what a function gives for each.

    `observer` is told lines of all machines, one at a time, whichever thread they come from.
    """
    if not machines:
        return []
    alone, stop = threading.Lock(), threading.Event()

    def one_at_a_time(line: Line) -> None:
        with alone:
            if observer is not None:
                observer(line)

    def ask(machine: Registration) -> Answer:
        return run_on(
            machine,
            command(machine) if callable(command) else command,
            stdin=stdin(machine) if callable(stdin) else stdin,
            timeout_s=timeout_s,
            observer=one_at_a_time,
            accept_new=accept_new,
            stop=stop,
        )

    with (
        ends_interrupt(),
        ThreadPoolExecutor(min(AT_ONCE, len(machines)), "skipjack-ssh") as pool,
    ):
        futures = [pool.submit(ask, machine) for machine in machines]
        try:
            _wait_for(futures)
        finally:
            # Ctrl-C, or an observer that raised: nobody goes on.
            stop.set()
            for future in futures:
                future.cancel()
    return [future.result() for future in futures]


def _wait_for(futures: Sequence[Future[Answer]]) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()


class _Conversation:
    """A running ssh with its pipes. As a context manager it leaves no process behind."""

    def __init__(self, line: Sequence[str], stdin: bytes, outputs: Sequence[Output]) -> None:
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A group of its own: a ProxyCommand ends with it, and Ctrl-C is ours to handle.
            start_new_session=True,
        )
        self.exit_code = SSH_FAILED
        self._selector = selectors.DefaultSelector()
        self._unsent = memoryview(stdin)
        self._outputs = list(outputs)
        for pipe, output in zip((self._process.stdout, self._process.stderr), outputs, strict=True):
            self._watch(pipe, selectors.EVENT_READ, output)
        if stdin:
            self._watch(self._process.stdin, selectors.EVENT_WRITE, None)

    def __enter__(self) -> _Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.exit_code = self._process.wait()
        for key in list(self._selector.get_map().values()):
            self._drop(key)
        self._selector.close()

    def until_over(self, deadline: float, stop: threading.Event) -> str:
        """Read and write until it ends: "", "late" or "stopped"."""
        while True:
            if stop.is_set():
                return "stopped"
            if time.monotonic() > deadline:
                return "late"
            if self._process.poll() is not None:
                self._read_the_rest()
                return ""
            self._turn(_LOOK_S)
            if not self._selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_LOOK_S)

    def _read_the_rest(self) -> None:
        for key in list(self._selector.get_map().values()):
            if key.data is None:  # nobody reads what was not sent yet
                self._drop(key)
        enough = time.monotonic() + _AFTER_END_S
        while self._selector.get_map() and time.monotonic() < enough:
            self._turn(_LOOK_S)
        for output in self._outputs:
            output.end()

    def _turn(self, patience_s: float) -> bool:
        ready = self._selector.select(patience_s)
        for key, _ in ready:
            self._write(key) if key.data is None else self._read(key)
        return bool(ready)

    def _read(self, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, 1 << 16)
        if data:
            key.data.take(data)
        else:
            self._drop(key)

    def _write(self, key: selectors.SelectorKey) -> None:
        try:
            sent = os.write(key.fd, self._unsent[: 1 << 16])
        except BlockingIOError:
            return
        except BrokenPipeError:  # it wants no more
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._drop(key)

    def _watch(self, pipe: IO[bytes] | None, event: int, output: Output | None) -> None:
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, event, output)

    def _drop(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        with contextlib.suppress(BrokenPipeError):
            key.fileobj.close()  # type: ignore[union-attr]
