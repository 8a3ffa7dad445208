"""Tuned float32 matrix products of all sizes against NumPy, OpenBLAS, MKL and PyTorch.

Squares, layers of transformers and odd sizes, on one thread and on two: each tuned with nothing
known beforehand, then timed in this process beside the others, on the same arrays, in interleaved
blocks. Run as ``make bench-matmul``, shorter as ``make bench-matmul BENCH_ARGS=--quick``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import machine
import matmul_summary
import shapes
import sitting
from contenders import PAGE, Field, add_library, add_tuned, check, make_arrays
from roofline import Traffic, bound, ratio_record
from shapes import Shape
from skipjack.core import Array, Tensor
from skipjack.execute.cpu.kernels import Kernel
from skipjack.operations import bytes_moved, tensors
from stand import PEAK, Plan, Rounds
from tuned import tune

OURS = "ours"
RIVALS = ("numpy", "cblas", "mkl", "torch")

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    shapes: Mapping[str, tuple[Shape, ...]]
    """By kind."""
    seconds: float | None
    plan: Plan
    threads: int
    core: int | None
    json: Path | None

    @property
    def whole(self) -> bool:
        """Whether the result is fit to be kept."""
        return self.shapes == shapes.LARGE

    def tuning_seconds(self, shape: Shape) -> float:
        """More for what takes longer to run once."""
        if self.seconds:
            return self.seconds
        return 3.0 if shape.flops < 4e8 else 4.0 if shape.flops < 4e9 else 8.0

    def settings(self) -> Record:
        """For the result file."""
        return {
            **asdict(self.plan),
            "dtype": "f32",
            "threads": self.threads,
            "alignment_bytes": PAGE,
            "caches": "hot",
            "confidence": 0.95,
        }


class Bench:
    """The shapes in turn."""

    def __init__(self, options: Options, at: sitting.Sitting) -> None:
        self._options, self._at = options, at
        self._traffic = Traffic(at.stand)

    def shape(self, kind: str, shape: Shape) -> Record:
        """Tune, check everyone, time everyone."""
        stand, problem = self._at.stand, shape.problem
        seconds = self._options.tuning_seconds(shape)
        tuned = tune(self._at.tuner, problem, None, seconds)
        arrays = make_arrays(problem, PAGE)
        there = Field()
        add_tuned(there, OURS, tuned.result, stand, arrays)
        # PyTorch's products are MKL's.
        left_out = {"mkl", "torch"} if machine.not_held() else set()
        for name in RIVALS:
            if name in left_out:
                there.skipped[name] = "MKL cannot be held to instructions on this CPU"
            else:
                add_library(there, name, problem, stand, arrays)
        check(there, problem, arrays)
        moving, work = self._moving(shape, arrays)
        rounds = stand.time({**there.kernels, **moving}, self._options.plan)
        record = {
            "kind": kind,
            "shape": shape.name,
            "origin": shapes.LAYERS.get(shape, ""),
            "flops": shape.flops,
            "bytes": bytes_moved(problem),
            "tuning": {"seconds": seconds, **tuned.record()},
            "rounds": rounds.count,
            "quiet_rounds": rounds.quiet,
            "peak_gflops": round(rounds.peak_flops_per_s / 1e9, 2),
            "skipped": there.skipped,
            **_measured(rounds, shape, list(there.kernels), work),
        }
        stand.clear()
        return record

    def _moving(
        self, shape: Shape, arrays: dict[str, Array]
    ) -> tuple[dict[str, Kernel], dict[str, float]]:
        """Kernels that move the largest array, and how many times as much the product must."""
        *inputs, out = tensors(shape.problem)
        largest = max((*inputs, out), key=lambda tensor: tensor.size)
        reads: list[Tensor] = [] if largest == out else [largest]
        kernels = self._traffic.kernels(reads, out if largest == out else None, arrays)
        factor = bytes_moved(shape.problem) / (4 * largest.size)
        return kernels, dict.fromkeys(kernels, factor)


def _measured(
    rounds: Rounds, shape: Shape, names: Sequence[str], traffic: Mapping[str, float]
) -> Record:
    peak = {PEAK: shape.flops / rounds.peak_flops}
    contenders = {
        name: {
            "time_us": round(rounds.time_ns(name) / 1e3, 3),
            "gflops": round(shape.flops / rounds.time_ns(name), 2),
            "peak_share": round(
                shape.flops / rounds.time_ns(name) * 1e9 / rounds.peak_flops_per_s, 4
            ),
        }
        for name in names
    }
    if OURS not in names:
        return {"contenders": contenders, "ratios": {}, "roofline": None}
    ratios = {rival: ratio_record(rounds.ratio(rival, OURS)) for rival in RIVALS if rival in names}
    roofline = bound(rounds, OURS, traffic, peak, ratios).record()
    return {"contenders": contenders, "ratios": ratios, "roofline": roofline}


def parse_options(argv: Sequence[str] | None) -> tuple[Options, list[int]]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sitting.add_options(parser)
    parser.add_argument("--shapes", type=shapes.parse_shapes, help="M_N_K,M_N_K,... (default: 23)")
    parser.add_argument("--seconds", type=float, help="tuning budget (default: 3 to 8 by size)")
    args = parser.parse_args(argv)
    chosen = {"asked": args.shapes} if args.shapes else shapes.LARGE
    counts = sitting.thread_counts(args.threads)
    options = Options(
        shapes=shapes.QUICK_LARGE if args.quick and not args.shapes else chosen,
        seconds=args.seconds or (2.0 if args.quick else None),
        plan=Plan(rounds=30, samples=3, sample_ns=200_000, seconds=1.5 if args.quick else 2.5),
        threads=counts[0] if counts else 1,
        core=args.core,
        json=args.json,
    )
    return options, counts


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options, counts = parse_options(argv)
    if len(counts) != 1:
        return sitting.each_in_its_own_process(counts, sys.argv[1:] if argv is None else argv)
    machine.library_threads(options.threads)
    records = []
    with sitting.sit(options.threads, options.core) as at:
        bench = Bench(options, at)
        print(matmul_summary.heading())
        for kind, some in options.shapes.items():
            for shape in some:
                records.append(bench.shape(kind, shape))
                print(matmul_summary.line(records[-1]), flush=True)
    whole = matmul_summary.summarize(records)
    print("\n".join(matmul_summary.lines(whole)))
    result = machine.header("cpu_products", at.stand.device, at.stand.cores)
    result |= {"settings": options.settings(), "summary": whole, "shapes": records}
    path = sitting.result_path(options.json, "cpu_products", at, whole=options.whole)
    machine.write_result(path, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
