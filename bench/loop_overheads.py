"""What the game of loops costs besides measurements: masks, actions, observations, environments.

Medians over states of random games, each asked once, so that nothing is remembered::

    PYTHONPATH=src python3 bench/loop_overheads.py -o bench/results/loop_overheads.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from skipjack.learn.loops import GameState, LoopGame, Preset, loop_game, observe
from skipjack.learn.rates import open_rates
from skipjack.native import cpu
from skipjack.operations import parse

PROBLEMS = (
    *("matmul:112x208x256", "bmm:8x64x64x64", "conv2d:n1c64h14w14k64y3x3p1q1"),
    *("add:1000000", "sum:300x200/axis=0"),
)
OBSERVED = ("loops_tensor", "stride_tensor", "policy", "ir_graph_networkx")
GAMES, ACTIONS = 40, 12
_US = 1e6


def random_states(game: LoopGame, rng: np.random.Generator) -> list[tuple[GameState, int]]:
    """States on the way of random games, and the action that is taken in each."""
    found = []
    for _ in range(GAMES):
        state = game.start()
        for _ in range(ACTIONS):
            able = np.flatnonzero(game.mask(state)).tolist()
            legal = [at for at in able if game.actions[at] != "stop"]
            if not legal:
                break
            action = legal[int(rng.integers(len(legal)))]
            found.append((state, action))
            state = game.apply(state, action)
    return found


def median_us(calls: Sequence[Callable[[], Any]]) -> float:
    """Of calls that are each made once."""
    times = []
    for call in calls:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return round(_US * median(times), 2)


def of_game(key: str, preset: Preset, seed: int) -> dict[str, float]:
    """Medians in microseconds on one problem."""
    problem, device = parse(key), cpu.detect()
    states = random_states(loop_game(problem, device, preset), np.random.default_rng(seed))
    game = loop_game(problem, device, preset)  # one that has seen none of them
    rates = open_rates("model", device)
    costs = {
        "mask": median_us([partial(game.mask, s) for s, _ in states]),
        "apply": median_us([partial(game.apply, s, a) for s, a in states]),
        "built": median_us([partial(game.built, s) for s, _ in states]),
    }
    for name in OBSERVED:
        costs[name] = median_us([partial(observe, game, s, name, ()) for s, _ in states])
    distinct = list(dict.fromkeys(game.built(state) for state, _ in states))
    costs["estimate"] = median_us([partial(rates.seconds, problem, [b]) for b in distinct])
    return costs


START = """
import time; began = time.perf_counter()
import gymnasium, skipjack.loops
loaded = time.perf_counter()
make = lambda: gymnasium.make("skipjack/LoopNest-v0", dataset="matmul:128x128x128",
                              rates="model", max_gflops=100.0)
make().reset(seed=0)
first = time.perf_counter()
for seed in range(32): make().reset(seed=seed)
print(loaded - began, first - loaded, (time.perf_counter() - first) / 32)
"""


def of_start() -> dict[str, float]:
    """Milliseconds until environments play, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    names = ("import", "first environment", "each further environment")
    return {
        name: round(1e3 * float(s), 1) for name, s in zip(names, done.stdout.split(), strict=True)
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    record: dict[str, Any] = {"device": cpu.detect().name, "start_ms": of_start(), "median_us": {}}
    print("; ".join(f"{name} {ms} ms" for name, ms in record["start_ms"].items()))
    for key in PROBLEMS:
        for preset in Preset:
            costs = record["median_us"][f"{key} {preset}"] = of_game(key, preset, options.seed)
            print(f"{key} {preset}: " + ", ".join(f"{n} {us} µs" for n, us in costs.items()))
    if options.output:
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
