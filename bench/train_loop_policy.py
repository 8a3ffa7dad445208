"""Train the policies for loop nests that come with Skipjack, from tables of measured schedules.

Needs torch, and tables that `loop_tables.py` measured::

    PYTHONPATH=src python3 bench/train_loop_policy.py --tables tables --out out --minutes 30

1. The network is taught the first proposals of the analytic order, on problems drawn by a seed:
   nothing is measured for that, and it learns to play.
2. It is taught what was measured: on each problem of the tables the way to a schedule that is as
   good as the best (of several, the one that comes first in the analytic order, so that alike
   problems have alike answers), and of all measured schedules what they are worth: the logarithm of
   their speed over that of the best.
3. Its own proposals and the analytic ones on further problems are ranked by what it holds them to
   be worth; where one is clearly better than what it plays, it is taught that (expert iteration).
4. For the preset looptune, a beam over games of ten actions looks for what the network holds to be
   worth most, and a second network is taught the ways there.

A tenth of the tables' problems is held out, and the log says how the policy does on them. Writes
``full.npz``, ``looptune.npz``, a card for each, and ``log.txt``.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np
import torch

import loop_problems
from skipjack import __version__
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.learn.loops import GameState, LoopGame, Preset, loop_game, loop_solver
from skipjack.learn.policy import (
    Policy,
    PolicyNetwork,
    greedy,
    proposals,
    write_policy,
)
from skipjack.learn.rates import LoopTable, join_tables, table_files
from skipjack.learn.training.cloning import (
    CloningOptions,
    Demonstration,
    clone,
    demonstrate,
    end_of,
    judge,
    lessons,
)
from skipjack.learn.training.episodes import Views, joined, view_of
from skipjack.learn.training.network import LoopNetwork, NetworkSizes, exported, imported, sizes_of
from skipjack.learn.training.planner import Planner
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace

NEAR = 1.03
"""A schedule that takes up to this much of the best one's time is as good."""
CLEARLY = 0.04
"""By how much more a schedule must be worth than what is played, to be taught instead."""
WORST = -4.0
"""What schedules are worth at least: the logarithm of a speed over the best."""
LONGEST_PLAN = 40
LOOPTUNE_ACTIONS = 10
HELD_OUT = 10
"""One of so many problems of the tables."""
DETOURS = 0.12


@dataclass(frozen=True, slots=True)
class Measured:
    """A problem of a table on its device."""

    problem: Problem
    device: Device
    times_ns: Mapping[str, float | None]

    @property
    def held_out(self) -> bool:
        digest = hashlib.sha256(self.problem.key.encode()).digest()
        return digest[0] % HELD_OUT == 0

    @property
    def best_ns(self) -> float:
        return min(ns for ns in self.times_ns.values() if ns is not None)

    def worth(self, text: str) -> float | None:
        """The logarithm of a schedule's speed over the best; None if it was not measured."""
        if text not in self.times_ns:
            return None
        ns = self.times_ns[text]
        return WORST if ns is None else max(WORST, log(self.best_ns / ns))


class Log:
    """What is printed and kept."""

    def __init__(self, path: Path) -> None:
        self._path, self._began = path, time.monotonic()
        path.write_text("")

    def __call__(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:7.1f} s  {text}"
        print(line, flush=True)
        with self._path.open("a") as file:
            file.write(line + "\n")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def read_measured(paths: Sequence[Path]) -> tuple[list[Measured], list[LoopTable]]:
    tables = join_tables(table_files(paths))
    found = [
        Measured(parse(key), table.header.device, times_ns)
        for table in tables
        for key, times_ns in table.times_ns.items()
        if sum(ns is not None for ns in times_ns.values()) > 8
    ]
    return found, tables


def space_of(problem: Problem, device: Device) -> ScheduleSpace:
    space = loop_solver(problem).space(problem, device)
    assert isinstance(space, ScheduleSpace)
    return space


def first_proposals(problem: Problem, device: Device, count: int) -> list[Schedule]:
    space = space_of(problem, device)
    return [space.schedule(config) for config in space.promising(count)]


def reachable(game: LoopGame, targets: Sequence[Schedule]) -> Schedule | None:
    """The first that a plan leads to."""
    planner = Planner(game)
    for target in targets:
        plan = planner.plan(target)
        if plan is not None and len(plan.actions) <= LONGEST_PLAN:
            return target
    return None


