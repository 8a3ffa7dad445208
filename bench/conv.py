"""Convolutions of ResNet-50 and MobileNet v1: what a find chooses, and ours alone, against PyTorch.

Every layer with batches of 1 and 16, in three directions and two layouts, on one thread and on two.
Solvers are ranked with nothing known beforehand; then the best of ours and PyTorch (oneDNN) are
timed anew in this process, on the same arrays, in interleaved blocks. PyTorch gets NCHW tensors,
for which it converts layouts inside of its calls, or channels_last ones, for which it need not.

Run as ``make bench-conv``, shorter as ``make bench-conv BENCH_ARGS=--quick``. A run of all cases
that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import conv_cases
import conv_summary
import machine
import sitting
from contenders import PAGE, Field, add_library, check_alike, make_arrays
from conv_cases import Case
from conv_options import Options, parse_options, sharded
from conv_summary import CHOICE, LIBRARY, OURS, Record
from found import Found, find
from journal import Journal, code_digest
from metaschedule import CACHE
from roofline import ratio_record
from skipjack.core import Array
from skipjack.errors import SkipjackError
from skipjack.execute.cpu.kernels import PythonKernel
from skipjack.native import cpu
from skipjack.operations import get, parse
from stand import Plan, Rounds

NAME = "cpu_conv"
_FIRST_FIND = "conv2d:n1c16h8w8k16y1x1"
_ROUNDS = 8
"""At least, however slow one of them is."""
_SAME = {"ratio": 1.0, "low": 1.0, "high": 1.0, "pairs": 0}
"""Where a find chose the library, its call is the very call that it is compared with."""


class Bench:
    """The cases in turn."""

    def __init__(self, options: Options, at: sitting.Sitting) -> None:
        self._options, self._at = options, at
        self._code = code_digest()
        find(at.tuner, parse(_FIRST_FIND, "f32"), 1.0)  # loads PyTorch in the worker

    def case(self, case: Case) -> Record:
        """Find, check everyone, time everyone."""
        stand, problem = self._at.stand, case.problem
        started = time.monotonic()
        found = find(self._at.tuner, problem, self._options.find_seconds, self._options.cold)
        arrays = make_arrays(problem, PAGE)
        there = Field()
        _add_ours(there, found, arrays)
        add_library(there, LIBRARY, problem, stand, arrays)
        if there.kernels:
            check_alike(there, problem, arrays, LIBRARY if LIBRARY in there.kernels else OURS)
        rounds = stand.time(there.kernels, _patient(self._options.plan, there))
        return {
            "case": case.name,
            "network": case.layer.network,
            "kind": case.layer.kind,
            "layer": case.layer.name,
            "batch": case.batch,
            "direction": case.direction,
            "layout": case.layout,
            "threads": self._at.threads,
            "problem": problem.key,
            "flops": get(problem.operation).flops(problem),
            "date": machine.now(),
            "code": self._code,
            "find": found.record(),
            "rounds": rounds.count,
            "quiet_rounds": rounds.quiet,
            "peak_gflops": round(rounds.peak_flops_per_s / 1e9, 2),
            "skipped": there.skipped,
            "case_seconds": round(time.monotonic() - started, 2),
            **_measured(rounds, found, list(there.kernels)),
        }


def _patient(plan: Plan, there: Field) -> Plan:
    """Time enough for the slowest to run in every round."""
    once_s = [float(kernel.sample(1, 1).min()) * 1e-9 for kernel in there.kernels.values()]
    return replace(plan, seconds=max([plan.seconds, *(_ROUNDS * s for s in once_s)]))


def _add_ours(there: Field, found: Found, arrays: dict[str, Array]) -> None:
    """Called from Python, as PyTorch is."""
    perf = found.result.perf
    if perf is None or perf.code is None:
        there.skipped[OURS] = perf.reason if perf else "no solver of ours can do it"
        return
    inputs = [arrays[tensor.name] for tensor in get(perf.problem.operation).inputs(perf.problem)]
    there.kernels[OURS] = PythonKernel(perf.kernel().bind(*inputs, out=arrays["out"]))


def _measured(rounds: Rounds, found: Found, names: Sequence[str]) -> Record:
    words = {OURS: OURS, LIBRARY: "torch"}
    times = {words[name]: round(rounds.time_ns(name) / 1e3, 3) for name in names}
    ratios: Record = {}
    if {OURS, LIBRARY} <= set(names):
        ratios[OURS] = ratio_record(rounds.ratio(LIBRARY, OURS))
    if LIBRARY in names and found.choice == LIBRARY:
        ratios[CHOICE] = _SAME
    elif OURS in ratios and found.chose_ours:
        ratios[CHOICE] = ratios[OURS]
    return {"times_us": times, "ratios": ratios}


def open_journal(options: Options, at: sitting.Sitting) -> Journal:
    """Of the run of all cases that may have been interrupted, or a new one for some."""
    circumstances = {"settings": options.settings(), "versions": machine.versions()}
    path = CACHE / f"{NAME}_{at.stand.device.arch}_{at.threads}{'_part' * options.part}.jsonl"
    return Journal(path, circumstances, again=options.again or options.part)


def measure(options: Options, at: sitting.Sitting, journal: Journal) -> bool:
    """The cases that are not done yet; whether all went well.

    A case that fails is left out, and tried again by the next run.
    """
    mine = sharded(options.cases, *options.shard)
    left = [case for case in mine if case.name not in journal.records]
    if len(left) < len(mine):
        print(f"{len(mine) - len(left)} cases are done already (--again starts over)")
    bench = Bench(options, at)
    print(conv_summary.heading())
    well = True
    for case in left:
        try:
            journal.add(bench.case(case))
        except SkipjackError as error:
            well = False
            print(f"{case.name:<38} failed: {error}", flush=True)
        else:
            print(conv_summary.line(journal.records[case.name]), flush=True)
    return well


def report(options: Options, at: sitting.Sitting, records: list[Record]) -> None:
    """Print the summary and write the result file."""
    whole = options.update or len(records) == len(conv_cases.ALL)
    path = sitting.result_path(options.json, NAME, at, whole=whole)
    if options.update:
        new = {record["case"]: record for record in records}
        old: list[Record] = json.loads(path.read_text(encoding="utf-8"))["cases"]
        records = [new.get(record["case"], record) for record in old]
    summary = conv_summary.summarize(records)
    print("\n".join(conv_summary.lines(summary)))
    result = machine.header(NAME, at.stand.device, at.stand.cores)
    result |= {"settings": options.settings(), "summary": summary, "cases": records}
    machine.write_result(path, result)


def report_together(options: Options, counts: Sequence[int]) -> None:
    """Over all numbers of threads, from the files that their processes wrote."""
    whole = options.update or options.cases == conv_cases.ALL
    label = machine.label(cpu.detect())
    paths = [sitting.result_file(NAME, label, count, whole=whole) for count in counts]
    complete = options.json is None and options.shard == (1, 1)
    if complete and all(path.is_file() for path in paths):
        results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        records = [record for result in results for record in result["cases"]]
        print("\nall numbers of threads together")
        print("\n".join(conv_summary.lines(conv_summary.summarize(records))))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options, counts = parse_options(argv, (__doc__ or "").splitlines()[0])
    if len(counts) != 1:
        code = sitting.each_in_its_own_process(counts, sys.argv[1:] if argv is None else argv)
        report_together(options, counts)
        return code
    machine.library_threads(options.threads)
    with sitting.sit(options.threads, options.core) as at:
        journal = open_journal(options, at)
        well = measure(options, at, journal)
    done = [journal.records[case.name] for case in options.cases if case.name in journal.records]
    report(options, at, done)
    if options.part or len(done) == len(options.cases):
        journal.remove()
    return 0 if well else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; a run of all cases goes on here when it is started again")
