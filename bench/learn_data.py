"""Ledgers to learn from: problems of a list are searched, then a common pool of configs is timed.

::

    python bench/learn_data.py search bench/lists/learn_products.txt --user DIR --seconds 6
    python bench/learn_data.py table bench/lists/learn_products.txt --user DIR --pool 64
    python bench/learn_data.py pool bench/lists/learn_products.txt --user DIR > pool.json
    python bench/learn_data.py table bench/lists/learn_products.txt --user D2 --pool-from pool.json

``search`` tunes each problem as ``skipjack tune`` does. ``table`` then times, side by side, for
each problem: the pool (configs that won other problems of the list; those that are not legal for
this one are adapted), what its own searches found, and the first proposals of its solvers. It is
recorded as studies of the searcher ``listed``: models are trained on ledgers alone. What is
recorded already is passed over, so that a run that was ended goes on; ``--at-most`` ends one.
``SKIPJACK_CPU_LEVEL`` holds a CPU to a lower level, as always.
``pool`` prints the pool: with ``--pool-from`` another machine times it without searching first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path

from skipjack.core import Config, Device, Problem, Promising, Study, Trial, adapted, protocol_for
from skipjack.errors import SkipjackError
from skipjack.learn.trials import ProblemTrials, read_trials
from skipjack.ledger import FILE_NAME, Ledger
from skipjack.runtime import select_device
from skipjack.runtime.local_kernels import requested_problem
from skipjack.settings import Settings, load_settings
from skipjack.solvers import BuildingSolver, refusal, solvers_for
from skipjack.tuning import ConfigTimer, Tuner, make_budget
from skipjack.tuning.study import TuneOptions

LISTED = "listed"
"""The name of the searcher under which the table is recorded."""
PROPOSALS, OWN = 16, 12
"""Proposals of each solver, and configs of the problem's own searches, in the table."""
WINNERS, NEAR = 3, 1.1
"""At most so many configs of a problem, at most so far from its best, may be in the pool."""
_FAR = log(3.0)
"""What a config costs that was not measured, as a logarithm of the ratio to the best."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    step: str
    problems: tuple[Problem, ...]
    device: Device
    settings: Settings
    seconds: float
    pool: int
    seed: int
    ends: float
    pool_from: Path | None = None
    builds_first: bool = False


def read_options(argv: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("search", "table", "pool"))
    parser.add_argument("list", type=Path, nargs="+", help="problems, one a line")
    parser.add_argument("--user", type=Path, required=True, help="the user directory to write to")
    parser.add_argument("--device", help="as for skipjack tune")
    parser.add_argument("--layout", help="of convolutions")
    parser.add_argument("--dtype", help="of all problems")
    parser.add_argument("--seconds", type=float, default=6.0, help="of a search")
    parser.add_argument("--pool", type=int, default=64, help="the most configs of the pool")
    parser.add_argument("--seed", type=int, default=0, help="another one makes another table")
    parser.add_argument("--pool-from", type=Path, help="the pool: JSON, as the step pool prints it")
    parser.add_argument(
        "--builds-first", action="store_true", help="for builders without a core of their own"
    )
    parser.add_argument("--at-most", type=float, default=inf, help="seconds, in all")
    parser.add_argument("--part", default="0/1", help="of a list that several processes share")
    args = parser.parse_args(argv)
    os.environ["SKIPJACK_USER_DB_PATH"] = str(args.user.absolute())  # of workers, too
    ends = time.monotonic() + args.at_most
    part, parts = map(int, args.part.split("/"))
    lines = [line for path in args.list for line in path.read_text().splitlines()]
    keys = [key for line in lines if (key := line.partition("#")[0].strip())]
    problems = tuple(requested_problem(key, args.dtype, layout=args.layout) for key in keys)
    device = select_device(problems, args.device, None)
    return Options(
        *(args.step, problems[part::parts], device, load_settings()),
        *(args.seconds, args.pool, args.seed, ends, args.pool_from, args.builds_first),
    )


def search(options: Options) -> None:
    """Tune each problem that has no study yet."""
    known = {one.problem.key for one in known_trials(options)}
    with Tuner(options.settings, options.device) as tuner:
        for problem in options.problems:
            if problem.key in known or time.monotonic() > options.ends:
                continue
            try:
                budget = make_budget(None, options.seconds)
                result = tuner.tune(problem, TuneOptions(budget=budget))
            except SkipjackError as error:
                print(f"{problem.key}: {error}", flush=True)
                continue
            print(
                f"{problem.key}: {result.solver}, {len(result.trials)} trials, "
                f"{result.seconds:.1f} s",
                flush=True,
            )


def known_trials(options: Options) -> list[ProblemTrials]:
    """What the ledger has for the device."""
    if not (options.settings.user_dir / FILE_NAME).exists():
        return []
    found = read_trials([options.settings.user_dir])
    return [one for one in found if one.device.class_key == options.device.class_key]


@dataclass(frozen=True, slots=True)
class Entry:
    """A config that may be in the pool."""

    solver: str
    config: Config


def pool_of(known: Iterable[ProblemTrials], most: int) -> list[Entry]:
    """The configs that together lose least, each problem with its best: greedy set cover.

    Only configs that were near the best of a problem come into question. Where one was not
    measured it counts as far from the best, so that those of many problems come first.
    """
    problems = [one for one in known if one.best_ns < inf]
    costs: defaultdict[Entry, dict[int, float]] = defaultdict(dict)
    for one in problems:
        ranked = sorted(one.successful, key=lambda measured: measured.time_ns)
        near = [each for each in ranked[:WINNERS] if each.time_ns <= NEAR * one.best_ns]
        for each in near:
            costs[Entry(each.solver, each.config)] = {}
    for at, one in enumerate(problems):
        for each in one.successful:
            entry = Entry(each.solver, each.config)
            if entry in costs:
                costs[entry][at] = min(log(each.time_ns / one.best_ns), _FAR)
    lost = [_FAR] * len(problems)
    chosen: list[Entry] = []
    while costs and len(chosen) < most:
        entry = max(costs, key=lambda e: sum(max(0.0, lost[at] - c) for at, c in costs[e].items()))
        for at, cost in costs.pop(entry).items():
            lost[at] = min(lost[at], cost)
        chosen.append(entry)
    return chosen


def chosen_pool(options: Options, known: Iterable[ProblemTrials]) -> list[Entry]:
    """The pool that was given, or else that of the ledger."""
    if options.pool_from is None:
        return pool_of(known, options.pool)
    record = json.loads(options.pool_from.read_text())
    return [Entry(solver, Config(config)) for solver, config in record["pool"]][: options.pool]


def print_pool(options: Options) -> None:
    """Print the pool as JSON."""
    pool = pool_of(known_trials(options), options.pool)
    print(json.dumps({"pool": [[one.solver, dict(one.config)] for one in pool]}, indent=0))


def table(options: Options) -> None:
    """Time the pool, each problem's own best and its solvers' proposals."""
    known = {one.problem.key: one for one in known_trials(options)}
    pool = chosen_pool(options, known.values())
    print(f"{len(pool)} configs in the pool", flush=True)
    with (
        Ledger.open(options.settings.user_dir) as ledger,
        ConfigTimer(options.device, options.settings, builds_first=options.builds_first) as timer,
    ):
        ledger.add_device(options.device)
        done = {
            one.problem
            for one in ledger.studies()
            if (one.searcher, one.seed) == (LISTED, options.seed)
            and one.device == options.device.class_key
        }
        for problem in options.problems:
            if problem.key in done or time.monotonic() > options.ends:
                continue
            began = time.monotonic()
            lines = []
            try:
                wanted = _wanted(problem, options.device, pool, known.get(problem.key))
                found = {
                    solver: timer.trials(problem, configs, solver.name)
                    for solver, configs in wanted.items()
                }
            except SkipjackError as error:
                print(f"{problem.key}: {error}", flush=True)
                continue
            for solver, trials in found.items():
                record(ledger, options.device, problem, solver, trials, options.seed)
                lines.append(f"{solver.name} {sum(one.ok for one in trials)}/{len(trials)}")
            took = time.monotonic() - began
            print(f"{problem.key}: {', '.join(lines)}; {took:.1f} s", flush=True)


def _wanted(
    problem: Problem, device: Device, pool: Sequence[Entry], known: ProblemTrials | None
) -> dict[BuildingSolver, list[Config]]:
    """The configs to time, by solver."""
    ranked = sorted(known.successful, key=lambda one: one.time_ns)[:OWN] if known else []
    own = [Entry(one.solver, one.config) for one in ranked]
    found = {}
    for solver in solvers_for(problem, device):
        if refusal(solver, problem, device):
            continue
        space = solver.space(problem, device)
        first = space.promising(PROPOSALS) if isinstance(space, Promising) else [space.default()]
        others = [one.config for one in (*own, *pool) if one.solver == solver.name]
        legal = [near for config in others if (near := adapted(space, config)) is not None]
        found[solver] = list(dict.fromkeys([*first, *legal]))
    return found


def record(
    ledger: Ledger,
    device: Device,
    problem: Problem,
    solver: BuildingSolver,
    trials: list[Trial],
    seed: int = 0,
) -> None:
    """Write the trials as a study."""
    study = Study(
        *(problem, solver.name, device.class_key, LISTED, seed, str(solver.version)),
        protocol=protocol_for(device),
    )
    ledger.start_study(study, solver.version)
    ledger.log_tells(study.id, trials)


def main(argv: Sequence[str] | None = None) -> int:
    """One run."""
    options = read_options(argv)
    {"search": search, "table": table, "pool": print_pool}[options.step](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
