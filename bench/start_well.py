"""How good the first 16 configs of each space are, beside the best of a search with 500 trials.

A space names promising configs before anything was measured. The fastest of the first ones and
the fastest that a search finds are timed side by side, in interleaved blocks: the ratio of their
speeds says how well the space starts. Run as ``python bench/start_well.py``, shorter with
``--quick``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from typing import Any

import machine
import sitting
from contenders import PAGE, make_arrays
from roofline import ratio_record
from skipjack.core import Budget, Config, Problem, Promising
from skipjack.execute.cpu.kernels import Kernel
from skipjack.operations import parse
from skipjack.solvers import solver_for
from skipjack.tuning.study import TuneOptions
from stand import Plan, Stand
from tuned import blank_memory

FIRST = 16
GOAL = 0.9
"""Share of the search's speed that the first configs should reach."""
_LEADERS = 3
"""So many of each side meet in the final, because a screening is not exact."""

Record = dict[str, Any]
Case = tuple[str, str]
"""Problem and solver."""


def _cases(solver: str, *keys: str) -> tuple[Case, ...]:
    return tuple((key, solver) for key in keys)


ALL = (
    *_cases(
        "nest",
        "matmul:64x64x64",
        "matmul:112x256x64",
        "matmul:192x192x80",
        "matmul:224x224x256",
        "matmul:127x131x113",
        "matmul:1x512x512",
        "matmul:512x1x512",
        "matmul:384x384x384",
        "bmm:16x64x64x64",
        "add:65536",
        "add:16777216",
        "exp:262144",
        "gelu:1048576",
        "bias:1024x1024",
        "sum:1024x1024/axis=1",
        "sum:4096x4096/axis=0",
        "sum:64x64x1024/axis=0,2",
        "sum:1024x1024x16/axis=1",
        "sum:100000x49/axis=1",
        "max:1048576",
    ),
    *_cases("packed", "matmul:512x512x512", "matmul:1024x1024x1024"),
    *_cases("rows", "softmax:1024x1024", "layernorm:512x768", "batchnorm:n16c32h28w28"),
)
QUICK = (ALL[0], ALL[4], ALL[9], ALL[14], ALL[15], ALL[20], ALL[22])


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    cases: tuple[Case, ...]
    trials: int
    seconds: float
    plan: Plan
    threads: int
    core: int | None
    json: Path | None

    def settings(self) -> Record:
        """For the result file."""
        return {
            "first": FIRST,
            "trials": self.trials,
            "seconds": self.seconds,
            **asdict(self.plan),
            "dtype": "f32",
            "threads": self.threads,
            "caches": "hot",
            "confidence": 0.95,
        }


def parse_options(argv: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="7 problems, 150 trials, 6 s each")
    parser.add_argument("--problems", help="keys, separated by spaces (default: 25 problems)")
    parser.add_argument("--solver", default="nest", help="of the problems given")
    parser.add_argument("--trials", type=int, help="trials of a search (default 500)")
    parser.add_argument("--seconds", type=float, help="seconds of a search at most (default 20)")
    parser.add_argument("--threads", type=int, default=1, help="threads of a kernel")
    parser.add_argument("--core", type=int, help="the core to time on (default: the last)")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    asked = _cases(args.solver, *args.problems.split()) if args.problems else ()
    return Options(
        cases=asked or (QUICK if args.quick else ALL),
        trials=args.trials or (150 if args.quick else 500),
        seconds=args.seconds or (6.0 if args.quick else 20.0),
        plan=Plan(rounds=20 if args.quick else 40, seconds=2.0),
        threads=args.threads,
        core=args.core,
        json=args.json,
    )