def good_schedule(each: Measured, game: LoopGame) -> Schedule | None:
    """As good as the best, and the first of those in the analytic order."""
    proposed = [one.text() for one in first_proposals(each.problem, each.device, 64)]
    known = {text: ns for text, ns in each.times_ns.items() if ns is not None}
    limit = NEAR * each.best_ns
    near = [text for text in proposed if known.get(text, limit + 1) <= limit]
    rest = sorted(known, key=known.__getitem__)[:24]
    return reachable(game, [Schedule.parse(text) for text in (*near, *rest)])


# The phases


def analytic(
    devices: Sequence[Device], seed: int, count: int, rng: np.random.Generator, log_: Log
) -> Iterator[Demonstration]:
    """The first proposal for each of so many problems, on one device each in turn."""
    drawn = itertools.islice(loop_problems.problems(seed), count)
    for number, problem in enumerate(drawn):
        device = devices[number % len(devices)]
        game = loop_game(problem, device, Preset.FULL)
        target = reachable(game, first_proposals(problem, device, 3))
        shown = demonstrate(game, target, rng, DETOURS) if target else None
        if shown is not None:
            yield shown
        if number % 500 == 499:
            log_(f"{number + 1} problems of {count} for the analytic order")


def taught_by_tables(
    measured: Sequence[Measured], repeats: int, rng: np.random.Generator
) -> tuple[list[Demonstration], list[tuple[Views, float]]]:
    shown: list[Demonstration] = []
    ends: list[tuple[Views, float]] = []
    for each in measured:
        game = loop_game(each.problem, each.device, Preset.FULL)
        target = good_schedule(each, game)
        for repeat in range(repeats if target else 0):
            assert target is not None
            one = demonstrate(game, target, rng, DETOURS if repeat else 0.0)
            if one is not None:
                shown.append(one)
        for text in each.times_ns:
            worth = each.worth(text)
            assert worth is not None
            schedule = Schedule.parse(text)
            if len(schedule.loops) <= 16:
                ends.append((end_of(game, schedule), worth))
    return shown, ends


def held(network: PolicyNetwork, game: LoopGame, schedules: Sequence[Schedule]) -> list[float]:
    """What the network holds schedules to be worth."""
    views = joined([end_of(game, schedule) for schedule in schedules])
    _, worth = network.forward_many(views.rows, views.present, views.cursor, views.machine)
    return [float(each) for each in worth]


def improved(
    network: PolicyNetwork,
    where: Sequence[tuple[Problem, Device, Measured | None]],
    rng: np.random.Generator,
) -> tuple[list[Demonstration], int]:
    """Demonstrations of what is held to be better than what is played; of what is played else."""
    policy = Policy(network, Preset.FULL, "in training")
    shown, better = [], 0
    for problem, device, known in where:
        game = loop_game(problem, device, Preset.FULL)
        played = [each.schedule for each in proposals(policy, game, 6)]
        every = list(dict.fromkeys([*played, *first_proposals(problem, device, 12)]))
        worth = dict(zip(every, held(network, game, every), strict=True))
        for one in every:
            sure = known.worth(one.text()) if known else None
            worth[one] = worth[one] if sure is None else sure
        best = sorted(every, key=lambda one: -worth[one])
        target = played[0]
        if worth[best[0]] > worth[target] + CLEARLY:
            target, better = best[0], better + 1
        reached = reachable(game, [target])
        way = demonstrate(game, reached, rng, DETOURS) if reached else None
        if way is not None:
            shown.append(way)
    return shown, better


def beam_ways(
    network: PolicyNetwork, where: Sequence[tuple[Problem, Device]], width: int
) -> Iterator[Demonstration]:
    """In the preset looptune: the ways to what is held to be worth most, found by a beam."""
    for problem, device in where:
        game = loop_game(problem, device, Preset.LOOPTUNE)
        full = loop_game(problem, device, Preset.FULL)
        best: tuple[int, ...] = ()
        best_worth = -np.inf
        lines: dict[GameState, tuple[int, ...]] = {game.start(): ()}
        seen = set(lines)
        for _ in range(LOOPTUNE_ACTIONS):
            nexts: dict[GameState, tuple[int, ...]] = {}
            for state, way in lines.items():
                for action in np.flatnonzero(game.mask(state)).tolist():
                    after = game.apply(state, action)
                    if after not in seen:
                        seen.add(after)
                        nexts[after] = (*way, action)
            if not nexts:
                break
            built = {state: game.built(state) for state in nexts}
            texts = list(dict.fromkeys(built.values()))
            worth = dict(zip(texts, held(network, full, texts), strict=True))
            # Several states of one schedule differ in the cursor: each line keeps its own.
            order = sorted(nexts, key=lambda state: -worth[built[state]])
            if order and worth[built[order[0]]] > best_worth + 1e-6:
                best, best_worth = nexts[order[0]], worth[built[order[0]]]
            lines = {state: nexts[state] for state in order[:width]}
        if best:
            yield _shown(game, best)


