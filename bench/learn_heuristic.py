"""How good are heuristics on problems held out? Families of shapes or whole networks at a time.

::

    python bench/learn_heuristic.py train bench/lists/learn_products.txt --from DIR --picks FILE
    python bench/learn_heuristic.py measure --picks FILE --json RESULT

``train`` leaves out some families of the list at a time, also every other problem of the same
shape, fits a ranker, a portfolio and a heuristic to the rest of the ledger, and writes which
configs it names for the families left out; beside them today's first proposal, the config of the
nearest known problem, and the best that long searches found. ``measure`` times all of them side by
side on this machine, in a session of its own: the ratios of times say how good each is, without the
advantage that the luckiest of many measurements has. For devices that are not here, ``train
--offline`` takes the times from the ledger, and each way names the first of its configs that has
one; or ``plan`` writes a plan for ``bench/learn_gpu.py table``, and ``measure --from`` reads the
ledger that it filled.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

import machine
import nv_matmul
from learn_plan import PlannedConfig, PlannedProblem, build_key, write_plan
from skipjack.core import Config
from skipjack.devices import describe
from skipjack.errors import SkipjackError
from skipjack.learn.heuristic import (
    FIRST,
    HEURISTIC,
    NEAREST,
    SEARCHED,
    Folds,
    HeldOutProblem,
    HeuristicOptions,
    interval,
    summarized,
)
from skipjack.learn.ranker import shape_group
from skipjack.learn.trials import ProblemTrials, read_trials
from skipjack.models import operation_group
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import load_settings
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.tuning import ConfigTimer

FOLDS = 5
BEST = "heuristic, best of 4"
WAYS = (HEURISTIC, BEST, FIRST, NEAREST, SEARCHED)
MOST, TIMED = 16, 4
"""Configs of each side beside nvMatmulHeuristics, and of each way, that are timed."""

Record = dict[str, Any]


def read_families(paths: Sequence[Path]) -> dict[tuple[str, ...], str]:
    """The family of each shape of lists whose comments begin families."""
    found: dict[tuple[str, ...], str] = {}
    family = ""
    for path in paths:
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                family = line[1:].partition(":")[0].strip()
            elif line.strip():
                found.setdefault(shape_group(parse(line.strip())), family)
    return found


def train(trials: list[ProblemTrials], args: argparse.Namespace) -> list[Record]:
    """The picks for each problem of each family, by models that know nothing of the family."""
    families = read_families(args.lists)
    operations = {operation_group(shape[0]) for shape in families}
    trials = [one for one in trials if operation_group(one.problem.operation) in operations]
    groups = {
        one.problem.key: families[shape_group(one.problem)]
        for one in trials
        if shape_group(one.problem) in families
    }
    options = HeuristicOptions(members=args.members, drawn=args.drawn)
    folds = Folds(trials, groups, args.folds)
    held = folds.evaluate(
        options,
        only_measured=args.offline,
        listed=args.listed,
        progress=lambda text: print(text, flush=True),
    )
    return [record_of(one, args.offline) for one in held]


def record_of(one: HeldOutProblem, offline: bool) -> Record:
    """A held-out problem for the file."""
    ways = {name: [solver, config.key] for name, (solver, config) in one.picks.items()}
    record: Record = {
        "problem": one.trials.problem.key,
        "family": one.group,
        "expected": one.expected,
        "ways": ways,
    }
    if offline:
        known = one.trials.by_key
        record["times_ns"] = {
            name: finite(known[solver, key].time_ns)
            for name, (solver, key) in ways.items()
            if (solver, key) in known
        }
    return record


def measure(records: Sequence[Record], core: int | None) -> list[Record]:
    """Times of all picks, side by side for each problem."""
    settings = load_settings(core=core) if core is not None else load_settings()
    measured = []
    with ConfigTimer(None, settings) as timer:
        for record in records:
            by_solver: defaultdict[str, list[Config]] = defaultdict(list)
            for solver, key in record["ways"].values():
                by_solver[solver].append(Config.from_key(key))
            times: dict[tuple[str, str], float] = {}
            try:
                for solver, configs in by_solver.items():
                    trials = timer.trials(parse(record["problem"]), configs, solver)
                    times |= {
                        (solver, config.key): trial.value if trial.ok and trial.value else inf
                        for config, trial in zip(configs, trials, strict=True)
                    }
            except SkipjackError as error:
                print(f"{record['problem']}: {error}", flush=True)
                continue
            found = {name: times[pick[0], pick[1]] for name, pick in record["ways"].items()}
            measured.append({**record, "times_ns": {k: finite(v) for k, v in found.items()}})
    return measured


def plan(records: Sequence[Record], path: Path, more: Path | None) -> None:
    """All picks as a plan for a GPU.

    `more` are the picks of nvMatmulHeuristics (``bench/nv_matmul.py``). For the products that it
    has, they are planned too, as well as ours: by the heuristic, and by the order of the space.
    """
    added = json.loads(more.read_text())["products"] if more else {}
    device = describe("sm_90/132")
    planned = []
    for record in records:
        problem = parse(record["problem"])
        ways = [(name, (pick[0], pick[1])) for name, pick in record["ways"].items()]
        wanted = [pick for name, pick in ways if is_timed(name)]
        if record["problem"] in added:
            ours = [
                p for name, p in ways if name.startswith(HEURISTIC) and p[0] == nv_matmul.SOLVER
            ]
            wanted += ours[:MOST]
            for given in added[record["problem"]].values():
                wanted += [
                    (nv_matmul.SOLVER, config.key)
                    for config in nv_matmul.first_configs(given)[:MOST]
                ]
            analytic = nv_matmul.analytic([problem], device).first[problem.key]
            wanted += [(nv_matmul.SOLVER, config.key) for config in analytic[:MOST]]
        configs = []
        for name, key in dict.fromkeys(wanted):
            solver = find_solver(name)
            if isinstance(solver, BuildingSolver):
                config = Config.from_key(key)
                built = build_key(problem, device, solver, config)
                configs.append(PlannedConfig(name, config, built))
        planned.append(PlannedProblem(record["family"], problem, tuple(configs)))
    write_plan(path, "sm_90/132", planned)
    print(f"{len(planned)} problems, {sum(len(one.configs) for one in planned)} configs")


def is_timed(way: str) -> bool:
    """Whether a way is among the first ones of its kind, which are timed again."""
    number = way.rpartition(" ")[2]
    return not number.isdigit() or int(number) <= TIMED


def from_session(records: Sequence[Record], ledgers: Sequence[Path]) -> list[Record]:
    """The same with the times of a ledger in which the picks were timed."""
    known = {one.problem.key: one.by_key for one in read_trials(ledgers)}
    found = []
    for record in records:
        times = known.get(record["problem"], {})
        picked = {name: pick for name, pick in record["ways"].items() if is_timed(name)}
        timed = {
            name: finite(times[pick[0], pick[1]].time_ns)
            for name, pick in picked.items()
            if (pick[0], pick[1]) in times
        }
        found.append({**record, "ways": picked, "times_ns": timed})
    return [one for one in found if one["times_ns"]]


def write_ranking(records: Sequence[Record], path: Path) -> None:
    """The heuristic's order for ``bench/nv_matmul.py score --ours``."""
    problems = {
        record["problem"]: [
            {"solver": pick[0], "config": dict(Config.from_key(pick[1]))}
            for name, pick in record["ways"].items()
            if name.startswith(HEURISTIC)
        ]
        for record in records
    }
    path.write_text(json.dumps({"name": "heuristic", "problems": problems}))


