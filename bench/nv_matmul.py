"""nvMatmulHeuristics' first configs of products on an H200, in our kernel, beside our own first.

::

    python bench/nv_matmul.py picks bench/lists/gpu_matmul.txt --dtypes f16,bf16
    python bench/nv_matmul.py score --ledger ledger.sqlite --ours ranking.json

``picks`` asks the library, in an environment of its own, for its first configs for its targets
TRITON and CUTLASS3, and maps each to the nearest legal config of the solver ``triton_matmul``. It
needs no GPU. ``score`` evaluates a ledger in which both sides were timed (``bench/learn_gpu.py``):
the best time over the time of the best of the first 1, 4, 8 and 16, as a geometric mean over the
products, with intervals of a bootstrap over products. ``--ours`` is a ranking by a model that was
not trained on these products: ``{"problems": {KEY: [{"solver": S, "config": {...}}, ...]}}``.

The library has a licence of its own: it is for this benchmark alone, and never shipped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from math import exp, inf, log, log2
from pathlib import Path
from typing import Any

import numpy as np

from metaschedule import CACHE
from skipjack.core import Config, Device, ParameterSpace, Problem
from skipjack.devices import describe
from skipjack.learn.trials import ProblemTrials, read_trials
from skipjack.operations import Matmul, MatmulAttributes, get, parse
from skipjack.runtime.local_kernels import requested_problem
from skipjack.solvers import BuildingSolver, find_solver

FORMAT = 1
GPU, DEVICE = "H200_SXM", "sm_90/132"
SOLVER, LIBRARY = "triton_matmul", "cublas"
TARGETS = ("TRITON", "CUTLASS3")
PRECISIONS = {"f16": "HSH", "bf16": "TST"}
"""Letters of the library: operands, sums, result."""
ASKED, COUNTS = 32, (1, 4, 8, 16)
PICKS = CACHE / "nv_matmul_picks.json"
_SCRIPT = Path(__file__).resolve().parent / "peers" / "nv_matmul_picks.py"
_PACKAGE = "nvidia-matmul-heuristics"
_RESAMPLED, _LOST = 2000, 0.99

Record = dict[str, Any]


# What the library says, mapped to our kernel.


@contextmanager
def library(folder: Path = CACHE / "nv-matmul-env") -> Iterator[tuple[str, Any]]:
    """The library's version, and a function that asks it."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"installing {_PACKAGE} into an environment of its own", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", _PACKAGE]
        subprocess.run([str(python), *words], check=True)
    with subprocess.Popen(
        [python, _SCRIPT, GPU], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        asking, answers = process.stdin, process.stdout

        def ask(*question: object) -> list[Record]:
            print(json.dumps(question), file=asking, flush=True)
            found: list[Record] = json.loads(answers.readline())
            return found

        yield json.loads(answers.readline()), ask
        asking.close()


def picks_of(ask: Any, problem: Problem, target: str) -> list[Record]:
    """The library's configs for a product, each with the config of our kernel."""
    operation = get(problem.operation)
    assert isinstance(operation, Matmul)
    _, m, n, k = operation.sizes(problem)
    settings = MatmulAttributes.of(problem)
    sizes = (m, n, k, int(settings.ta), int(settings.tb))
    given = ask(target, PRECISIONS[problem.dtype], *sizes, ASKED)
    found: list[Record] = []
    for one in given:
        config, changed = nearest(problem, one)
        found.append({"given": one, "config": dict(config), "changed": changed})
        if len(first_configs(found)) == max(COUNTS):
            break
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """A config of the library in the terms of our kernel."""

    tile_m: int
    tile_n: int
    tile_k: int
    warps: int
    stages: int
    splits: int
    group: int

    @classmethod
    def of(cls, given: Record) -> Wanted:
        """Warps are those that the block's tile consists of."""
        warps = 1
        for whole, part in zip(given["cta"], given["warp"], strict=True):
            warps *= max(1, whole // part)
        tile_m, tile_n, tile_k = map(int, given["cta"])
        rest = (warps, given["stages"], given["splits"], max(1, given["swizzle"]))
        return cls(tile_m, tile_n, tile_k, *rest)


_WEIGHTS = {"tile_m": 4.0, "tile_n": 4.0, "splits": 3.0, "tile_k": 2.0, "warps": 2.0, "group": 0.5}
"""What a factor of two in a setting counts, when the nearest config is sought."""


def nearest(problem: Problem, given: Record) -> tuple[Config, list[str]]:
    """The nearest legal config of our kernel, and the settings that differ from what was given.

    The library knows one program a tile and no options beyond it. Depth times stages, the bytes in
    flight, counts beside the depth: half as deep a step has twice the stages.
    """
    wanted = Wanted.of(given)
    config = min(_plain_configs(problem), key=lambda one: _distance(one, wanted))
    names = [*_WEIGHTS, "stages"]
    return config, [name for name in names if config[name] != getattr(wanted, name)]


@cache
def _plain_configs(problem: Problem) -> tuple[Config, ...]:
    """The configs with one program a tile and no option that the library does not know."""
    solver = find_solver(SOLVER)
    assert isinstance(solver, BuildingSolver)
    space = solver.space(problem, describe(DEVICE))
    assert isinstance(space, ParameterSpace)
    plain = {"walk": "once", "swap": False, "pieces": 1, "widen": False}
    return tuple(
        one for one in space.enumerate() if all(one[name] == value for name, value in plain.items())
    )


def _distance(config: Config, wanted: Wanted) -> float:
    total = sum(
        weight * abs(log2(int(config[name]) / getattr(wanted, name)))
        for name, weight in _WEIGHTS.items()
    )
    flying = int(config["tile_k"]) * int(config["stages"])
    return total + abs(log2(flying / (wanted.tile_k * wanted.stages)))


def make_picks(problems: Iterable[Problem]) -> Record:
    """The library's configs for all products."""
    found: dict[str, dict[str, list[Record]]] = {}
    with library() as (version, ask):
        for problem in problems:
            found[problem.key] = {target: picks_of(ask, problem, target) for target in TARGETS}
    mapped = {target: _mapped(found, target) for target in TARGETS}
    about = {"format": FORMAT, "name": "nv_matmul_picks", "date": str(date.today())}
    about |= {"version": version, "gpu": GPU, "solver": SOLVER}
    return {**about, "mapped": mapped, "products": found}


def _mapped(found: Mapping[str, Mapping[str, Sequence[Record]]], target: str) -> Record:
    """How many configs our kernel has as they are."""
    all_ = [one for picks in found.values() for one in picks[target]]
    distinct = [len(first_configs(picks[target])) for picks in found.values()]
    return {
        "products": len(found),
        "given": len(all_),
        "distinct": sum(distinct),
        "fewest_distinct": min(distinct, default=0),
        "exact": sum(not one["changed"] for one in all_),
        "exact_but_order": sum(not set(one["changed"]) - {"group"} for one in all_),
        "exact_tile": sum(not set(one["changed"]) & {"tile_m", "tile_n", "tile_k"} for one in all_),
    }


def first_configs(picks: Sequence[Record]) -> list[Config]:
    """The distinct configs of our kernel, in the library's order."""
    return list(dict.fromkeys(Config(one["config"]) for one in picks))


# What the first N reach, from a ledger.


@dataclass(frozen=True, slots=True)
class Side:
    """Who proposes: configs of our kernel for each product, the best first."""

    name: str
    first: Mapping[str, Sequence[Config]]


def analytic(problems: Iterable[Problem], device: Device) -> Side:
    """The first proposals of the space itself."""
    solver = find_solver(SOLVER)
    assert isinstance(solver, BuildingSolver)
    first = {}
    for problem in problems:
        space = solver.space(problem, device)
        assert isinstance(space, ParameterSpace)
        first[problem.key] = space.promising(max(COUNTS))
    return Side("analytic", first)


def ranked(path: Path) -> Side:
    """The ranking of a model, without configs of other solvers."""
    record = json.loads(path.read_text())
    first = {
        key: [Config(one["config"]) for one in ranking if one["solver"] == SOLVER]
        for key, ranking in record["problems"].items()
    }
    return Side(record.get("name", "learned"), first)


def qualities(
    side: Side, known: Mapping[str, ProblemTrials], count: int, *, best_of_all: bool
) -> dict[str, float]:
    """The best time over that of the best of the first `count`, for products with any of them."""
    found = {}
    for key, trials in known.items():
        times = {one.config: one.time_ns for one in trials.measured if one.solver == SOLVER}
        proposed = [one for one in side.first.get(key, ()) if one in times][:count]
        if not proposed:
            continue
        every = [one.time_ns for one in trials.measured if one.solver != LIBRARY]
        best = min(every if best_of_all else times.values())
        reached = min(times[one] for one in proposed)
        found[key] = best / reached if reached < inf else 0.01
    return found


def interval(logs: np.ndarray, rng: np.random.Generator) -> list[float]:
    """The geometric mean and its 95 % interval, from logarithms."""
    drawn = rng.integers(0, len(logs), (_RESAMPLED, len(logs)))
    low, high = np.percentile(logs[drawn].mean(axis=1), [2.5, 97.5])
    return [round(exp(value), 4) for value in (float(logs.mean()), float(low), float(high))]


def score(sides: Sequence[Side], known: Mapping[str, ProblemTrials]) -> Record:
    """All sides at every count, on the products that all of them propose something for."""
    rng = np.random.default_rng(0)
    record: Record = {"sides": {}, "against": {}, "unmeasured": {}}
    of: dict[tuple[str, int], dict[str, float]] = {}
    for side in sides:
        for count in COUNTS:
            of[side.name, count] = qualities(side, known, count, best_of_all=False)
    shared = sorted(set.intersection(*(set(found) for found in of.values())))
    record["products"] = len(shared)
    for side in sides:
        proposed = [(key, one) for key in shared for one in side.first[key][: max(COUNTS)]]
        measured = {(key, one.config) for key in shared for one in known[key].measured}
        record["unmeasured"][side.name] = sum(one not in measured for one in proposed)
        rows = record["sides"][side.name] = {}
        for count in COUNTS:
            values = np.array([of[side.name, count][key] for key in shared])
            all_ = qualities(side, known, count, best_of_all=True)
            rows[count] = {
                "of_best": interval(np.log(values), rng),
                "tenth_percentile": round(float(np.percentile(values, 10)), 4),
                "least": round(float(values.min()), 4),
                "of_best_of_all_solvers": round(
                    exp(float(np.mean([log(all_[key]) for key in shared]))), 4
                ),
            }
    ours = [side for side in sides if side.name not in TARGETS]
    for mine in ours:
        for theirs in (side for side in sides if side.name in TARGETS):
            for count in COUNTS:
                pairs = {k: of[mine.name, count][k] / of[theirs.name, count][k] for k in shared}
                lost = {k: round(v, 4) for k, v in pairs.items() if v < _LOST}
                record["against"][f"{mine.name} over {theirs.name}, first {count}"] = {
                    "ratio": interval(np.log(list(pairs.values())), rng),
                    "won": sum(value > 1 / _LOST for value in pairs.values()),
                    "lost": dict(sorted(lost.items(), key=lambda one: one[1])),
                }
    return record


def show(record: Record) -> None:
    """Print the tables."""
    print(f"{record['products']} products; configs that were not timed: {record['unmeasured']}")
    for name, rows in record["sides"].items():
        for count, row in rows.items():
            mean, low, high = row["of_best"]
            print(
                f"{name:>10} first {count:>2}: {mean:.4f} ({low:.4f} to {high:.4f}) of the best, "
                f"10th percentile {row['tenth_percentile']:.3f}, least {row['least']:.3f}; "
                f"{row['of_best_of_all_solvers']:.4f} of the best of all solvers"
            )
    for name, row in record["against"].items():
        mean, low, high = row["ratio"]
        print(f"{name}: {mean:.4f} ({low:.4f} to {high:.4f}), won {row['won']}")
        for key, value in row["lost"].items():
            print(f"    lost {value:.3f} {key}")


def read_products(paths: Iterable[Path], dtypes: Sequence[str]) -> list[Problem]:
    """The products of lists, in each of the types unless a line names its own."""
    found = []
    for path in paths:
        for line in path.read_text().splitlines():
            key = line.partition("#")[0].strip()
            if key:
                own = ":" in key.partition(":")[2]
                found += [requested_problem(key, None if own else one) for one in dtypes]
    return [one for one in dict.fromkeys(found) if isinstance(get(one.operation), Matmul)]


def main(argv: Sequence[str] | None = None) -> int:
    """One step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("picks", "score"))
    parser.add_argument("lists", type=Path, nargs="*", help="of products; for picks")
    parser.add_argument("--dtypes", default="f16,bf16", help="for lines that name none")
    parser.add_argument("--picks", type=Path, default=PICKS, help="the file of picks")
    parser.add_argument("--ledger", type=Path, help="a ledger, or a user directory with one")
    parser.add_argument("--ours", type=Path, action="append", default=[], help="a ranking")
    parser.add_argument("--only", type=Path, help="a list: score its products only")
    parser.add_argument("-o", "--output", type=Path, help="write the scores as JSON, too")
    args = parser.parse_args(argv)
    dtypes = args.dtypes.split(",")
    if args.step == "picks":
        record = make_picks(read_products(args.lists, dtypes))
        args.picks.write_text(json.dumps(record, separators=(",", ":"), sort_keys=True) + "\n")
        print(json.dumps(record["mapped"], indent=1))
        return 0
    if args.ledger is None:
        parser.error("score needs --ledger")
    picks = json.loads(args.picks.read_text())
    products = picks["products"]
    wanted = read_products([args.only], dtypes) if args.only else map(parse, products)
    keys = {one.key for one in wanted}
    found = read_trials([args.ledger], device_kind="cuda", operations=["matmul"])
    known = {one.problem.key: one for one in found if one.problem.key in keys & set(products)}
    if not known:
        parser.error(f"{args.ledger} has none of the products of {args.picks}")
    sides = [ranked(path) for path in args.ours]
    sides.append(analytic((one.problem for one in known.values()), describe(DEVICE)))
    sides += [
        Side(target, {key: first_configs(products[key][target]) for key in known})
        for target in TARGETS
    ]
    record = {"format": FORMAT, "name": "nv_matmul", "date": str(date.today()), "gpu": GPU}
    record |= {"library": picks["version"], "mapped": picks["mapped"], **score(sides, known)}
    show(record)
    if args.output:
        args.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
