"""TVM beside other libraries: tuned in its own Python before it is timed here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import typer

from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.core.device import Device
    from skipjack.core.problem import Problem
    from skipjack.settings import Settings
    from skipjack.solvers.vendor.tvm import Metaschedule
    from skipjack.tuning import ConfigTimer


class TvmRival:
    """Has TVM tune a problem, once for a CPU and a number of trials; its kernels are kept.

    Open it before workers start: they are told by the environment where the kernels are.
    """

    def __init__(self, settings: Settings, device: Device, trials: int) -> None:
        """A Python that was named and has no TVM: `UsageError`."""
        from skipjack.solvers.vendor.tvm import find_python

        self._python = find_python(settings.tvm_python)
        self._folder = settings.user_dir / "tvm" / f"{device.arch}-{trials}"
        self._device, self._trials = device, trials
        self._exits = contextlib.ExitStack()
        self._process: Metaschedule | None = None

    def __enter__(self) -> TvmRival:
        self._exits.enter_context(_kernels_in(self._folder))
        return self

    def tuned(
        self, problem: Problem, timer: ConfigTimer, stopped: Callable[[], bool]
    ) -> tuple[str, str]:
        """What TVM was given, and why it has no kernel: one of them is empty."""
        from skipjack.solvers.vendor.tvm import HOW_TO_GET, TvmSolver

        if reason := TvmSolver().outside(problem, self._device):
            return "", reason
        if self._python is None:
            return "", HOW_TO_GET
        with timer.held_cores() as cores:
            process = self._process = self._process or self._started(self._python, cores[0])
            if process.known(problem) is None:
                typer.echo(f"TVM tunes {problem.key}: {numbered(self._trials, 'trial')}", err=True)
            record = process.tuned(problem, stopped)
        if isinstance(record, str):
            return "", record
        return ("", f"TVM failed on it: {record.error}") if record.error else (record.given, "")

    def _started(self, python: Path, core: int) -> Metaschedule:
        from skipjack.solvers.vendor.tvm import Metaschedule, TuningPlan

        plan = TuningPlan(python, self._folder, self._trials, core)
        return self._exits.enter_context(Metaschedule(plan))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exits.close()


@contextlib.contextmanager
def _kernels_in(folder: Path) -> Iterator[None]:
    """Where workers that start meanwhile find kernels of TVM."""
    from skipjack.settings import TVM_KERNELS

    before = TVM_KERNELS.text()
    os.environ[TVM_KERNELS.name] = str(folder)
    try:
        yield
    finally:
        del os.environ[TVM_KERNELS.name]
        if before:
            os.environ[TVM_KERNELS.name] = before