def _shown(game: LoopGame, way: Sequence[int]) -> Demonstration:
    state, views = game.start(), []
    for at, action in enumerate(way):
        views.append(view_of(game, state, way[:at]))
        state = game.apply(state, action)
    return Demonstration(joined(views), np.array(way, np.int64))


def check(network: PolicyNetwork, measured: Sequence[Measured], log_: Log, name: str) -> float:
    """How the first proposal does where it was measured, and what it is held to be worth else."""
    policy = Policy(network, Preset.FULL, "in training")
    found, analytic_found, sure, errors = [], [], 0, []
    for each in measured:
        game = loop_game(each.problem, each.device, Preset.FULL)
        schedule = greedy(policy, game).schedule
        (thought,) = held(network, game, [schedule])
        worth = each.worth(schedule.text())
        if worth is not None:
            sure += 1
            errors.append(abs(worth - thought))
        found.append(min(0.0, thought) if worth is None else worth)
        (first,) = first_proposals(each.problem, each.device, 1)
        known = each.worth(first.text())
        if known is not None:
            analytic_found.append(known)
    mine, other = float(np.exp(np.mean(found))), float(np.exp(np.mean(analytic_found)))
    log_(
        f"{name}: {len(found)} problems, policy {mine:.3f} of the best measured "
        f"(least {np.exp(min(found)):.2f}, {sure} of them measured), first of the analytic order "
        f"{other:.3f} (least {np.exp(min(analytic_found)):.2f}); error of worth "
        f"{np.mean(errors) if errors else float('nan'):.3f}"
    )
    return mine


