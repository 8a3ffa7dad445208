"""Whether this code generates the same kernels for CPUs as an earlier checkout, text for text.

``bench/same_code.py CHECKOUT``, as ``git worktree add CHECKOUT COMMIT`` makes it. Both sides
draw the same problems of all families, devices and configs, by a seed, and lower them with every
solver that supports them; nothing is compiled or run. Prints the number of texts, and those that
differ; exits with 1 if any does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_LOWERED = """
import hashlib, json, sys
import numpy as np
from skipjack import solvers
from skipjack.testing.solver_sweep import DEVICES, random_problem
try:
    from skipjack.native.named_cpu import describe
except ImportError:
    from skipjack.native import describe
every = getattr(solvers, "all_solvers", None) or solvers.every
problems, configs, seed = map(int, sys.argv[1:])
rng = np.random.default_rng(seed)
for number in range(problems):
    problem = random_problem(rng)
    device = describe(DEVICES[int(rng.integers(len(DEVICES)))])
    for solver in sorted(every(), key=lambda one: one.name):
        if "cpu" not in solver.kinds or not hasattr(solver, "lower"):
            continue
        if solver.refuses(problem, device):
            continue
        space = solver.space(problem, device)
        draw = np.random.default_rng([seed, number])
        for _ in range(configs):
            config = space.sample(draw)
            text = solver.lower(problem, device, config).text
            digest = hashlib.sha256(text.encode()).hexdigest()
            print(json.dumps([problem.key, device.name, solver.name, config.key, digest]))
"""


def lowered(checkout: Path, arguments: argparse.Namespace) -> dict[tuple[str, ...], str]:
    """Digests of the texts that a checkout generates, by problem, device, solver and config."""
    words = [str(arguments.problems), str(arguments.configs), str(arguments.seed)]
    done = subprocess.run(
        [sys.executable, "-c", _LOWERED, *words],
        env=os.environ | {"PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rows = map(json.loads, done.stdout.splitlines())
    return {tuple(row[:4]): row[4] for row in rows}


def main() -> None:
    """Generate on both sides, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a work tree of the earlier commit")
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--configs", type=int, default=3, help="of each solver and problem")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    before = lowered(arguments.checkout.resolve(), arguments)
    now = lowered(_HERE.parent, arguments)
    differing = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key)]
    solvers = sorted({key[2] for key in now})
    print(f"{len(now):,} texts of {len(solvers)} solvers ({', '.join(solvers)})")
    for key in differing[:20]:
        print("differs:", *key)
    if differing:
        sys.exit(f"{len(differing)} differ")
    print("all are the same as before")


if __name__ == "__main__":
    main()
