"""Tuned vector operations against NumPy, PyTorch and a roofline, on one thread and on two.

Every operation at footprints from the first cache to memory: tuned with nothing known beforehand,
then timed in this process beside the others, on the same arrays, in interleaved blocks. Run as
``make bench-vector``, shorter as ``make bench-vector BENCH_ARGS=--quick``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import machine
import sitting
import vector_cases
import vector_summary
from contenders import PAGE, Field, add_library, add_tuned, check, check_alike, make_arrays
from roofline import ARITHMETIC, Traffic, bound, ratio_record, shared_out
from skipjack.core import Problem, Promising
from skipjack.execute.cpu.kernels import Kernel, PythonKernel
from skipjack.operations import bytes_moved, get, outputs
from skipjack.solvers import solver_for
from stand import Plan, Rounds
from torch_calls import CALLS, kind_of
from tuned import Tuned, tune
from vector_cases import Operation, elements, whole

OURS, CALLED = "ours", "ours_from_python"
RIVALS = ("numpy", "torch")
_LARGE_BYTES = 32 << 20
_LARGE_TIMES = 3.5
_PROBED = 16
"""Configs that are tried for the arithmetic peak."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    operations: tuple[Operation, ...]
    footprints: tuple[int, ...]
    seconds: float
    plan: Plan
    stagger: int
    threads: int
    core: int | None
    json: Path | None
    update: bool

    @property
    def whole(self) -> bool:
        """Whether the result is fit to be kept."""
        everything = (vector_cases.ALL, vector_cases.FOOTPRINTS)
        complete = self.update or (self.operations, self.footprints) == everything
        return complete and not self.stagger

    def tuning_seconds(self, problem: Problem) -> float:
        """Large arrays take seconds to fill and to check."""
        return self.seconds * (_LARGE_TIMES if bytes_moved(problem) > _LARGE_BYTES else 1)

    def settings(self) -> Record:
        """For the result file."""
        return {
            "seconds": self.seconds,
            "large_seconds": self.seconds * _LARGE_TIMES,
            **asdict(self.plan),
            "dtype": "f32",
            "threads": self.threads,
            "alignment_bytes": PAGE,
            "stagger_bytes": self.stagger,
            "caches": "hot",
            "confidence": 0.95,
        }


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A kernel of the operation on one thread, at a size that the first cache holds."""

    problem: Problem
    kernel: Kernel


class Bench:
    """The operations in turn."""

    def __init__(self, options: Options, at: sitting.Sitting) -> None:
        self._options, self._at = options, at
        self._traffic = Traffic(at.stand)

    def operation(self, operation: Operation) -> list[Record]:
        """All sizes of one operation, the smallest first."""
        small = (operation.probe, operation.problem(min(vector_cases.FOOTPRINTS)))
        records = []
        for footprint in self._options.footprints:
            problem = operation.problem(footprint)
            tuned = self._tune(problem, self._options.tuning_seconds(problem))
            probes = [self._probe(each) for each in small]
            records.append(self._case(operation, footprint, problem, tuned, probes))
            print(vector_summary.line(records[-1]), flush=True)
        return records

    def _tune(self, problem: Problem, seconds: float) -> Tuned:
        return tune(self._at.tuner, problem, None, seconds)

    def _probe(self, problem: Problem) -> Arithmetic:
        """The fastest of the first configs for one thread."""
        stand, device = self._at.stand, replace(self._at.stand.device, units=1)
        solver = solver_for(problem, device)
        space = solver.space(problem, device)
        assert isinstance(space, Promising)
        arrays, kernels = make_arrays(problem, PAGE), []
        for config in space.promising(_PROBED):
            blob = solver.compile(solver.lower(problem, device, config))
            slots = solver.slots(problem, device, config)
            kernels.append(stand.load(blob.data, blob.symbol, slots, arrays))
        return Arithmetic(problem, min(kernels, key=lambda kernel: kernel.sample(50, 9).min()))

    def _case(
        self,
        operation: Operation,
        footprint: int,
        problem: Problem,
        tuned: Tuned,
        probes: Sequence[Arithmetic],
    ) -> Record:
        stand = self._at.stand
        arrays = make_arrays(problem, PAGE, self._options.stagger)
        there = Field()
        add_tuned(there, OURS, tuned.result, stand, arrays)
        if OURS in there.kernels:
            inputs = [arrays[tensor.name] for tensor in get(problem.operation).inputs(problem)]
            written = {tensor.name: arrays[tensor.name] for tensor in outputs(problem)}
            bound_kernel = tuned.result.kernel().bind(*inputs, out=written)
            there.kernels[CALLED] = PythonKernel(bound_kernel)
        for name in RIVALS:
            add_library(there, name, problem, stand, arrays)
        if bytes_moved(problem) > _LARGE_BYTES:
            check_alike(there, problem, arrays, OURS if OURS in there.kernels else "numpy")
        else:
            check(there, problem, arrays)
        moving = self._traffic.kernels(*whole(problem), arrays)
        work = {}
        for number, probe in enumerate(probes):
            there.kernels[f"{ARITHMETIC} {number}"] = probe.kernel
            work[f"{ARITHMETIC} {number}"] = elements(problem) / elements(probe.problem)
        rounds = stand.time({**there.kernels, **moving}, self._options.plan)
        work = {name: shared_out(rounds, name, n, self._at.threads) for name, n in work.items()}
        record = {
            "operation": operation.name,
            "footprint": footprint,
            "problem": problem.key,
            "bytes": bytes_moved(problem),
            "date": machine.now(),
            "tuning": tuned.record(),
            "torch_call": CALLS.get(kind_of(problem), ""),
            "rounds": rounds.count,
            "quiet_rounds": rounds.quiet,
            "skipped": there.skipped,
            **_measured(rounds, [*there.kernels, *moving], dict.fromkeys(moving, 1.0), work),
        }
        stand.clear()
        return record


def _measured(
    rounds: Rounds, names: Sequence[str], moving: dict[str, float], work: dict[str, float]
) -> Record:
    found: Record = {
        "times_us": {name: round(rounds.time_ns(name) / 1e3, 4) for name in names},
        "ratios": {},
        "called_ratios": {},
        "roofline": None,
    }
    if OURS not in names:
        return found
    for rival in RIVALS:
        if rival in names:
            found["ratios"][rival] = ratio_record(rounds.ratio(rival, OURS))
            found["called_ratios"][rival] = ratio_record(rounds.ratio(rival, CALLED))
    found["roofline"] = bound(rounds, OURS, moving, work, found["ratios"]).record()
    return found


def parse_options(argv: Sequence[str] | None) -> tuple[Options, list[int]]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sitting.add_options(parser)
    parser.add_argument("--operations", help="names, joined by commas (default: all)")
    parser.add_argument("--footprints", help="bytes, joined by commas")
    parser.add_argument("--seconds", type=float, help="tuning budget for each problem (default 2)")
    parser.add_argument("--stagger", type=int, default=0, help="bytes between arrays' page offsets")
    parser.add_argument(
        "--update", action="store_true", help="put these cases into the result that is there"
    )
    args = parser.parse_args(argv)
    operations = vector_cases.QUICK if args.quick else vector_cases.ALL
    if args.operations:
        names = args.operations.split(",")
        operations = tuple(each for each in vector_cases.ALL if each.name in names)
    sizes: tuple[int, ...]
    sizes = vector_cases.QUICK_FOOTPRINTS if args.quick else vector_cases.FOOTPRINTS
    if args.footprints:
        sizes = tuple(int(part) for part in args.footprints.split(","))
    counts = sitting.thread_counts(args.threads)
    options = Options(
        operations=operations,
        footprints=sizes,
        seconds=args.seconds or (1.0 if args.quick else 2.0),
        plan=Plan(rounds=24, samples=3, sample_ns=100_000, seconds=1.5),
        stagger=args.stagger,
        threads=counts[0] if counts else 1,
        core=args.core,
        json=args.json,
        update=args.update,
    )
    return options, counts


def merged(path: Path, records: Sequence[Record]) -> list[Record]:
    """The cases of a result with some measured anew, each in its place."""
    new = {(record["operation"], record["footprint"]): record for record in records}
    old: list[Record] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [new.get((record["operation"], record["footprint"]), record) for record in old]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options, counts = parse_options(argv)
    if len(counts) != 1:
        return sitting.each_in_its_own_process(counts, sys.argv[1:] if argv is None else argv)
    machine.library_threads(options.threads)
    with sitting.sit(options.threads, options.core) as at:
        bench = Bench(options, at)
        print(vector_summary.heading())
        records = [record for each in options.operations for record in bench.operation(each)]
    path = sitting.result_path(options.json, "cpu_vector", at, whole=options.whole)
    records = merged(path, records) if options.update else records
    whole_ = vector_summary.summarize(records, at.stand.device)
    print("\n".join(vector_summary.lines(whole_)))
    result = machine.header("cpu_vector", at.stand.device, at.stand.cores)
    result |= {"settings": options.settings(), "summary": whole_, "cases": records}
    machine.write_result(path, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
