"""TVM's own Python environment, and a process in it that tunes one product after another."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from skipjack.core import Problem
from skipjack.errors import UsageError
from skipjack.processes import worker_environment
from skipjack.settings import TVM_PYTHON
from skipjack.solvers.vendor.tvm import metaschedule
from skipjack.solvers.vendor.tvm.solver import TvmRecord, read_record, shape_name

ENVIRONMENT = Path(sys.prefix) / "tvm"
"""The environment into which ``make tvm`` installs TVM, which is large and has many packages."""
INSTALL_HINT = (
    "TVM is not installed here: pip install 'skipjack[tvm]', or name the Python of an environment "
    f"that has it with --tvm-python or {TVM_PYTHON}"
)
_HAS_TVM = (
    "import importlib.util as u, sys; sys.exit(not (u.find_spec('tvm') and u.find_spec('tvm_ffi')))"
)
_LOOK_S, _POLL_S, _END_S = 60.0, 0.2, 5.0
LOG = "tvm.log"


def find_python(named: Path | None = None) -> Path | None:
    """The Python that has TVM: the one named, this one, or that of `ENVIRONMENT`; None without.

    `UsageError` if the named one does not have it.
    """
    if named is not None:
        if not _has_tvm(named):
            raise UsageError(
                f"{named} is not a Python with TVM; install it there: pip install 'skipjack[tvm]'"
            )
        return named
    if find_spec("tvm") and find_spec("tvm_ffi"):
        return Path(sys.executable)
    installed = ENVIRONMENT / "bin" / "python"
    return installed if installed.exists() and _has_tvm(installed) else None


def _has_tvm(python: Path) -> bool:
    """Whether both packages are installed; they are not imported, which takes seconds."""
    try:
        done = subprocess.run(
            [str(python), "-c", _HAS_TVM],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _environment() -> dict[str, str]:
    """Our environment without the variables for this Python's modules."""
    ours = worker_environment()
    kept = {name: ours[name] for name in ours if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**kept, "PYTHONSAFEPATH": "1"}


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """How products are tuned with TVM, and the folder of the kernels."""

    python: Path
    folder: Path
    trials: int
    core: int


class Metaschedule:
    """A process of TVM's Python that tunes products; it starts with the first untuned product.

        with Metaschedule(TuningPlan(python, folder, trials=32, core=1)) as tvm:
            record = tvm.tuned(problem)

    It measures on its core, which must be otherwise idle.
    """

    def __init__(self, plan: TuningPlan, script: Path = Path(metaschedule.__file__)) -> None:
        self._plan, self._script = plan, script
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Metaschedule:
        return self

    def known(self, problem: Problem) -> TvmRecord | None:
        """The record of an earlier tuning with the same number of trials and without an error."""
        record = read_record(self._plan.folder, problem)
        if record is None or record.error or record.meta["trials"] != self._plan.trials:
            return None
        return record

    def tuned(
        self, problem: Problem, stopped: Callable[[], bool] = lambda: False
    ) -> TvmRecord | str:
        """The record of a product, whose `error` may be set; or the reason why there is none.

        `stopped` is called regularly; if it returns True, the process is ended.
        """
        if record := self.known(problem):
            return record
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(f"{shape_name(problem)}\n")
            process.stdin.flush()
            answered = self._answered(process, stopped)
        except OSError:
            answered = False
        if not answered:
            reason = self._ended(stopped())
            self.close()
            return reason
        record = read_record(self._plan.folder, problem)
        return record or f"TVM wrote no record of {problem.key} in {self._plan.folder}"

    def _start(self) -> subprocess.Popen[str]:
        plan = self._plan
        plan.folder.mkdir(parents=True, exist_ok=True)
        words = ["--trials", plan.trials, "--core", plan.core, "--folder", plan.folder]
        with (plan.folder / LOG).open("w") as log:
            return subprocess.Popen(
                [str(plan.python), str(self._script), *map(str, words)],
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def _answered(self, process: subprocess.Popen[str], stopped: Callable[[], bool]) -> bool:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not selector.select(_POLL_S):
                if stopped():
                    return False
        return bool(process.stdout.readline())

    def _ended(self, stopped: bool) -> str:
        if stopped:
            return "interrupted while TVM tuned it"
        assert self._process is not None
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "TVM's process does not answer"
        path = self._plan.folder / LOG
        lines = path.read_text(errors="replace").strip().splitlines()
        reason = f": {lines[-1].strip()}" if lines else ""
        return f"TVM's process ended with exit code {code}{reason}"

    def close(self) -> None:
        """End the process and its child processes."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it may have ended already
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # for a shape that was not read
                    stream.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
