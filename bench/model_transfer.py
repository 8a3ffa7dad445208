"""What a search on a new class of devices gains from the trials of another class.

::

    python bench/model_transfer.py --new USER_DIR --other USER_DIR

Both user directories have ledgers of the same problems (`bench/learn_data.py table` makes them).
The configs of a problem and solver that were timed on the new class are a recorded space; the
search on it knows nothing, or the trials of that problem on the other class. A searcher without a
model then starts with the best five of those. The figure is log(best so far / best of the
recording) after 1, 4, 8 and 16 evaluations, and the mean over 16. The result is
``bench/results/model_transfer.json``.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from machine import FORMAT, RESULTS, now, versions, write_result
from skipjack.core import Trial
from skipjack.errors import SkipjackError
from skipjack.learn.replay import RandomBaseline, RecordedSpace, log_ratios, run_replay
from skipjack.learn.trials import MeasuredConfig, read_trials

ROWS = {
    "model": ("model", False),
    "model with prior": ("model", True),
    "genetic": ("genetic", False),
    "genetic with prior": ("genetic", True),
}
AFTER = (1, 4, 8, 16)
_FEWEST = 32
"""Recordings with fewer configs are left out."""

Case = tuple[str, str]
"""A problem and a solver."""


def recordings(place: Path) -> tuple[str, dict[Case, list[Trial]]]:
    """The name of the device of a ledger, and the trials of each problem and solver."""
    found: defaultdict[Case, list[Trial]] = defaultdict(list)
    names = set()
    for one in read_trials([place]):
        names.add(f"{one.device.name} ({8 * one.device.vector_bytes} bits)")
        for measured in one.measured:
            found[one.problem.key, measured.solver].append(_trial(measured))
    return ", ".join(sorted(names)), found


def _trial(measured: MeasuredConfig) -> Trial:
    ok = math.isfinite(measured.time_ns)
    value = measured.time_ns if ok else None
    return Trial(measured.config, measured.status, value, reason=measured.reason)


def compared(case: Case, trials: list[Trial], prior: list[Trial], seeds: int) -> dict[str, Any]:
    """The figures of one recording."""
    space = RecordedSpace(trials, " ".join(case))
    baseline = RandomBaseline(space, max(AFTER))
    found: dict[str, Any] = {"problem": case[0], "solver": case[1], "configs": space.count()}
    for name, (searcher, uses) in ROWS.items():
        given = [prior] if uses else []
        runs = [run_replay(space, searcher, max(AFTER), seed, prior=given) for seed in range(seeds)]
        logs = np.array([log_ratios(run.curve, baseline) for run in runs]).mean(axis=0)
        found[name] = [round(float(logs[at - 1]), 5) for at in AFTER]
        found[f"{name}, mean"] = round(float(logs.mean()), 5)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--new", type=Path, required=True, help="user directory of the new class")
    parser.add_argument("--other", type=Path, required=True, help="that of the known class")
    parser.add_argument("--solvers", default="packed,implicit_gemm,gemm1x1,im2col")
    parser.add_argument("--most", type=int, default=60, help="recordings, spread over all")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path, default=RESULTS / "model_transfer.json")
    args = parser.parse_args(argv)
    (device, new), (other_device, other) = recordings(args.new), recordings(args.other)
    solvers = args.solvers.split(",")
    cases = [
        case
        for case in sorted(new)
        if case[1] in solvers and case in other and len(new[case]) >= _FEWEST
    ]
    records = []
    for case in cases[:: max(1, len(cases) // args.most)]:
        try:
            records.append(compared(case, new[case], other[case], args.seeds))
        except SkipjackError as error:
            print(f"{' '.join(case)}: {error}")
    if not records:
        raise SystemExit("both ledgers have no recording in common")
    summary = {
        name: {
            "after": {
                str(at): round(float(np.mean([one[name][place] for one in records])), 5)
                for place, at in enumerate(AFTER)
            },
            "mean": round(float(np.mean([one[f"{name}, mean"] for one in records])), 5),
        }
        for name in ROWS
    }
    print(f"{device} from {other_device}: {len(records)} recordings")
    for name, figures in summary.items():
        print(f"{name:20} {figures}")
    write_result(
        args.json,
        {
            "format": FORMAT,
            "name": "model_transfer",
            "date": now(),
            "device": device,
            "prior": other_device,
            "versions": versions(),
            "seeds": args.seeds,
            "after": list(AFTER),
            "summary": summary,
            "cases": records,
        },
    )


if __name__ == "__main__":
    main()
