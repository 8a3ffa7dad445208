"""Commands on other machines over ssh: one, or many at once, with their output and exit codes."""

from __future__ import annotations

import codecs
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

from skipjack.fleet.machines.ssh_client import (
    CONNECT_S,
    SSH_FAILED,
    command_line,
    failed_before_login,
    failure,
)
from skipjack.fleet.model import Registration
from skipjack.interrupt import signals_as_interrupt

# The output of a command: kept within limits, and passed on line by line.

KEPT_BYTES = 4 << 20
"""Bytes kept of each output stream: half from the beginning, half from the end."""
LONGEST_LINE = 1 << 16
"""Length above which a line is passed on in pieces."""


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of output from a machine."""

    machine: str
    stream: str
    """``stdout`` or ``stderr``."""
    text: str
    """The text without the line end."""


class OutputBuffer:
    """An output stream of a command, fed with bytes as they arrive."""

    def __init__(
        self, machine: str, stream: str, observer: Callable[[OutputLine], None] | None = None
    ) -> None:
        self._machine, self._stream, self._observer = machine, stream, observer
        self._head, self._tail, self._left_out = bytearray(), bytearray(), 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""

    @property
    def text(self) -> str:
        """The whole output, or its beginning and its end."""
        head, tail = (bytes(part).decode(errors="replace") for part in (self._head, self._tail))
        if not self._left_out:
            return (bytes(self._head) + bytes(self._tail)).decode(errors="replace")
        return f"{head}\n... {self._left_out} bytes were left out ...\n{tail}"

    def take(self, data: bytes) -> None:
        """Add bytes."""
        self._keep(data)
        if self._observer is not None:
            self._pass_on(self._decoder.decode(data))

    def end(self) -> None:
        """End the stream; an unfinished line is passed on, too."""
        if self._observer is not None:
            self._pass_on(self._decoder.decode(b"", True))
            if self._line:
                self._say(self._line)
                self._line = ""

    def _keep(self, data: bytes) -> None:
        room = KEPT_BYTES // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - KEPT_BYTES // 2
        if excess > 0:
            del self._tail[:excess]
            self._left_out += excess

    def _pass_on(self, text: str) -> None:
        *whole, self._line = (self._line + text).split("\n")
        for line in whole:
            self._say(line.removesuffix("\r"))
        while len(self._line) > LONGEST_LINE:
            self._say(self._line[:LONGEST_LINE])
            self._line = self._line[LONGEST_LINE:]

    def _say(self, text: str) -> None:
        assert self._observer is not None
        self._observer(OutputLine(self._machine, self._stream, text))


# Commands on other machines: one, or many in parallel, each with its output and exit code.
#
# No process remains on this machine: the ssh of a command that takes too long, or is interrupted,
# is ended. The remote command may continue; one that must not outlive its caller has to limit
# itself.

CONNECTIONS_AT_ONCE = 64
"""Number of parallel connections."""
_LOOK_S = 0.1
_AFTER_END_S = 1.0
"""Time to read remaining output: a remote background process may hold the pipes open."""


@dataclass(frozen=True, slots=True)
class SshResult:
    """The result of a command on a machine."""

    machine: str
    exit_code: int
    """255 if ssh itself failed, or after a timeout."""
    stdout: str
    """Bytes that are not UTF-8 are replaced; the middle of very long output is left out."""
    stderr: str
    seconds: float
    failure: str = ""
    """Why the command has no exit code, in one sentence."""
    connected: bool = True
    """False if ssh failed before login, so that nothing was started there."""

    @property
    def ok(self) -> bool:
        """Whether the command ran and succeeded."""
        return self.exit_code == 0 and not self.failure


def run_on(
    machine: Registration,
    command: str,
    *,
    stdin: bytes = b"",
    timeout_s: float = 60.0,
    observer: Callable[[OutputLine], None] | None = None,
    accept_new: bool = False,
    stop: threading.Event | None = None,
) -> SshResult:
    """Run a command in the machine's login shell; build it with `shlex.join`.

    Secrets are passed by `stdin`, which appears in no list of processes and no log. `observer` is
    called with every line as it arrives, in the calling thread. `accept_new` trusts an unknown host
    key. `stop` ends the command early when another thread sets it.
    """
    started = time.monotonic()
    connect_s = min(CONNECT_S, math.ceil(timeout_s / 2))  # ssh counts in seconds
    with tempfile.TemporaryDirectory(prefix="skipjack-ssh-") as folder:
        log = Path(folder) / "log"
        line = command_line(machine, command, log=log, connect_s=connect_s, accept_new=accept_new)
        outputs = [OutputBuffer(machine.name, name, observer) for name in ("stdout", "stderr")]
        with _SshProcess(line, stdin, outputs) as conversation:
            why = conversation.until_over(started + timeout_s, stop or threading.Event())
        code = conversation.exit_code
        complaint = log.read_text(errors="replace") if log.exists() else ""
    reason, connected = "", True
    if why == "late":
        reason = f"{machine.place} did not finish within {timeout_s:g} s; the command may still run"
    elif why == "stopped":
        reason = f"interrupted; the command may still run on {machine.place}"
    elif code == SSH_FAILED:
        reason = failure(machine, complaint, connect_s)
        connected = not failed_before_login(complaint)
    elif code < 0:
        reason = f"the ssh to {machine.place} was ended by signal {-code}"
    stdout, stderr = (output.text for output in outputs)
    seconds = time.monotonic() - started
    code = SSH_FAILED if reason else code
    return SshResult(machine.name, code, stdout, stderr, seconds, reason, connected)


def run_everywhere(
    machines: Sequence[Registration],
    command: str | Callable[[Registration], str],
    *,
    stdin: bytes | Callable[[Registration], bytes] = b"",
    timeout_s: float = 60.0,
    observer: Callable[[OutputLine], None] | None = None,
    accept_new: bool = False,
) -> list[SshResult]:
    """`run_on` for many machines in parallel; results are in their order.

    Ctrl-C, SIGTERM and SIGHUP end all of them, and raise `KeyboardInterrupt`.

    `command` and `stdin` are the same for all machines, or functions of a machine.

    `observer` is called with the lines of all machines, by one thread at a time.
    """
    if not machines:
        return []
    alone, stop = threading.Lock(), threading.Event()

    def one_at_a_time(line: OutputLine) -> None:
        with alone:
            if observer is not None:
                observer(line)

    def ask(machine: Registration) -> SshResult:
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
        signals_as_interrupt(),
        ThreadPoolExecutor(min(CONNECTIONS_AT_ONCE, len(machines)), "skipjack-ssh") as pool,
    ):
        futures = [pool.submit(ask, machine) for machine in machines]
        try:
            _wait_for(futures)
        finally:
            # Ctrl-C, or an observer that raised: all stop.
            stop.set()
            for future in futures:
                future.cancel()
    return [future.result() for future in futures]


def _wait_for(futures: Sequence[Future[SshResult]]) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()


class _SshProcess:
    """A running ssh with its pipes. As a context manager it ends the process."""

    def __init__(self, line: Sequence[str], stdin: bytes, outputs: Sequence[OutputBuffer]) -> None:
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A process group of its own: a ProxyCommand ends with it, and we handle Ctrl-C.
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

    def __enter__(self) -> _SshProcess:
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
        """Read and write until it ends; returns "", "late" or "stopped"."""
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
            if key.data is None:  # unsent input is dropped
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
        except BrokenPipeError:  # it reads no more input
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._drop(key)

    def _watch(self, pipe: IO[bytes] | None, event: int, output: OutputBuffer | None) -> None:
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, event, output)

    def _drop(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        with contextlib.suppress(BrokenPipeError):
            key.fileobj.close()  # type: ignore[union-attr]