def variants(tables: Sequence[LoopTable]) -> list[Device]:
    """The devices of the tables."""
    return [replace(table.header.device) for table in tables]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--problems", type=int, default=4000, help="for the analytic order")
    parser.add_argument("--further", type=int, default=400, help="for expert iteration, each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--passes", type=int, default=8, help="over the analytic order")
    parser.add_argument("--start", type=Path, help="an analytic.npz of an earlier run, for 1.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=64)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    log_ = Log(asked.out / "log.txt")
    rng = np.random.default_rng(asked.seed)
    torch.manual_seed(asked.seed)
    loop_problems.load_operations()
    measured, tables = read_measured(asked.tables)
    learned = [each for each in measured if not each.held_out]
    kept = [each for each in measured if each.held_out]
    log_(f"{len(learned)} problems of tables to learn from, {len(kept)} held out")
    devices = variants(tables)

    def over(share: float) -> bool:
        return bool(log_.seconds > share * asked.minutes * 60)

    # 1
    preset = Preset.FULL
    if asked.start:
        shown = []
        with np.load(asked.start, allow_pickle=False) as file:
            network = imported({name: file[name] for name in file.files if "." in name})
    else:
        shown = list(analytic(devices, asked.seed + 1000, asked.problems, rng, log_))
        network = taught_to_play(shown, asked, rng, log_)
        write_policy(asked.out / "analytic.npz", exported(network), preset)
    sizes = sizes_of(exported(network))
    # 2
    demos, ends = taught_by_tables(learned, 4, rng)
    log_(f"{len(demos)} games and {len(ends)} schedules of tables")
    further = shown[: len(demos) // 2]
    table_lessons = lessons([*demos, *further], ends)
    for curves in clone(network, table_lessons, rng, CloningOptions(passes=8)):
        log_(f"tables: {_text(curves)}")
    best = _checked(network, kept, learned, log_, "tables")
    arrays = exported(network)
    # 3
    for round_ in range(asked.rounds):
        if over(0.7):
            break
        numpy_network = PolicyNetwork(exported(network))
        fresh = itertools.islice(loop_problems.problems(asked.seed + 2000 + round_), asked.further)
        where: list[tuple[Problem, Device, Measured | None]] = [
            (problem, devices[number % len(devices)], None) for number, problem in enumerate(fresh)
        ]
        where += [(each.problem, each.device, each) for each in learned]
        more, better = improved(numpy_network, where, rng)
        log_(f"round {round_ + 1}: of {len(where)} problems {better} can be played better")
        mixed = lessons([*more, *demos], ends)
        options = CloningOptions(passes=3, learning_rate=4e-4)
        for curves in clone(network, mixed, rng, options):
            log_(f"round {round_ + 1}: {_text(curves)}")
        now = _checked(network, kept, learned, log_, f"round {round_ + 1}")
        if now >= best:
            best, arrays = now, exported(network)
    write(asked.out, preset, arrays, tables, learned, kept, best, asked, log_)
    # 4
    numpy_network = PolicyNetwork(arrays)
    fresh = itertools.islice(loop_problems.problems(asked.seed + 3000), 2 * asked.further)
    ways_at = [(each.problem, each.device) for each in learned]
    ways_at += [(p, devices[number % len(devices)]) for number, p in enumerate(fresh)]
    order = rng.permutation(len(ways_at))
    ways = []
    for at in order:
        ways += list(beam_ways(numpy_network, [ways_at[int(at)]], 6))
        if over(0.9):
            break
    log_(f"looptune: {len(ways)} ways")
    second = LoopNetwork(replace(sizes, actions=len(Preset.LOOPTUNE.actions)))
    cut = len(ways) - len(ways) // 20
    for curves in clone(second, lessons(ways[:cut]), rng, CloningOptions(passes=20)):
        log_(f"looptune: {_text(curves)}")
    log_(f"looptune, held out: {_text(judge(second, lessons(ways[cut:])))}")
    write(asked.out, Preset.LOOPTUNE, exported(second), tables, learned, kept, 0.0, asked, log_)


def taught_to_play(
    shown: Sequence[Demonstration], asked: argparse.Namespace, rng: np.random.Generator, log_: Log
) -> LoopNetwork:
    """A network that does what was shown."""
    sample = shown[0].views
    network = LoopNetwork(
        NetworkSizes(
            sample.rows.shape[2], sample.machine.shape[1], len(Preset.FULL.actions), asked.width
        )
    )
    cut = len(shown) - len(shown) // 20
    taught, tested = lessons(shown[:cut]), lessons(shown[cut:])
    log_(f"{len(taught)} states of {cut} games")
    for curves in clone(network, taught, rng, CloningOptions(passes=asked.passes)):
        log_(f"analytic order: {_text(curves)}")
    log_(f"analytic order, held out: {_text(judge(network, tested))}")
    return network


def _checked(
    network: LoopNetwork,
    kept: Sequence[Measured],
    learned: Sequence[Measured],
    log_: Log,
    name: str,
) -> float:
    numpy_network = PolicyNetwork(exported(network))
    check(numpy_network, learned[:60], log_, f"{name}, learned")
    return check(numpy_network, kept, log_, f"{name}, held out") if kept else 0.0


def _text(curves: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in curves.items())


def write(
    out: Path,
    preset: Preset,
    arrays: Mapping[str, np.ndarray],
    tables: Sequence[LoopTable],
    learned: Sequence[Measured],
    kept: Sequence[Measured],
    judged: float,
    asked: argparse.Namespace,
    log_: Log,
) -> None:
    """The policy, and a card that says where it is from."""
    imported(arrays)  # what cannot be trained on is not shipped
    write_policy(out / f"{preset}.npz", dict(arrays), preset)
    card = {
        "preset": str(preset),
        "script": "bench/train_loop_policy.py",
        "skipjack": __version__,
        "seed": asked.seed,
        "seconds": round(log_.seconds),
        "problems_of_the_analytic_order": asked.problems,
        "rounds_of_expert_iteration": asked.rounds,
        "tables": [
            {
                "device": table.header.device.name,
                "level": table.header.device.level,
                "threads": table.header.device.units,
                "compiler": table.header.compiler,
                "problems": len(table.times_ns),
                "schedules": table.entries,
            }
            for table in tables
        ],
        "learned_from": len(learned),
        "held_out": len(kept),
        "of_the_best_measured_on_held_out": round(judged, 4),
        "weights": int(sum(value.size for value in arrays.values())),
    }
    (out / f"{preset}.json").write_text(json.dumps(card, indent=2) + "\n")
    log_(f"wrote {preset}.npz")


if __name__ == "__main__":
    main()
