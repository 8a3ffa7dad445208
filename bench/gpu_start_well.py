"""Do spaces start well on a GPU? The best of the first ten configs against the best of many.

Runs on a GPU machine with Triton: each problem is tuned with ``--budget`` trials, by each of its
racing solvers in turn as ever. The first ten are those that were asked first, before anything was
known. Prints one JSON; ``--seconds`` ends it early.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_summary import FORMAT

PROBLEMS = (
    "matmul:1536x1536x1536:f16",
    "matmul:16x4096x14336/tb=1:bf16",
    "conv2d:n32c128h28w28k128y3x3p1q1:f16:NHWC:fwd",
    "conv2d:n32c256h14w14k1024y1x1:f16:NCHW:bwd",
    "softmax:4096x1024:f16",
    "matmul:4000x3000x2000:f16",
    "conv2d:n32c64h56w56k64y3x3p1q1:f16:NHWC:wrw",
    "sum:8192x8192/axis=0:f16",
)
FIRST = 10

Record = dict[str, Any]


def search(key: str, budget: int, home: Path) -> Record:
    """One tuning, from nothing."""
    from skipjack.devices import device_for
    from skipjack.operations import parse
    from skipjack.settings import load_settings
    from skipjack.tuning import Tuner, make_budget
    from skipjack.tuning.study import TuneOptions

    problem = parse(key)
    settings = load_settings(user_dir=home)
    with Tuner(settings, device_for([problem.dtype], "gpu")) as tuner:
        result = tuner.tune(problem, TuneOptions(budget=make_budget(budget, None)))
    times = [trial.value for trial in result.trials if trial.ok and trial.value]
    first = [trial.value for trial in result.trials[:FIRST] if trial.ok and trial.value]
    best = min(times)
    return {
        "problem": key,
        "trials": len(result.trials),
        "failed": sum(trial.status.failed for trial in result.trials),
        "best_us": round(best / 1e3, 3),
        "first_over_best": round(best / times[0], 4),
        "ten_over_best": round(best / min(first), 4),
        "seconds": round(result.seconds, 1),
    }


def main() -> None:
    """All problems, as far as the time goes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=100.0)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    lines: list[Record] = []
    with tempfile.TemporaryDirectory() as home:
        for key in PROBLEMS:
            if time.monotonic() > end:
                break
            lines.append(search(key, options.budget, Path(home)))
            print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    record = {"format": FORMAT, "name": "gpu_start_well", "budget": options.budget}
    print(json.dumps({**record, "problems": lines}, indent=1))


if __name__ == "__main__":
    main()
