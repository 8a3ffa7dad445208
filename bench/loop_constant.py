"""The best constant sequence of actions: one for all nests, chosen on problems of the training set.

A policy that looks at a nest has to beat it. Candidates are the ways to the best known schedules of
some training problems, and the fixed recipe; the best of them is then changed action by action
while that helps. Each is scored on training problems (`loop_problems`), which no suite has::

    python bench/loop_constant.py --rates TABLES      # or model, or live; minutes

The result, ``bench/results/loops_constant.json``, is what `loop_policy` plays beside the policy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

import loop_problems
import machine
from loop_contest import play_constant
from skipjack.core import Device, Problem
from skipjack.learn.loops import LoopGame, Preset, loop_game, loop_space
from skipjack.learn.rates import Rates, open_rates
from skipjack.learn.training.planner import Planner
from skipjack.learn.tree import recipe_actions
from skipjack.native import cpu
from skipjack.solvers.cpu.nest import Schedule

RESULT = machine.RESULTS / "loops_constant.json"
SEED = 1
_FAILED = 0.02
"""The score of a schedule that cannot be run, as a share of the best."""
_LONGEST = {Preset.FULL: 30, Preset.LOOPTUNE: 10}
_PROMISING = 16


@dataclass(frozen=True, slots=True)
class Case:
    """A training problem, and the best time that is known of it."""

    problem: Problem
    game: LoopGame
    best_s: float
    best: Schedule


def cases(preset: Preset, count: int, rates: Rates, device: Device, seed: int = SEED) -> list[Case]:
    """The first training problems of a seed."""
    found = []
    for problem in islice(loop_problems.problems(seed), count):
        space = loop_space(problem, device)
        proposed = [space.schedule(config) for config in space.promising(_PROMISING)]
        seconds = rates.seconds(problem, proposed)
        known = [(taken, at) for at, taken in enumerate(seconds) if taken is not None]
        if known:
            taken, at = min(known)
            game = loop_game(problem, device, preset)
            found.append(Case(problem, game, taken, proposed[at]))
    return found


def score(names: Sequence[str], some: Sequence[Case], rates: Rates) -> float:
    """The geometric mean of the speed over the best known one's."""
    total = 0.0
    for case in some:
        (taken,) = rates.seconds(case.problem, [play_constant(case.game, names)])
        total += log(case.best_s / taken if taken else _FAILED)
    return exp(total / len(some))


def candidates(preset: Preset, some: Sequence[Case]) -> list[tuple[str, ...]]:
    """Ways to the best schedules, and the recipe."""
    found: dict[tuple[str, ...], None] = {}
    for case in some:
        found[tuple(recipe_actions(case.game))] = None
        if preset is Preset.FULL:
            plan = Planner(case.game).plan(case.best)
            if plan is not None:
                found[tuple(case.game.actions[action] for action in plan.actions)] = None
    return [names[: _LONGEST[preset]] for names in found]


def improved(
    names: tuple[str, ...], preset: Preset, some: Sequence[Case], rates: Rates, rounds: int
) -> tuple[tuple[str, ...], float]:
    """Change, add or drop one action at a time, and keep what scores better."""
    rng = np.random.default_rng(SEED)
    actions = [name for name in preset.actions if name != "stop"]
    best = score(names, some, rates)
    for _ in range(rounds):
        changed = list(names)
        at, kind = int(rng.integers(len(changed) + 1)), int(rng.integers(3))
        action = actions[int(rng.integers(len(actions)))]
        if kind == 0 or at == len(changed):
            changed.insert(at, action)
        elif kind == 1:
            changed[at] = action
        elif len(changed) > 1:
            del changed[at]
        if len(changed) > _LONGEST[preset]:
            continue
        value = score(changed, some, rates)
        if value > best:
            names, best = tuple(changed), value
    return names, best


def best_constant(
    preset: Preset, count: int, rounds: int, rates: Rates, device: Device
) -> dict[str, Any]:
    """The sequence, and how well it does on the training problems."""
    some = cases(preset, count, rates, device)
    ranked = sorted(candidates(preset, some), key=lambda names: -score(names, some, rates))
    found = [improved(names, preset, some, rates, rounds) for names in ranked[:3]]
    names, value = max(found, key=lambda pair: pair[1])
    print(f"{preset}: {value:.3f} of the best known: {','.join(names)}", flush=True)
    return {"actions": list(names), "score": round(value, 4), "problems": len(some)}


def read_constants(path: Path = RESULT) -> dict[Preset, tuple[str, ...]]:
    """The committed sequences."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return {preset: tuple(found[preset.value]["actions"]) for preset in Preset}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rates", default="model", help="model, live, or a folder of tables")
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    device = cpu.detect(options.threads)
    loop_problems.load_operations()
    rates = open_rates(options.rates, device)
    result = machine.header("loops_constant", device, ())
    result |= {"seed": SEED, "rates": Path(options.rates).name}
    for preset in Preset:
        result[preset.value] = best_constant(
            preset, options.problems, options.rounds, rates, device
        )
    result["sources"] = rates.sources
    machine.write_result(options.output, result)


if __name__ == "__main__":
    main()
