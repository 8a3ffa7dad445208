"""The steps of a plan one after the other, each a ``skipjack`` process of its own.

A crash, a hang or memory that is not given back then concerns one step, which has an exit code and
can be repeated by hand. That a step makes sense was checked before (`Command.parse`).
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

from skipjack.children import environment_for, python_command
from skipjack.errors import StepError
from skipjack.interrupt import Interrupt, watch_for_interrupt
from skipjack.plans.progress import Event, Progress
from skipjack.plans.validating import PlannedStep

PREFIX = tuple(python_command("skipjack"))
"""What stands before a step's words."""
INTERRUPTED = 130
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.1
_PATIENCE_S = 10.0
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
    """None passes the steps' standard output on."""


def run_steps(run: PlanRun, progress: Progress, observe: Observer) -> None:
    """Run the steps in order; `observe` gets each line of the progress as it is written.

    `StepError` with the step's own exit code if one fails, `KeyboardInterrupt` after Ctrl-C.
    """
    doing = "ending the step; running again goes on with it"
    with watch_for_interrupt(doing, terminate=True) as interrupt:
        for step in run.steps:
            _run_step(run, step, progress, observe, interrupt)
            if interrupt.requested:
                raise KeyboardInterrupt


def _run_step(
    run: PlanRun, step: PlannedStep, progress: Progress, observe: Observer, interrupt: Interrupt
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
            f"exit code {code}; mend it and run the plan again, which goes on with this step",
            code,
        )


def _start(run: PlanRun, step: PlannedStep) -> subprocess.Popen[bytes]:
    # A group of its own, so that Ctrl-C comes to it once, from here, and not from the terminal too.
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
    """What was said to the plan holds for its steps."""
    return logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """A step does not outlive its plan, or two of it would run when the plan is run again."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)

    def ask_the_kernel() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return ask_the_kernel


def _wait(child: subprocess.Popen[bytes], interrupt: Interrupt) -> int:
    """The exit code, as shells have it. Ctrl-C goes to the child: once to end, twice to end now."""
    told = False
    try:
        while True:
            if interrupt.requested and not told:
                told = True
                child.send_signal(signal.SIGINT)
            try:
                return _shell_code(child.wait(_POLL_S))
            except subprocess.TimeoutExpired:
                continue
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        try:
            return _shell_code(child.wait(_PATIENCE_S))
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
    """What somebody would type to run the step by hand."""
    return shlex.join(("skipjack", *step.argv))
