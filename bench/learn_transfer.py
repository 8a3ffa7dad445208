"""How good is a heuristic on a class of devices that it was not trained on?

::

    python bench/learn_transfer.py MODEL.npz --trained DIR --on OTHER_DIR --json RESULT

``--trained`` is a ledger of the problems that the model was fitted to: its winners are what the
nearest problem has. ``--on`` is a ledger of another class of devices, in which many configs of each
problem were timed. Problems whose shapes are in both are left out, unless ``--all`` is given: they
say how well winners carry over. Each way names the first of its configs that was timed there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path

import machine
from skipjack.learn.heuristic import (
    FIRST,
    HEURISTIC,
    NEAREST,
    is_better,
    named_configs,
    summarized_way,
)
from skipjack.learn.ranker import shape_group
from skipjack.learn.trials import read_trials
from skipjack.models import ConfigHeuristic


def main(argv: Sequence[str] | None = None) -> int:
    """Print and write the qualities of each way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--trained", type=Path, nargs="+", required=True)
    parser.add_argument("--on", type=Path, nargs="+", required=True)
    parser.add_argument("--all", action="store_true", help="problems of known shapes, too")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    heuristic = ConfigHeuristic.read(args.model.read_bytes(), str(args.model))
    known = read_trials(args.trained)
    shapes = set() if args.all else {shape_group(one.problem) for one in known}
    there = [
        one
        for one in read_trials(args.on)
        if heuristic.applies(one.problem, one.device)
        and one.best_ns < inf
        and shape_group(one.problem) not in shapes
    ]
    held = [named_configs(one, heuristic, known, only_measured=True) for one in there]
    found = {}
    for way in (HEURISTIC, FIRST, NEAREST):
        found[way] = asdict(summarized_way(held, way))
        print(f"{way:16} {found[way]}")
    for other in (FIRST, NEAREST):
        better, low, high = is_better(held, other)
        print(f"better than the {other}: {better} ({low:+.3f} to {high:+.3f})")
    if args.json and there:
        device = there[0].device
        result = machine.header("learn_transfer", device, [])
        nearest_on = sorted({one.device.name for one in known})
        trained_on = list(heuristic.card["devices"])
        result |= {"trained_on": trained_on, "nearest_on": nearest_on, "ways": found}
        machine.write_result(args.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
