"""Train the policy of the preset looptune that comes with Skipjack.

Needs torch, tables of that preset (``loop_tables.py --beam``), and the cost model that
`loop_model` fitted to them::

    PYTHONPATH=src python3 bench/train_looptune_policy.py \\
        --tables bench/results/loop_tables/looptune --out out

For problems of the tables and others that are drawn by a seed, a beam over games of ten actions
looks for what is fastest by the cost model and by what was measured; a network is taught the ways
there. A tenth of the tables' problems is held out, as from the fit of the cost model. Writes
``looptune.npz``, its card, and ``log.txt``.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import loop_problems
from skipjack.core import Device, Problem
from skipjack.learn.loops import GameState, LoopGame, Preset, loop_game
from skipjack.learn.policy import MOST_ACTIONS, Policy, PolicyNetwork
from skipjack.learn.training import NetworkSizes, exported
from skipjack.learn.training.cloning import (
    CloningOptions,
    Demonstration,
    clone,
    cloning_data,
    evaluate_clone,
)
from skipjack.learn.training.episodes import joined, view_of
from skipjack.learn.training.network import LoopNetwork
from skipjack.solvers.cpu.nest import Schedule
from train_loop_policy import Judge, Log, Measured, check, read_measured, text_of, variants, write

PRESET = Preset.LOOPTUNE
BEAM = 8


def best_way(problem: Problem, device: Device, known: Measured | None) -> Demonstration | None:
    """The way to what is held to be fastest, found by a beam; None where that is the start."""
    game = loop_game(problem, device, PRESET)
    judge_ = Judge(problem, device, known, PRESET)
    best, best_cost = tuple[int, ...](), judge_([game.built(game.start())])[0]
    lines: dict[GameState, tuple[int, ...]] = {game.start(): ()}
    seen = set(lines)
    for _ in range(MOST_ACTIONS[PRESET]):
        nexts: dict[GameState, tuple[int, ...]] = {}
        for state, way in lines.items():
            for action in np.flatnonzero(game.mask(state)).tolist():
                after = game.apply(state, action)
                if after not in seen:
                    seen.add(after)
                    nexts[after] = (*way, action)
        if not nexts:
            break
        costs = dict(zip(nexts, judge_([game.built(state) for state in nexts]), strict=True))
        # Several states of one schedule differ in the cursor: each line keeps its own.
        order = sorted(nexts, key=costs.__getitem__)
        if costs[order[0]] < best_cost - 1e-6:
            best, best_cost = nexts[order[0]], costs[order[0]]
        lines = {state: nexts[state] for state in order[:BEAM]}
    return _shown(game, best) if best else None


def _shown(game: LoopGame, way: Sequence[int]) -> Demonstration:
    state, views = game.start(), []
    for at, action in enumerate(way):
        views.append(view_of(game, state, way[:at]))
        state = game.apply(state, action)
    return Demonstration(joined(views), np.array(way, np.int64))


def _untuned(each: Measured, game: LoopGame) -> dict[str, Schedule]:
    return {"untuned": game.built(game.start())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--tables", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--problems", type=int, default=600, help="drawn beside the tables'")
    parser.add_argument("--most", type=int, default=1600, help="problems in all")
    parser.add_argument("--passes", type=int, default=20, help="over what is taught")
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
    drawn = itertools.islice(loop_problems.problems(asked.seed + 1000), asked.problems)
    where: list[tuple[Problem, Device, Measured | None]] = [
        (problem, devices[number % len(devices)], None) for number, problem in enumerate(drawn)
    ]
    where += [(each.problem, each.device, each) for each in learned]
    ways = []
    chosen = [where[int(at)] for at in rng.permutation(len(where))[: asked.most]]
    for number, (problem, device, known) in enumerate(chosen, 1):
        way = best_way(problem, device, known)
        if way is not None:
            ways.append(way)
        if number % 500 == 0:
            log_(f"{number} problems of {len(chosen)}")
    views, cut = ways[0].views, len(ways) - len(ways) // 20
    log_(f"{len(ways)} ways")
    sizes = (views.rows.shape[2], views.machine.shape[1], len(PRESET.actions), asked.width)
    network = LoopNetwork(NetworkSizes(*sizes))
    for curves in clone(
        network, cloning_data(ways[:cut]), rng, CloningOptions(epochs=asked.passes)
    ):
        log_(f"taught: {text_of(curves)}")
    log_(f"taught, held out: {text_of(evaluate_clone(network, cloning_data(ways[cut:])))}")
    policy = Policy(PolicyNetwork(exported(network)), PRESET, "in training")
    judged = check(policy, kept, log_, "held out", _untuned)
    write(
        *(asked.out, PRESET, exported(network), tables, learned, kept, judged, asked.seed, log_),
        problems_drawn=asked.problems,
        problems_taught=len(chosen),
    )


if __name__ == "__main__":
    main()
