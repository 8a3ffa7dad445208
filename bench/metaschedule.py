"""TVM MetaSchedule as a contender: its environment, and its tuning before anything is timed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from shapes import Shape
from skipjack.solvers.vendor.tvm import (
    ENVIRONMENT,
    KERNELS_VARIABLE,
    Metaschedule,
    TuningPlan,
    find_python,
)

TRIALS = 64
NOTE = (
    "Each round of up to 64 trials of TVM MetaSchedule starts a build worker that imports TVM, "
    "about 14 s, which is part of its tuning seconds. Its cost model guesses at random below 100 "
    "samples, so the search was not guided by it. Its kernels were called at the best of four "
    "stack alignments, since some of them depend on it."
)

_HERE = Path(__file__).resolve().parent
CACHE = _HERE / ".cache"


def tune_missing(shapes: Sequence[Shape], folder: Path, core: int, trials: int = TRIALS) -> None:
    """Have MetaSchedule tune the shapes that the folder does not hold; takes a minute a shape."""
    plan = TuningPlan(find_python() or _environment(), folder, trials, core)
    with Metaschedule(plan) as tvm:
        for number, shape in enumerate(shapes, 1):
            found = tvm.tuned(shape.problem)
            if isinstance(found, str) or found.error:
                said = found if isinstance(found, str) else found.error
            else:
                meta = found.meta
                said = f"{meta['gflops']:.1f} GFLOP/s, tuned in {meta['tuning_seconds']:.0f} s"
            print(f"TVM [{number}/{len(shapes)}] {shape.name}: {said}", flush=True)


def _environment() -> Path:
    """TVM's own Python, made now: what ``make tvm`` makes."""
    print("installing TVM into an environment of its own", flush=True)
    python = ENVIRONMENT / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    words = ["install", "--quiet", "-e", f"{_HERE.parent}[tvm]"]
    subprocess.run([str(python), "-m", "pip", *words], check=True)
    return python


def use_kernels(folder: Path) -> None:
    """Where the solver ``tvm`` finds its kernels from now on."""
    os.environ[KERNELS_VARIABLE] = str(folder)
