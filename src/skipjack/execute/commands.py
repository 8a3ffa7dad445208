"""Commands as processes: started, watched, ended as a whole, with what they printed in a file."""

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
from skipjack.execute import command_keeper as keeper
from skipjack.execute.process import describe_exit
from skipjack.reading import read_json
from skipjack.storage.failure import disk_full

GRACE_S = 2.0
"""Between the polite signal and the other one."""
KEEP_BYTES = 16 << 20
"""Of what a command prints; beyond that its beginning and its end are kept."""
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
class Task:
    """What is to be run, and where. `timeout_s` None: it may take for ever."""

    argv: Sequence[str]
    directory: Path
    output: Path
    """The file for what it prints."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    timeout_s: float | None = None
    grace_s: float = GRACE_S
    cores: Sequence[int] = ()
    """To run on these alone; empty: anywhere."""
    keep_bytes: int = KEEP_BYTES


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, with all its processes."""

    code: int
    """Exit code; a negative one is the signal that ended it."""
    cause: str
    """Why we ended it: ``timeout``, ``stop``, or empty if it ended by itself."""
    seconds: float
    peak_bytes: int
    """Most memory that it, or one process that it waited for, used; never less than some MB."""
    output: Path
    output_bytes: int = 0
    memory_kills: int = 0
    """Processes that the kernel ended meanwhile for want of memory, on the whole machine."""
    strays: int = 0
    """Processes that were still there when the command itself had ended; they were ended, too."""
    left: int = 0
    """Processes that could not be ended."""
    timeout_s: float | None = None
    """What it was allowed."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and says that all went well."""
        return self.code == 0 and not self.cause

    @property
    def stopped(self) -> bool:
        """Whether somebody asked to stop."""
        return self.cause == "stop"

    def tail(self, most_bytes: int = _TAIL_BYTES) -> str:
        """The end of what it printed."""
        with contextlib.suppress(OSError), self.output.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes))
            return file.read().decode(errors="replace")
        return ""

    def out_of_memory(self) -> bool:
        """Whether it failed for want of memory, as far as one can tell."""
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
        """The last line that it printed, without what only terminals understand."""
        lines = _FOR_TERMINALS.sub("", self.tail(4096)).splitlines()
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def says_out_of_memory(text: str) -> bool:
    """Whether a program's words say that memory ran out."""
    low = text.lower()
    return any(words in low for words in _OUT_OF_MEMORY)


class CommandRunner:
    """Runs commands, one after the other; for one thread at a time.

    A process of its own starts them and watches over them. It ends what they leave behind, and
    everything if this process is gone, however it went.
    """

    def __init__(self) -> None:
        self._keeper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have the keeper ready; `run` does it too, and waits for it."""
        if self._keeper is None or self._keeper.poll() is not None:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                # Ctrl-C is for us, who decide what happens to the command.
                start_new_session=True,
            )

    def run(self, task: Task, stop: Callable[[], bool] = lambda: False) -> Ended:
        """Run to the end. `stop` is looked at now and then: true ends the command."""
        self.start()
        assert self._keeper and self._keeper.stdin and self._keeper.stdout
        try:
            _send(self._keeper.stdin, _request(task))
            answer = self._answer(self._keeper.stdin, self._keeper.stdout, task, stop)
        except BaseException:
            self.close()
            raise
        if "failed" in answer:
            raise WorkerError(f"cannot start `{task.argv[0]}`: {answer['failed']}")
        if answer["left"]:
            self.close()  # it ends itself, too; the next command gets another one
        if answer.pop("output_error"):
            raise disk_full(task.output)
        return Ended(output=task.output, timeout_s=task.timeout_s, **answer)

    def _answer(
        self, to: IO[bytes], stream: IO[bytes], task: Task, stop: Callable[[], bool]
    ) -> dict[str, Any]:
        allowed = float("inf") if task.timeout_s is None else task.timeout_s
        deadline = time.monotonic() + allowed + task.grace_s + _OVERDUE_S
        told, received, group = False, b"", 0
        while True:
            if not told and stop():
                told, deadline = True, time.monotonic() + task.grace_s + _OVERDUE_S
                _send(to, keeper.STOP)
            if select.select([stream], [], [], _LOOK_EVERY_S)[0]:
                received += (chunk := os.read(stream.fileno(), 1 << 16))
                if not chunk:
                    break
            elif time.monotonic() > deadline:
                break
            while b"\n" in received:
                line, _, received = received.partition(b"\n")
                answer = read_json(line, "the keeper of a command", surrogates=True).mapping()
                if "pid" not in answer:
                    return answer
                group = answer["pid"]
        if group:  # the keeper is dead or hangs: what it watched over must not go on
            _kill_group(group)
        raise WorkerError(f"the process that watches over `{task.argv[0]}` was killed; try again")

    def close(self) -> None:
        """End what runs, and the keeper."""
        process, self._keeper = self._keeper, None
        if process is None:
            return
        assert process.stdin and process.stdout
        process.stdin.close()  # the keeper ends its command, then itself
        try:
            process.wait(GRACE_S + _OVERDUE_S)
        except BaseException as error:  # it hangs, or Ctrl-C came: no more waiting
            for pid in [*keeper.descendants(process.pid), process.pid]:
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
    with contextlib.suppress(BrokenPipeError):  # whoever waits for the answer will see
        while view:
            view = view[stream.write(view) or 0 :]


def _request(task: Task) -> bytes:
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
