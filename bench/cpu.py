"""Tuned float32 matrix products on one core against libraries and TVM MetaSchedule.

For each shape: tune with nothing known beforehand, then time everyone in this process on the same
arrays, in interleaved blocks. Run as ``make bench-cpu``, shorter as
``make bench-cpu BENCH_ARGS=--quick``; ``--tvm`` installs TVM and tunes with it first (hours).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import machine
import metaschedule
import screen
import shapes
import sitting
import summary
from contenders import line_up, recipe
from skipjack.tuning import Tuner
from stand import Plan, Stand
from tuned import tune


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    shapes: tuple[shapes.Shape, ...]
    solvers: tuple[str, ...]
    seconds: float
    plan: Plan
    cold: bool
    core: int | None
    tvm: bool
    tvm_cache: Path
    json: Path | None

    @property
    def whole(self) -> bool:
        """Whether the result is fit to be kept: every shape."""
        return self.shapes == shapes.ALL

    def settings(self) -> dict[str, Any]:
        """For the result file."""
        return {
            "solvers": list(self.solvers),
            "seconds": self.seconds,
            "cold": self.cold,
            **asdict(self.plan),
            "dtype": "f32",
            "threads": 1,
            "alignment_bytes": 64,
            "caches": "hot",
            "confidence": 0.95,
        }


def parse_options(argv: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 shapes, 1 s of tuning, 30 rounds")
    parser.add_argument("--shapes", type=shapes.parse_shapes, help="M_N_K,M_N_K,... (default: 25)")
    parser.add_argument("--solvers", default="nest,microkernel", help="what to tune; first leads")
    parser.add_argument("--seconds", type=float, help="tuning budget for each shape (default 2)")
    parser.add_argument("--rounds", type=int, help="rounds of timing, at least 30 (default 60)")
    parser.add_argument("--core", type=int, help="the core to time on (default: the last)")
    parser.add_argument(
        "--cold",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="tune each shape from nothing; --no-cold lets shapes tuned before seed the next",
    )
    parser.add_argument("--tvm", action="store_true", help="tune missing shapes with TVM first")
    parser.add_argument("--tvm-cache", type=Path, default=metaschedule.CACHE / "tvm")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    return Options(
        shapes=args.shapes or (shapes.QUICK if args.quick else shapes.ALL),
        solvers=tuple(args.solvers.split(",")),
        seconds=args.seconds or (1.0 if args.quick else 2.0),
        plan=Plan(rounds=max(30, args.rounds or (30 if args.quick else 60))),
        cold=args.cold,
        core=args.core,
        tvm=args.tvm,
        tvm_cache=args.tvm_cache.resolve(),
        json=args.json,
    )


def measure(options: Options, tuner: Tuner, stand: Stand) -> list[summary.Record]:
    """Every shape in turn, printed as it is done."""
    leader = options.solvers[0]
    print(screen.heading(leader))
    records = []
    for shape in options.shapes:
        tuned = {
            solver: tune(tuner, shape.problem, solver, options.seconds, options.cold)
            for solver in options.solvers
        }
        results = {name: one.result for name, one in tuned.items()}
        there = line_up(shape, results, stand, options.tvm_cache)
        rounds = stand.time(there.kernels, options.plan)
        costs = {name: one.record() for name, one in tuned.items()}
        record = summary.shape_record(shape, costs, there, rounds, list(options.solvers))
        records.append(record)
        print(screen.shape_line(record, leader), flush=True)
        del there  # its kernels must not outlive their code
        stand.clear()
    return records


def report(options: Options, stand: Stand, records: list[summary.Record]) -> None:
    """Print the summary and write the result file."""
    whole = summary.summarize_shapes(records, options.solvers)
    losing = {solver: summary.losses(records, solver) for solver in options.solvers}
    for solver in options.solvers:
        print("\n".join(screen.summary_lines(whole, losing[solver], solver)))
    skipped = _skipped(records)
    for name, reasons in skipped.items():
        print(f"{name} is missing: {'; '.join(reasons)}")
    doubtful = summary.handicapped(records)
    if doubtful:
        print(f"do not trust the ratios to TVM at: {', '.join(doubtful)}")
    if not options.cold:
        print("shapes tuned before seeded the later ones (--no-cold)")
    result = machine.header("cpu_matmul", stand.device, stand.cores)
    tvm = {record["tvm"]["tvm"] for record in records if record["tvm"]}
    result["versions"]["tvm"] = ", ".join(sorted(tvm)) or None
    result |= {
        "settings": options.settings() | {"recipe": str(recipe(stand)["schedule"])},
        "notes": [metaschedule.NOTE] if tvm else [],
        "summary": whole,
        "losses": losing,
        "skipped": skipped,
        "tvm_slower_than_its_own_account": doubtful,
        "shapes": records,
    }
    machine.write_result(options.json or _default_path(options, stand), result)


def _skipped(records: list[summary.Record]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for record in records:
        for name, reason in record["skipped"].items():
            reasons = found.setdefault(name, [])
            if reason not in reasons:
                reasons.append(reason)
    return found


def _default_path(options: Options, stand: Stand) -> Path:
    """A part of the shapes never replaces the result of all of them."""
    name = f"cpu_matmul_{stand.device.arch}.json"
    return machine.RESULTS / name if options.whole else metaschedule.CACHE / name


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse_options(argv)
    machine.library_threads(1)
    with sitting.sit(1, options.core) as at:
        if options.tvm:
            metaschedule.tune_missing(options.shapes, options.tvm_cache, at.stand.cores[0])
        records = measure(options, at.tuner, at.stand)
    report(options, at.stand, records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