class Bench:
    """The problems in turn."""

    def __init__(self, options: Options, at: sitting.Sitting) -> None:
        self._options, self._at = options, at

    def case(self, key: str, name: str) -> Record:
        """Screen the first configs, search, and time the leaders of both side by side."""
        problem = parse(key, "f32")
        space = solver_for(problem, self._at.stand.device, name).space(
            problem, self._at.stand.device
        )
        assert isinstance(space, Promising), f"{name} names no promising configs"
        first = list(space.promising(FIRST))
        started = time.monotonic()
        found, trials = self._searched(problem, name)
        seconds = time.monotonic() - started
        arrays = make_arrays(problem, PAGE)
        kernels = {
            config: _load(problem, name, config, self._at.stand, arrays)
            for config in dict.fromkeys((*first, *found))
        }
        screened = self._times(kernels, first, Plan(rounds=8, samples=3, seconds=2.0))
        leaders = sorted(first, key=screened.__getitem__)[:_LEADERS]
        record = self._final(kernels, leaders, found)
        self._at.stand.clear()
        place = first.index(Config(record["first"]["config"])) + 1
        return {
            "problem": problem.key,
            "solver": name,
            "trials": trials,
            "search_seconds": round(seconds, 2),
            "place": place,
            **record,
        }

    def _searched(self, problem: Problem, name: str) -> tuple[list[Config], int]:
        """The leaders of a search, best first, and how many trials it made."""
        options = self._options
        budget = Budget(options.trials, options.seconds)
        with blank_memory(self._at.tuner.context):
            result = self._at.tuner.tune(problem, TuneOptions(budget=budget, solver=name))
        ranked = sorted((t for t in result.trials if t.ok), key=lambda t: t.value or 0.0)
        leaders = [result.best, *(trial.config for trial in ranked)]
        return list(dict.fromkeys(leaders))[:_LEADERS], len(result.trials)

    def _times(
        self, kernels: Mapping[Config, Kernel], configs: Sequence[Config], plan: Plan
    ) -> dict[Config, float]:
        rounds = self._at.stand.time({str(at): kernels[c] for at, c in enumerate(configs)}, plan)
        return {config: rounds.time_ns(str(at)) for at, config in enumerate(configs)}

    def _final(
        self, kernels: Mapping[Config, Kernel], first: list[Config], found: list[Config]
    ) -> Record:
        configs = list(dict.fromkeys((*first, *found)))
        names = {config: str(at) for at, config in enumerate(configs)}
        field = {name: kernels[config] for config, name in names.items()}
        rounds = self._at.stand.time(field, self._options.plan)
        sides = {}
        for side, choice in (("first", first), ("searched", found)):
            sides[side] = min(choice, key=lambda config: rounds.time_ns(names[config]))
        ratio = rounds.ratio(names[sides["searched"]], names[sides["first"]])
        return {
            "speed_share": ratio_record(ratio),
            "rounds": rounds.count,
            "quiet_rounds": rounds.quiet,
            **{
                side: {
                    "config": dict(config),
                    "time_us": round(rounds.time_ns(names[config]) / 1e3, 3),
                }
                for side, config in sides.items()
            },
        }


def _load(
    problem: Problem, name: str, config: Config, stand: Stand, arrays: dict[str, Any]
) -> Kernel:
    solver = solver_for(problem, stand.device, name)
    blob = solver.compile(solver.lower(problem, stand.device, config))
    slots = solver.slots(problem, stand.device, config)
    return stand.load(blob.data, blob.symbol, slots, arrays)


def line(record: Record) -> str:
    """One problem on the screen."""
    share = record["speed_share"]
    mark = " " if share["ratio"] >= GOAL else "!"
    return (
        f"{record['problem']:34} {record['solver']:7} {share['ratio']:5.2f}{mark} "
        f"({share['low']:.2f} to {share['high']:.2f})  {record['place']:2}. of {FIRST}  "
        f"{_text(record['first']['config'])}  after {record['trials']} trials: "
        f"{_text(record['searched']['config'])}"
    )


def _text(config: Mapping[str, Any]) -> str:
    if set(config) == {"schedule"}:
        return f"'{config['schedule']}'"
    return " ".join(f"{name}={value}" for name, value in config.items())


def summarize(records: Sequence[Record]) -> Record:
    """Over all problems."""
    shares = [record["speed_share"]["ratio"] for record in records]
    return {
        "problems": len(shares),
        "reached": sum(share >= GOAL for share in shares),
        "goal": GOAL,
        "worst": round(min(shares), 4),
        "geometric_mean": round(exp(sum(map(log, shares)) / len(shares)), 4),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse_options(argv)
    machine.library_threads(options.threads)
    with sitting.sit(options.threads, options.core) as at:
        bench = Bench(options, at)
        records = []
        for key, solver in options.cases:
            records.append(bench.case(key, solver))
            print(line(records[-1]), flush=True)
    summary = summarize(records)
    print(
        f"{summary['reached']} of {summary['problems']} reach {GOAL:.0%}; "
        f"worst {summary['worst']:.2f}, mean {summary['geometric_mean']:.3f}"
    )
    result = machine.header("start_well", at.stand.device, at.stand.cores)
    result |= {"settings": options.settings(), "summary": summary, "problems": records}
    whole = options.cases == ALL
    machine.write_result(_path(options, at, whole), result)
    return 0


def _path(options: Options, at: sitting.Sitting, whole: bool) -> Path:
    if options.threads == 1 and whole and options.json is None:
        return machine.RESULTS / f"start_well_{at.stand.device.arch}.json"
    return sitting.result_path(options.json, "start_well", at, whole=whole)


if __name__ == "__main__":
    sys.exit(main())
