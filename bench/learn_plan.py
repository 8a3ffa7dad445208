"""Which configs of which problems are timed on a GPU to learn from: chosen before, without a GPU.

For each problem: the first proposals of each solver, configs that the pool has for problems like
it, what `nv_matmul` maps to our kernel, and configs drawn from the whole space. The pool holds
configs that many problems of a group propose, and the winners that the system bank ships. With each
config goes the key of its build: configs with the same kernels are built once for all problems.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nv_matmul import SOLVER, TARGETS, first_configs
from skipjack.bank import FILE_NAME, PERF, Bank
from skipjack.bank.layers import SYSTEM_DIR
from skipjack.core import Config, Device, ParameterSpace, Problem
from skipjack.operations import Convolution, Matmul, get, parse
from skipjack.runtime.local_kernels import requested_problem
from skipjack.solvers import BuildingSolver, refusal, solvers_for, source_key

FORMAT = 1
PROPOSALS, OTHERS = 16, 8
"""First proposals of the solver that a search would begin with, and of each other solver."""
POOL = 24
"""Configs of the pool for a solver and a group of problems."""
DRAWN = 80
"""Configs that are drawn for a solver and a group of problems."""
UPPER = 400
"""Half of the drawn configs are among so many of the first proposals."""
KIND = ("tile_m", "tile_n", "splits", "walk", "swap", "box", "cols", "k", "c")
SAME_KIND = 2
"""At most so many configs of the pool have these settings in common."""
SHIPPED = 1.0
"""The weight of a winner in the pool; a first proposal has a quarter."""
MATMUL_GROUPS = (16, 32, 64)


@dataclass(frozen=True, slots=True)
class Listed:
    """A problem of a list, and the family that it belongs to there."""

    family: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class PlannedConfig:
    """A config to be timed."""

    solver: str
    config: Config
    build: str
    """Configs with the same key have the same kernels."""


@dataclass(frozen=True, slots=True)
class PlannedProblem:
    """A problem and its configs, solver by solver."""

    family: str
    problem: Problem
    configs: tuple[PlannedConfig, ...]


def read_list(path: Path, dtypes: Sequence[str] = ()) -> list[Listed]:
    """The problems of a list; a comment begins a family, which is named before the colon.

    Lines that name no type stand for a problem in each of `dtypes`, which are families of their
    own.
    """
    found, family = [], path.stem
    for line in path.read_text().splitlines():
        key, _, comment = line.partition("#")
        if not key.strip():
            family = comment.partition(":")[0].strip() or family
            continue
        names_type = ":" in key.partition(":")[2]
        for dtype in ("",) if names_type or not dtypes else dtypes:
            problem = requested_problem(key.strip(), dtype or None)
            name = f"{path.stem}/{family}/{dtype}".rstrip("/")
            found.append(Listed(name, problem))
    return found


def interleaved(listed: Iterable[Listed], rng: np.random.Generator) -> list[Listed]:
    """All families at once, each in an order drawn at random: an early end leaves out none."""
    families: defaultdict[str, list[Listed]] = defaultdict(list)
    for one in listed:
        families[one.family].append(one)
    placed = []
    for number, family in enumerate(families.values()):
        order = rng.permutation(len(family))
        placed += [
            ((place + 0.5) / len(family), number, family[at]) for place, at in enumerate(order)
        ]
    return [one for _, _, one in sorted(placed, key=lambda each: each[:2])]


def group_of(problem: Problem) -> str:
    """Problems of a group have the same pool: kinds of heights, or directions and layouts."""
    operation = get(problem.operation)
    if isinstance(operation, Matmul):
        _, rows, _, _ = operation.sizes(problem)
        return next((f"m{most}" for most in MATMUL_GROUPS if rows <= most), "m")
    return ":".join(problem.key.split(":")[3:])


@dataclass(frozen=True)
class _Offer:
    """A solver's space for a problem, and its order."""

    solver: BuildingSolver
    space: ParameterSpace
    order: Sequence[Config]


def plan(
    listed: Sequence[Listed],
    device: Device,
    picks: Mapping[str, Mapping[str, Any]],
    count: int,
    fewer: Mapping[str, int],
    seed: int = 0,
) -> Iterator[PlannedProblem]:
    """The configs of each problem: `count`, or as many as `fewer` has for its family."""
    offers = {one.problem: _offers(one.problem, device) for one in listed}
    pool = _pool(offers, picks)
    drawn = _draws(offers, np.random.default_rng(seed))
    for number, one in enumerate(listed):
        rng = np.random.default_rng([seed, number])
        own = picks.get(one.problem.key, {})
        group, of = group_of(one.problem), offers[one.problem]
        chosen = _chosen(of, group, pool, own)
        most = next((n for name, n in fewer.items() if name in one.family), count)
        shared = {offer.solver.name: drawn[offer.solver.name, group] for offer in of}
        _fill(chosen, of, shared, most, rng)
        yield PlannedProblem(
            one.family,
            one.problem,
            tuple(
                PlannedConfig(
                    offer.solver.name, config, build_key(one.problem, device, offer.solver, config)
                )
                for offer in of
                for config in chosen[offer.solver.name]
            ),
        )


def _offers(problem: Problem, device: Device) -> list[_Offer]:
    found = []
    for solver in solvers_for(problem, device):
        if refusal(solver, problem, device):
            continue
        space = solver.space(problem, device)
        assert isinstance(space, ParameterSpace)
        found.append(_Offer(solver, space, space.promising(UPPER)))
    return found