def finite(value: float) -> float | None:
    """A number that JSON can have."""
    return round(value, 3) if value < inf else None


def qualities(records: Sequence[Record], way: str) -> list[float]:
    """The time of the best of a search over that of a way; 0 where it failed.

    The best is the fastest of all that were timed: the searches' three best, and what the others
    name, which may be better than what a search of limited time has found.
    """
    found = []
    for record in records:
        times = record["times_ns"]
        known = [took for took in times.values() if took]
        if not known:
            continue
        best = min(known)
        if way == BEST:
            mine = [took for name, took in times.items() if name.startswith(HEURISTIC) and took]
            found.append(best / min(mine) if mine else 0.0)
        elif way in times:
            found.append(best / times[way] if times[way] else 0.0)
    return found


def summary(records: Sequence[Record]) -> Record:
    """For each way: mean, tenth percentile, least, and the mean's interval over problems."""
    found = {way: asdict(summarized(qualities(records, way))) for way in WAYS}
    gains = {
        f"{HEURISTIC} - {other}": [round(one, 4) for one in interval(differences(records, other))]
        for other in (FIRST, NEAREST, SEARCHED)
        if differences(records, other)
    }
    return {**found, "mean difference": gains}


def differences(records: Sequence[Record], other: str) -> list[float]:
    """The differences in quality between the heuristic and another way, problem by problem."""
    pairs = [(qualities([one], HEURISTIC), qualities([one], other)) for one in records]
    return [mine[0] - theirs[0] for mine, theirs in pairs if mine and theirs]


