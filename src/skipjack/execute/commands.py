"""Commands as processes: started, watched, ended as a whole, with their output in a file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from skipjack.errors import WorkerError
from skipjack.execute import command_supervisor as supervisor
from skipjack.execute.process import describe_exit
from skipjack.reading import read_json
from skipjack.storage import disk_full

GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""
KEEP_BYTES = 16 << 20
"""Most output of a command that is kept: of more, only the beginning and the end."""
_LOOK_EVERY_S = 0.1
_OVERDUE_S = 15.0
_TAIL_BYTES = 1 << 16
_KILLED_IN_SHELL = 128 + signal.SIGKILL
_FOR_TERMINALS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0e-\x1a\x1b\x7f]")
_OUT_OF_MEMORY = (
    *("out of memory", "outofmemory", "std::bad_alloc", "memoryerror", "cannot allocate memory"),
    *("cuda_error_out_of_memory", "cudaerrormemoryallocation", "resource_exhausted"),
)


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command to run. With `timeout_s` None it may take any time."""

    argv: Sequence[str]
    directory: Path
    output: Path
    """The file for its output."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    timeout_s: float | None = None
    grace_s: float = GRACE_S
    cores: Sequence[int] = ()
    """The only cores to run on; empty for all."""
    keep_bytes: int = KEEP_BYTES


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command and its processes ended."""

    code: int
    """The exit code; if negative, the signal that ended it."""
    cause: str
    """Why we ended it: ``timeout``, ``stop``, or empty if it ended on its own."""
    seconds: float
    peak_bytes: int
    """Most memory of the command or of one process that it waited for; at least some MB."""
    output: Path
    output_bytes: int = 0
    memory_kills: int = 0
    """Processes of the whole machine that the kernel killed meanwhile because memory ran out."""
    strays: int = 0
    """Processes that still ran when the command had ended; they were ended, too."""
    left: int = 0
    """Processes that could not be ended."""
    timeout_s: float | None = None
    """The time that it was allowed."""

    @property
    def ok(self) -> bool:
        """Whether it ended on its own with exit code 0."""
        return self.code == 0 and not self.cause

    @property
    def stopped(self) -> bool:
        """Whether it was ended by a request to stop."""
        return self.cause == "stop"

    def tail(self, most_bytes: int = _TAIL_BYTES) -> str:
        """The end of its output."""
        with contextlib.suppress(OSError), self.output.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes))
            return file.read().decode(errors="replace")
        return ""

    def out_of_memory(self) -> bool:
        """Whether it failed because memory ran out, as far as that can be known."""
        if self.cause:
            return False
        killed = self.code in (-signal.SIGKILL, _KILLED_IN_SHELL)
        if self.code == _KILLED_IN_SHELL or (killed and self.memory_kills):
            return True
        return says_out_of_memory(self.tail())

    def describe(self) -> str:
        """``ended with exit code 3: the last line that it printed``."""
        if self.cause == "timeout":
            return f"did not end within {self.timeout_s:g} s and was killed"
        if self.cause == "stop":
            return "was stopped"
        return describe_exit(self.code, self.last_line())

    def last_line(self) -> str:
        """The last line of its output, without control sequences of terminals."""
        lines = _FOR_TERMINALS.sub("", self.tail(4096)).splitlines()
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def says_out_of_memory(text: str) -> bool:
    """Whether a program's output says that memory ran out."""
    low = text.lower()
    return any(words in low for words in _OUT_OF_MEMORY)


class CommandRunner:
    """Runs one command after another; for one thread at a time.

    A supervisor process starts and watches them. It ends the processes that they leave running, and
    all processes if this process is gone, however it ended.
    """

    def __init__(self) -> None:
        self._supervisor: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the supervisor; `run` does so too, and waits for it."""
        if self._supervisor is None or self._supervisor.poll() is not None:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                # Ctrl-C goes to this process, which decides what happens to the command.
                start_new_session=True,
            )

    def run(self, task: CommandRequest, stop: Callable[[], bool] = lambda: False) -> CommandResult:
        """Run a command to its end. `stop` is polled; if it returns true, the command is ended."""
        self.start()
        assert self._supervisor and self._supervisor.stdin and self._supervisor.stdout
        try:
            _send(self._supervisor.stdin, _request(task))
            answer = self._answer(self._supervisor.stdin, self._supervisor.stdout, task, stop)
        except BaseException:
            self.close()
            raise
        if "failed" in answer:
            raise WorkerError(f"cannot start `{task.argv[0]}`: {answer['failed']}")
        if answer["left"]:
            self.close()  # the supervisor ends, too; the next command gets a new one
        if answer.pop("output_error"):
            raise disk_full(task.output)
        return CommandResult(output=task.output, timeout_s=task.timeout_s, **answer)

    def _answer(
        self, to: IO[bytes], stream: IO[bytes], task: CommandRequest, stop: Callable[[], bool]
    ) -> dict[str, Any]:
        allowed = float("inf") if task.timeout_s is None else task.timeout_s
        deadline = time.monotonic() + allowed + task.grace_s + _OVERDUE_S
        told, received, group = False, b"", 0
        while True:
            if not told and stop():
                told, deadline = True, time.monotonic() + task.grace_s + _OVERDUE_S
                _send(to, supervisor.STOP)
            if select.select([stream], [], [], _LOOK_EVERY_S)[0]:
                received += (chunk := os.read(stream.fileno(), 1 << 16))
                if not chunk:
                    break
            elif time.monotonic() > deadline:
                break
            while b"\n" in received:
                line, _, received = received.partition(b"\n")
                answer = read_json(line, "the supervisor of a command", surrogates=True).mapping()
                if "pid" not in answer:
                    return answer
                group = answer["pid"]
        if group:  # the supervisor is dead or hangs: its command must not continue
            _kill_group(group)
        raise WorkerError(f"the process that supervises `{task.argv[0]}` was killed; try again")

    def close(self) -> None:
        """End the running command and the supervisor."""
        process, self._supervisor = self._supervisor, None
        if process is None:
            return
        assert process.stdin and process.stdout
        process.stdin.close()  # the supervisor ends its command, then itself
        try:
            process.wait(GRACE_S + _OVERDUE_S)
        except BaseException as error:  # it hangs, or Ctrl-C was pressed: do not wait any longer
            for pid in [*supervisor.descendants(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            process.stdout.close()


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _send(stream: IO[bytes], line: bytes) -> None:
    view = memoryview(line + b"\n")
    with contextlib.suppress(BrokenPipeError):  # noticed when the answer is read
        while view:
            view = view[stream.write(view) or 0 :]


def _request(task: CommandRequest) -> bytes:
    return json.dumps(
        {
            "argv": list(task.argv),
            "cwd": str(task.directory),
            "env": dict(task.environment),
            "output": str(task.output),
            "timeout_s": task.timeout_s,
            "grace_s": task.grace_s,
            "cores": list(task.cores),
            "keep_bytes": task.keep_bytes,
        }
    ).encode()
