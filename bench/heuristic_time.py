"""What an answer of a trained heuristic costs a program, beside a solver's first proposal.

::

    python bench/heuristic_time.py

For each heuristic that comes with Skipjack and each problem of its list, in turns: the *ranking*
(features of the problem, the trees, the confidence), the *proposal* (the ranking, and the first
members as legal configs of the problem: four on a CPU, one on a GPU), and what a lookup without a
heuristic does, the first config that the most promising solver proposes. The first call of each
kind, which loads the model, is not counted. Needs no GPU. The result is
``bench/results/heuristic_time_ARCH.json``.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import machine
from learning_tables import SHIPPED
from skipjack.core import Device, Problem, Promising
from skipjack.devices import describe
from skipjack.models import HEURISTIC_FILE, TRIED, ConfigHeuristic, heuristic_features
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.answers.trained import trained_proposal
from skipjack.settings import load_settings
from skipjack.solvers import solvers_for
from table_text import table

HOME = Path(__file__).resolve().parent
DEVICES = {"cpu-512": "znver4/1", "cpu-256": "haswell/1", "sm_90": "sm_90/132"}
LISTS = {"cpu": "learn_products.txt", "cuda": "learn_gpu_products.txt"}
ROUNDS, PROBLEMS = 5, 24
WAYS = ("ranking", "proposal", "first proposal")


def problems_of(device: Device) -> list[Problem]:
    """Some of the list for the device."""
    lines = (HOME / "lists" / LISTS[device.kind]).read_text(encoding="utf-8").splitlines()
    keys = [key for line in lines if (key := line.partition("#")[0].strip())]
    return [parse(key) for key in keys[:: max(1, len(keys) // PROBLEMS)]]


def measure(model: ConfigHeuristic, device: Device) -> dict[str, list[float]]:
    """Microseconds of each way: for each problem the median of rounds in turns."""
    settings = load_settings()
    found: defaultdict[str, list[float]] = defaultdict(list)
    for problem in problems_of(device):
        if not model.applies(problem, device):
            continue

        def ranking(problem: Problem = problem) -> None:
            features = heuristic_features(problem, device)
            first = model.rank(problem, device, features, TRIED)[0]
            model.confidence(features, first.behind)

        def proposal(problem: Problem = problem) -> None:
            trained_proposal(problem, device, settings)

        def first_proposal(problem: Problem = problem) -> None:
            space = solvers_for(problem, device)[0].space(problem, device)
            if isinstance(space, Promising):
                space.promising(1)

        ways = dict(zip(WAYS, (ranking, proposal, first_proposal), strict=True))
        took: defaultdict[str, list[float]] = defaultdict(list)
        for number in range(ROUNDS + 1):
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                if number:
                    took[name].append((time.perf_counter() - began) * 1e6)
        for name, every in took.items():
            found[name].append(float(np.median(every)))
    return found


def main() -> int:
    """Measure, print and write."""
    gc.disable()
    result: dict[str, Any] = machine.header("heuristic_time", cpu.detect(), [])
    result["models"] = {}
    rows = []
    for path in sorted(SHIPPED.glob(f"{HEURISTIC_FILE}-*.npz")):
        model = ConfigHeuristic.read(path.read_bytes(), path.name)
        times = measure(model, describe(DEVICES[model.device]))
        ratios = np.array(times["proposal"]) / np.array(times["first proposal"])
        known = {
            way: {
                "median_us": round(float(np.median(times[way])), 1),
                "p95_us": round(float(np.quantile(times[way], 0.95)), 1),
            }
            for way in WAYS
        }
        spread = [round(float(one), 3) for one in np.quantile(ratios, (0.05, 0.5, 0.95))]
        name = f"{model.group}, {model.device}"
        result["models"][name] = {
            "problems": len(ratios),
            **known,
            "proposal_over_first_proposal": dict(zip(("p5", "median", "p95"), spread, strict=True)),
        }
        cells = [f"{one['median_us']:.0f} ({one['p95_us']:.0f})" for one in known.values()]
        rows.append((name, *cells, f"{spread[1]:.2f} ({spread[0]:.2f} to {spread[2]:.2f})"))
    print(table(("heuristic", *(f"{way}, µs (p95)" for way in WAYS), "ratio"), rows))
    machine.write_result(machine.RESULTS / f"heuristic_time_{cpu.detect().arch}.json", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
