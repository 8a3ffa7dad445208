"""Train the policy for loop nests that comes with Skipjack, from tables of measured schedules.

Needs torch, tables that `loop_tables.py` measured, and the cost model that `loop_model.py` fitted
to them::

    PYTHONPATH=src python3 bench/train_loop_policy.py --tables bench/results/loop_tables --out out

1. For some thousand problems, drawn by a seed, and for those of the tables, a good schedule is
   looked for: the first proposals of the analytic order and what is bred from them, judged by the
   cost model and by what was measured. The network is taught the ways there, with detours.
2. Of schedules in the tables it is taught what they are worth: the logarithm of their speed over
   that of the best.
3. It plays further problems. Where the best of its own games and of the analytic proposals is
   clearly better than what it plays, it is taught that (expert iteration).

A tenth of the tables' problems is held out, as from the fit of the cost model, and the log says how
the policy does on them. Writes ``full.npz``, a card, and ``log.txt``. The policy of the preset
looptune is trained by `train_looptune_policy`.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np
import torch

import loop_problems
from skipjack import __version__
from skipjack.core import Device, Problem
from skipjack.learn.costs import shipped_model
from skipjack.learn.loops import LoopGame, Preset, loop_game, loop_solver
from skipjack.learn.policy import Policy, PolicyNetwork, greedy, planned, proposals, write_policy
from skipjack.learn.rates import LoopTable, join_tables, table_files
from skipjack.learn.training import NetworkSizes, exported, imported
from skipjack.learn.training.cloning import (
    CloningOptions,
    Demonstration,
    clone,
    cloning_data,
    demonstrate,
    end_of,
    evaluate_clone,
)
from skipjack.learn.training.episodes import Views
from skipjack.learn.training.network import LoopNetwork
from skipjack.learn.training.planner import Planner
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace

CLEARLY = 0.02
"""By how much faster (as a logarithm) a schedule must be than what is played, to be taught."""
WORST = -4.0
"""What schedules are worth at least: the logarithm of a speed over the best."""
MEASURED = 0.5
"""What a measured time counts beside the estimated one, in logarithms: single times are noisy."""
PROPOSED, BRED, ROUNDS, PARENTS = 64, 24, 2, 8
"""Candidates of a problem: of the analytic order, and bred from the best in each round."""
WORTHS = 16_000
"""Schedules whose worth is taught."""
LONGEST_PLAN = 40
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


Untrained = Callable[[Measured, LoopGame], dict[str, Schedule]]
"""What a policy is compared with, by name."""


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


class Judge:
    """What schedules of a problem take, in logarithms: estimated, and measured where they were."""

    def __init__(
        self,
        problem: Problem,
        device: Device,
        known: Measured | None = None,
        preset: Preset = Preset.FULL,
    ) -> None:
        self.problem, self.device, self._model = problem, device, shipped_model(preset)
        self._costs: dict[Schedule, float] = {}
        self._measured: dict[Schedule, float] = {}
        if known is not None:
            timed = {t: ns for t, ns in known.times_ns.items() if ns is not None}
            schedules = [Schedule.parse(text) for text in timed]
            estimates = self._estimates(schedules)
            logs = [log(ns) for ns in timed.values()]
            shift = float(np.median(np.array(estimates) - np.array(logs)))
            self._measured = {s: ns + shift for s, ns in zip(schedules, logs, strict=True)}

    def __call__(self, schedules: Sequence[Schedule]) -> list[float]:
        new = [one for one in dict.fromkeys(schedules) if one not in self._costs]
        for one, cost in zip(new, self._estimates(new), strict=True):
            sure = self._measured.get(one)
            self._costs[one] = cost if sure is None else MEASURED * sure + (1 - MEASURED) * cost
        return [self._costs[one] for one in schedules]

    def _estimates(self, schedules: Sequence[Schedule]) -> list[float]:
        return self._model.log_seconds(self.problem, self.device, schedules)

    def best_first(self, schedules: Sequence[Schedule]) -> list[Schedule]:
        """The fastest first, each once."""
        distinct = list(dict.fromkeys(schedules))
        costs = dict(zip(distinct, self(distinct), strict=True))
        return sorted(distinct, key=costs.__getitem__)


def candidates(judge: Judge, rng: np.random.Generator) -> list[Schedule]:
    """Good schedules of a problem, the best first."""
    space = space_of(judge.problem, judge.device)
    found = [space.schedule(config) for config in space.promising(PROPOSED)]
    for _ in range(ROUNDS):
        parents = [space.config(one) for one in judge.best_first(found)[:PARENTS]]
        children = [space.mutate(parents[at % len(parents)], rng) for at in range(BRED)]
        found += [space.schedule(child) for child in children]
    return judge.best_first([one for one in found if len(one.loops) <= 16])


# The phases


def good_ways(
    where: Sequence[tuple[Problem, Device, Measured | None]],
    repeats: int,
    rng: np.random.Generator,
    log_: Log,
) -> Iterator[Demonstration]:
    """The ways to a good schedule of each problem."""
    for number, (problem, device, known) in enumerate(where, 1):
        game = loop_game(problem, device, Preset.FULL)
        target = reachable(game, candidates(Judge(problem, device, known), rng)[:6])
        for repeat in range(repeats if target else 0):
            assert target is not None
            one = demonstrate(game, target, rng, DETOURS if repeat else 0.0)
            if one is not None:
                yield one
        if number % 500 == 0:
            log_(f"{number} problems of {len(where)}")


def worths(
    measured: Sequence[Measured], count: int, rng: np.random.Generator
) -> list[tuple[Views, float]]:
    """Some schedules of tables with what they are worth."""
    each_ = max(1, count // len(measured))
    ends: list[tuple[Views, float]] = []
    for each in measured:
        game = loop_game(each.problem, each.device, Preset.FULL)
        texts = list(each.times_ns)
        for at in rng.permutation(len(texts))[:each_]:
            schedule, worth = Schedule.parse(texts[at]), each.worth(texts[at])
            if worth is not None and len(schedule.loops) <= 16:
                ends.append((end_of(game, schedule), worth))
    return ends


def improved(
    network: PolicyNetwork,
    where: Sequence[tuple[Problem, Device, Measured | None]],
    rng: np.random.Generator,
) -> tuple[list[Demonstration], int]:
    """Demonstrations of what is better than what is played; of what is played else."""
    policy = Policy(network, Preset.FULL, "in training")
    shown, better = [], 0
    for problem, device, known in where:
        game = loop_game(problem, device, Preset.FULL)
        judge = Judge(problem, device, known)
        played = [each.schedule for each in proposals(policy, game, 12)]
        target = played[0]
        best = judge.best_first([*played, *first_proposals(problem, device, 24)])[0]
        if judge([best])[0] < judge([target])[0] - CLEARLY:
            target, better = best, better + 1
        reached = reachable(game, [target])
        way = demonstrate(game, reached, rng, DETOURS) if reached else None
        if way is not None:
            shown.append(way)
    return shown, better


def check(
    policy: Policy, measured: Sequence[Measured], log_: Log, name: str, others: Untrained
) -> float:
    """How what is planned does where it was measured, and what is estimated else."""
    found: dict[str, list[float]] = {}
    sure = 0
    for each in measured:
        game = loop_game(each.problem, each.device, policy.preset)
        chosen = {
            "planned": planned(policy, game)[0].schedule,
            "greedy": greedy(policy, game).schedule,
            **others(each, game),
        }
        judge = Judge(each.problem, each.device, each, policy.preset)
        timed = [text for text, ns in each.times_ns.items() if ns is not None]
        least = judge(judge.best_first([Schedule.parse(text) for text in timed])[:1])[0]
        for who, schedule in chosen.items():
            found.setdefault(who, []).append(least - judge([schedule])[0])
        sure += chosen["planned"].text() in each.times_ns
    means = {who: float(np.exp(np.mean(values))) for who, values in found.items()}
    log_(
        f"{name}: {len(measured)} problems, {sure} of them measured: "
        + ", ".join(
            f"{who} {means[who]:.3f} of the best (least {np.exp(min(values)):.2f})"
            for who, values in found.items()
        )
    )
    return means["planned"]


def variants(tables: Sequence[LoopTable]) -> list[Device]:
    """The devices of the tables."""
    return [replace(table.header.device) for table in tables]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--problems", type=int, default=4000, help="drawn to be taught")
    parser.add_argument("--further", type=int, default=400, help="for expert iteration, each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--passes", type=int, default=8, help="over what is taught")
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
    fresh = itertools.islice(loop_problems.problems(asked.seed + 1000), asked.problems)
    drawn: list[tuple[Problem, Device, Measured | None]] = [
        (problem, devices[number % len(devices)], None) for number, problem in enumerate(fresh)
    ]
    own: list[tuple[Problem, Device, Measured | None]] = [
        (each.problem, each.device, each) for each in learned
    ]
    shown = list(good_ways(drawn, 1, rng, log_))
    shown += good_ways(own, 3, rng, log_)
    order = rng.permutation(len(shown))
    shown = [shown[int(at)] for at in order]
    # 2
    ends = worths(learned, WORTHS, rng)
    network = taught_to_play(shown, ends, asked, rng, log_)
    best = _checked(network, kept, learned, log_, "taught")
    arrays = exported(network)
    # 3
    for round_ in range(asked.rounds):
        if over(0.6):
            break
        numpy_network = PolicyNetwork(exported(network))
        fresh = itertools.islice(loop_problems.problems(asked.seed + 2000 + round_), asked.further)
        where = [
            (problem, devices[number % len(devices)], None) for number, problem in enumerate(fresh)
        ]
        more, better = improved(numpy_network, [*where, *own[:: 1 + asked.rounds]], rng)
        log_(f"round {round_ + 1}: of {len(more)} problems {better} can be played better")
        mixed = cloning_data([*more, *more, *shown], ends)
        options = CloningOptions(epochs=3, learning_rate=4e-4)
        for curves in clone(network, mixed, rng, options):
            log_(f"round {round_ + 1}: {text_of(curves)}")
        now = _checked(network, kept, learned, log_, f"round {round_ + 1}")
        if now >= best:
            best, arrays = now, exported(network)
    write(
        *(asked.out, preset, arrays, tables, learned, kept, best, asked.seed, log_),
        problems_drawn=asked.problems,
        rounds_of_expert_iteration=asked.rounds,
    )


def taught_to_play(
    shown: Sequence[Demonstration],
    ends: Sequence[tuple[Views, float]],
    asked: argparse.Namespace,
    rng: np.random.Generator,
    log_: Log,
) -> LoopNetwork:
    """A network that does what was shown, and knows what schedules are worth."""
    sample = shown[0].views
    network = LoopNetwork(
        NetworkSizes(
            sample.rows.shape[2], sample.machine.shape[1], len(Preset.FULL.actions), asked.width
        )
    )
    cut = len(shown) - len(shown) // 20
    taught, tested = cloning_data(shown[:cut], ends), cloning_data(shown[cut:])
    log_(f"{len(taught)} states of {cut} games")
    for curves in clone(network, taught, rng, CloningOptions(epochs=asked.passes)):
        log_(f"taught: {text_of(curves)}")
    log_(f"taught, held out: {text_of(evaluate_clone(network, tested))}")
    return network


def _checked(
    network: LoopNetwork,
    kept: Sequence[Measured],
    learned: Sequence[Measured],
    log_: Log,
    name: str,
) -> float:
    policy = Policy(PolicyNetwork(exported(network)), Preset.FULL, "in training")
    check(policy, learned[:60], log_, f"{name}, learned", _analytic)
    return check(policy, kept, log_, f"{name}, held out", _analytic) if kept else 0.0


def _analytic(each: Measured, game: LoopGame) -> dict[str, Schedule]:
    return {"analytic": first_proposals(each.problem, each.device, 1)[0]}


def text_of(curves: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in curves.items())


def write(
    out: Path,
    preset: Preset,
    arrays: Mapping[str, np.ndarray],
    tables: Sequence[LoopTable],
    learned: Sequence[Measured],
    kept: Sequence[Measured],
    judged: float,
    seed: int,
    log_: Log,
    **asked_for: int,
) -> None:
    """The policy, and a card that says where it is from."""
    imported(arrays)  # what cannot be trained on is not shipped
    write_policy(out / f"{preset}.npz", dict(arrays), preset)
    card = {
        "preset": str(preset),
        "script": f"bench/{Path(sys.argv[0]).name}",
        "skipjack": __version__,
        "seed": seed,
        "seconds": round(log_.seconds),
        **asked_for,
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