def print_summary(records: Sequence[Record]) -> None:
    """Tables on the screen."""
    found = summary(records)
    for pair, (low, high) in found.pop("mean difference").items():
        print(f"{pair:40} {low:+.3f} to {high:+.3f}")
    for way, one in found.items():
        print(
            f"{way:24} {one['problems']:4} problems  mean {one['mean']:.3f} "
            f"[{one['low']:.3f}, {one['high']:.3f}]  p10 {one['p10']:.3f}  least {one['least']:.3f}"
        )
    for family in sorted({one["family"] for one in records}):
        values = qualities([one for one in records if one["family"] == family], HEURISTIC)
        if values:
            print(f"  {family:24} {sum(values) / len(values):.3f}  least {min(values):.3f}")
    judged = [one for one in records if qualities([one], HEURISTIC)]
    for one in sorted(judged, key=lambda one: qualities([one], HEURISTIC))[:8]:
        text = f"{one['ways'][HEURISTIC]} for {one['ways'][SEARCHED]}"
        print(f"  {one['problem']}: {qualities([one], HEURISTIC)[0]:.3f} {text}")


def main(argv: Sequence[str] | None = None) -> int:
    """One step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("train", "plan", "measure", "show"))
    parser.add_argument("lists", type=Path, nargs="*", help="families that are held out")
    parser.add_argument("--from", dest="ledgers", type=Path, nargs="+", help="user directories")
    parser.add_argument("--picks", type=Path, required=True)
    parser.add_argument("--plan", type=Path, help="the plan to write, for bench/learn_gpu.py")
    parser.add_argument("--more", type=Path, help="picks of nvMatmulHeuristics, for the plan")
    parser.add_argument("--offline", action="store_true", help="take the times of the ledger")
    parser.add_argument("--core", type=int, help="the core to time on")
    parser.add_argument("--json", type=Path, help="where to write the result")
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--listed", type=int, default=4, help="members named for each problem")
    parser.add_argument("--members", type=int, default=HeuristicOptions().members)
    parser.add_argument("--drawn", type=int, default=HeuristicOptions().drawn)
    args = parser.parse_args(argv)
    timed = args.picks
    if args.step == "train":
        trials = read_trials(args.ledgers)
        args.picks.write_text(json.dumps(train(trials, args), indent=1))
        if not args.offline:
            return 0
    elif args.step == "plan":
        records = json.loads(args.picks.read_text())
        plan(records, args.plan, args.more)
        write_ranking(records, args.picks.with_suffix(".ranking.json"))
        return 0
    elif args.step == "measure":
        timed = args.picks.with_suffix(".measured.json")
        picked = json.loads(args.picks.read_text())
        records = from_session(picked, args.ledgers) if args.ledgers else measure(picked, args.core)
        timed.write_text(json.dumps(records, indent=1))
    records = json.loads(timed.read_text())
    print_summary(records)
    if args.json:
        device = read_trials(args.ledgers)[0].device if args.ledgers else cpu.detect()
        result = machine.header("learn_heuristic", device, [])
        cases = [
            {
                "problem": one["problem"],
                "family": one["family"],
                **{way: round(value, 4) for way in WAYS for value in qualities([one], way)},
            }
            for one in records
        ]
        result |= {"folds": args.folds, "summary": summary(records), "cases": cases}
        machine.write_result(args.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
