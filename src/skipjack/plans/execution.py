"""The steps of a plan one after the other, each a ``skipjack`` process of its own.

A crash, a hang or a memory leak then affects one step only, which has an exit code and can be
repeated by hand. The arguments of steps are checked before (`Command.parse`).
"""

from __future__ import annotations

import ctypes
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from skipjack.errors import StepError
from skipjack.interrupt import Interrupt, deferred_interrupt
from skipjack.plans.progress import Event, PlanProgress
from skipjack.plans.validation import PlannedStep
from skipjack.processes import environment_for, python_command

PREFIX = tuple(python_command("skipjack"))
"""The command line before a step's arguments."""
INTERRUPTED = 130
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.1
_GRACE_S = 10.0
_LOG_LEVEL = "SKIPJACK_LOG_LEVEL"

Observer = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class PlanRun:
    """What to run, where, and where its output goes."""

    name: str
    steps: tuple[PlannedStep, ...]
    """Those that are left."""
    directory: Path
    prefix: Sequence[str] = PREFIX
    output: IO[str] | None = None
    """None for the standard output of this process."""


def run_steps(run: PlanRun, progress: PlanProgress, observe: Observer) -> None:
    """Run the steps in order; `observe` gets each line of the progress as it is written.

    `StepError` with the step's exit code if a step fails, `KeyboardInterrupt` after Ctrl-C.
    """
    doing = "stopping the step; running again continues with it"
    with deferred_interrupt(doing, terminate=True) as interrupt:
        for step in run.steps:
            _run_step(run, step, progress, observe, interrupt)
            if interrupt.requested:
                raise KeyboardInterrupt


def _run_step(
    run: PlanRun, step: PlannedStep, progress: PlanProgress, observe: Observer, interrupt: Interrupt
) -> None:
    observe(progress.step(Event.BEGUN, step))
    began = time.monotonic()
    code = _wait(_start(run, step), interrupt)
    event = Event.FINISHED if code == 0 else Event.FAILED
    if interrupt.requested and code != 0:
        event = Event.INTERRUPTED
    seconds = round(time.monotonic() - began, 3)
    observe(progress.step(event, step, exit_code=code, seconds=seconds))
    if event is Event.FAILED:
        raise StepError(
            f"step {step.number} of plan {run.name}, {step.title} (line {step.line}), failed with "
            f"exit code {code}; fix it and run the plan again, which continues with this step",
            code,
        )


def _start(run: PlanRun, step: PlannedStep) -> subprocess.Popen[bytes]:
    # In its own process group, so that it gets Ctrl-C once, from here and not from the terminal.
    return subprocess.Popen(
        [*run.prefix, *step.argv],
        cwd=run.directory,
        env={**environment_for(run.directory, os.environ), _LOG_LEVEL: _log_level()},
        stdin=subprocess.DEVNULL,
        stdout=run.output,
        process_group=0,
        preexec_fn=_die_with_parent(os.getpid()),
    )


def _log_level() -> str:
    """The log level of this process, which its steps use, too."""
    return logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """Kill a step with its plan, so that it does not run twice when the plan is run again."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)

    def ask_the_kernel() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return ask_the_kernel


def _wait(child: subprocess.Popen[bytes], interrupt: Interrupt) -> int:
    """The exit code, as in shells. Ctrl-C is passed on: once to finish, twice to stop at once."""
    interrupted = False
    try:
        while True:
            if interrupt.requested and not interrupted:
                interrupted = True
                child.send_signal(signal.SIGINT)
            try:
                return _shell_code(child.wait(_POLL_S))
            except subprocess.TimeoutExpired:
                continue
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        try:
            return _shell_code(child.wait(_GRACE_S))
        except subprocess.TimeoutExpired:
            return INTERRUPTED
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _shell_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def command_line(step: PlannedStep) -> str:
    """The command line that runs the step by hand."""
    return shlex.join(("skipjack", *step.argv))