def build_key(problem: Problem, device: Device, solver: BuildingSolver, config: Config) -> str:
    """Configs with the same key have the same kernels."""
    return source_key(solver, solver.lower(problem, device, config))[:16]


Pool = Mapping[tuple[str, str], Sequence[Config]]
"""By solver and group."""


def _pool(
    offers: Mapping[Problem, Sequence[_Offer]], picks: Mapping[str, Mapping[str, Any]]
) -> Pool:
    """What many problems of a group propose early, and the system's winners."""
    weights: defaultdict[tuple[str, str], defaultdict[Config, float]]
    weights = defaultdict(lambda: defaultdict(float))
    for problem, of in offers.items():
        group = group_of(problem)
        for offer in of:
            for rank, config in enumerate(offer.order[:64]):
                weights[offer.solver.name, group][config] += 1 / (rank + 4)
        own = picks.get(problem.key, {})
        for target in TARGETS:
            for rank, config in enumerate(first_configs(own.get(target, ()))):
                weights[SOLVER, group][config] += 0.2 / (rank + 4)
    for problem, solver, config in _system_winners():
        weights[solver, group_of(problem)][config] += SHIPPED
    return {place: _diverse(found) for place, found in weights.items()}


def _diverse(weights: Mapping[Config, float]) -> list[Config]:
    """The heaviest, few of each kind."""
    seen: Counter[tuple[Any, ...]] = Counter()
    found: list[Config] = []
    for config, _ in sorted(weights.items(), key=lambda one: (-one[1], one[0].key)):
        kind = tuple(config.get(name) for name in KIND)
        if seen[kind] < SAME_KIND and len(found) < POOL:
            seen[kind] += 1
            found.append(config)
    return found


def _system_winners() -> Iterator[tuple[Problem, str, Config]]:
    """What the system bank has for GPUs."""
    for entry in Bank(SYSTEM_DIR / FILE_NAME, writable=False).all_entries():
        if entry.kind == PERF and entry.device.startswith("cuda:"):
            problem = parse(entry.problem)
            if isinstance(get(problem.operation), Matmul | Convolution):
                yield problem, entry.solver, Config(entry.config)


def _chosen(
    offers: Sequence[_Offer], group: str, pool: Pool, picks: Mapping[str, Any]
) -> dict[str, dict[Config, None]]:
    """All but the drawn configs; each once, in order."""
    found: dict[str, dict[Config, None]] = {}
    for place, offer in enumerate(offers):
        name = offer.solver.name
        first = offer.order[: OTHERS if place else PROPOSALS]
        if name == SOLVER:
            named = [one for target in TARGETS for one in first_configs(picks.get(target, ()))]
        else:
            named = []
        shared = pool.get((name, group), ())[: OTHERS if place else POOL]
        legal = [one for one in (*named, *shared) if offer.space.contains(one)]
        found[name] = dict.fromkeys([*first, *legal])
    return found


def _draws(offers: Mapping[Problem, Sequence[_Offer]], rng: np.random.Generator) -> Pool:
    """Configs drawn for a solver and a group, by turns from the upper part and the whole space.

    The problems of a group share them, so that they share builds and their times form a table.
    """
    spaces: defaultdict[tuple[str, str], list[_Offer]] = defaultdict(list)
    for problem, of in offers.items():
        for offer in of:
            spaces[offer.solver.name, group_of(problem)].append(offer)
    found: dict[tuple[str, str], list[Config]] = {}
    for place, of_group in spaces.items():
        drawn: dict[Config, None] = {}
        for turn in range(DRAWN):
            offer = of_group[int(rng.integers(len(of_group)))]
            upper = offer.order[int(rng.integers(len(offer.order)))]
            drawn[offer.space.sample(rng) if turn % 2 else upper] = None
        found[place] = list(drawn)
    return found


def _fill(
    chosen: dict[str, dict[Config, None]],
    offers: Sequence[_Offer],
    drawn: Mapping[str, Sequence[Config]],
    count: int,
    rng: np.random.Generator,
) -> None:
    """Add drawn configs until there are `count`; the first solver gets two of three."""
    left = {
        name: [configs[at] for at in rng.permutation(len(configs))]
        for name, configs in drawn.items()
    }
    for turn in range(4 * count):
        if sum(map(len, chosen.values())) >= count:
            return
        others = offers[1:]
        offer = others[turn // 3 % len(others)] if others and turn % 3 == 0 else offers[0]
        name = offer.solver.name
        config = left[name].pop() if left[name] else offer.space.sample(rng)
        if offer.space.contains(config):
            chosen[name][config] = None


# The file that travels.


def write_plan(path: Path, device: str, problems: Iterable[PlannedProblem]) -> None:
    """Write compressed JSON."""
    record = {
        "format": FORMAT,
        "device": device,
        "problems": [
            {
                "family": one.family,
                "problem": one.problem.key,
                "configs": [[each.solver, dict(each.config), each.build] for each in one.configs],
            }
            for one in problems
        ],
    }
    path.write_bytes(gzip.compress(json.dumps(record, separators=(",", ":")).encode(), mtime=0))


def read_plan(path: Path) -> list[PlannedProblem]:
    """The inverse of `write_plan`."""
    record = json.loads(gzip.decompress(path.read_bytes()))
    return [
        PlannedProblem(
            one["family"],
            parse(one["problem"]),
            tuple(PlannedConfig(solver, Config(c), build) for solver, c, build in one["configs"]),
        )
        for one in record["problems"]
    ]
