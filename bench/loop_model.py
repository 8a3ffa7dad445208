"""Fits the cost model of schedules that comes with Skipjack from tables of `loop_tables`.

Needs lightgbm, for the fit alone::

    python bench/loop_model.py bench/results/loop_tables -o src/skipjack/learn/costs/cost_model.npz

A tenth of the problems is left out of the fit. On those it is told how well schedules of a problem
are ordered (Spearman's correlation), and how fast the schedule is that the model takes for the
fastest, and the fastest of its first 10, as a share of the third fastest in the table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMRegressor
from numpy.typing import NDArray

import loop_problems
from skipjack.core.device import Device
from skipjack.learn.costs import TreeCostModel, cost_facts, cost_features, log_scale
from skipjack.learn.rates import LoopTable, read_tables
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule

TREES = {"num_leaves": 31, "learning_rate": 0.08, "n_estimators": 260, "min_child_samples": 20}
SAMPLED = {"colsample_bytree": 0.6, "subsample": 0.8, "subsample_freq": 1}
LEVEL_TREES = {"num_leaves": 8, "learning_rate": 0.1, "n_estimators": 80, "min_child_samples": 8}
LEFT_OUT = 10
"""One problem in so many is not fitted but predicted."""
_FEWEST = 8
_SLOWEST = 5.0
"""Times beyond 2 to the power of this over the best are as bad as that."""
_LUCK = 0.1
_GOOD = 2
"""How many schedules are faster than one that counts as the best."""
_WEIGHT = 0.7
"""Errors of schedules count by their speed over the best to the power of this."""
_LEAST_WEIGHT = 0.02
_WEIGHTS = {"emeraldrapids": 0.3}
"""Of tables whose times are noisier: see docs/loop-rates.md."""

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Measured:
    """The schedules of a problem on a device."""

    problem: str
    device: Device
    features: Matrix
    times: Matrix
    """Logarithms to base 2 of times over `log_scale`'s."""

    @property
    def best(self) -> float:
        """What good schedules take: the very fastest were partly lucky."""
        return float(np.partition(self.times, _GOOD)[_GOOD])

    @property
    def left_out(self) -> bool:
        """Whether it is for judging alone; the same problem on every device is."""
        return hashlib.sha256(self.problem.encode()).digest()[0] % LEFT_OUT == 0


def measured(tables: Sequence[LoopTable]) -> Iterator[Measured]:
    """Of every problem with enough schedules that ran."""
    for table in tables:
        device = table.header.device
        for key, times_ns in table.times_ns.items():
            timed = {text: ns for text, ns in times_ns.items() if ns is not None}
            if len(timed) >= _FEWEST:
                facts = cost_facts(parse(key), device)
                rows = [cost_features(facts, Schedule.parse(text)) for text in timed]
                seconds = np.array(list(timed.values())) * 1e-9
                yield Measured(
                    key,
                    device,
                    np.array(rows, np.float32),
                    (np.log2(seconds) - log_scale(facts)).astype(np.float32),
                )


def fit(given: Sequence[Measured], seed: int) -> TreeCostModel:
    """A model of these problems: how schedules compare with the best, and how fast that is."""
    features = np.concatenate([one.features for one in given])
    behind = np.concatenate([one.times - one.best for one in given]).clip(-_LUCK, _SLOWEST)
    weights = np.maximum(2.0 ** (-_WEIGHT * behind), _LEAST_WEIGHT)
    weights *= np.concatenate([np.full(len(one.times), _weight(one.device)) for one in given])
    compared = LGBMRegressor(**TREES, **SAMPLED, random_state=seed, n_jobs=1, verbose=-1)
    compared.fit(features, behind, sample_weight=weights)
    fixed = len(cost_facts(parse(given[0].problem), given[0].device).fixed)
    nests = np.array([one.features[0, :fixed] for one in given])
    level = LGBMRegressor(**LEVEL_TREES, random_state=seed, n_jobs=1, verbose=-1)
    level.fit(nests, np.array([one.best for one in given]))
    return as_arrays([compared, level])


def _weight(device: Device) -> float:
    return next((weight for name, weight in _WEIGHTS.items() if name == device.arch), 1.0)


def as_arrays(fitted: Sequence[LGBMRegressor]) -> TreeCostModel:
    """The trees of all of them, whose sum is what is told."""
    roots: list[int] = []
    nodes: list[tuple[int, float, int, int, float]] = []
    deepest = 0

    def add(node: dict[str, Any], depth: int) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        at = len(nodes)
        if "split_feature" not in node:
            nodes.append((0, np.inf, at, at, node["leaf_value"]))
            return at
        assert node["decision_type"] == "<="
        nodes.append((0, 0.0, 0, 0, 0.0))
        below, above = (add(node[side], depth + 1) for side in ("left_child", "right_child"))
        nodes[at] = (node["split_feature"], node["threshold"], below, above, 0.0)
        return at

    for one in fitted:
        for tree in one.booster_.dump_model()["tree_info"]:
            roots.append(add(tree["tree_structure"], 0))
    features, thresholds, below, above, values = zip(*nodes, strict=True)
    return TreeCostModel(
        np.array(roots, np.int32),
        np.array(features, np.int32),
        np.array(thresholds, np.float32),
        np.array(below, np.int32),
        np.array(above, np.int32),
        np.array(values, np.float32),
        deepest,
    )


def judge(model: TreeCostModel, given: Sequence[Measured]) -> dict[str, float]:
    """How well a model does on problems."""
    correlations, firsts, tens = [], [], []
    for one in given:
        told = model.predict(one.features)
        ranks = [np.argsort(np.argsort(values)) for values in (told, one.times)]
        correlations.append(float(np.corrcoef(ranks[0], ranks[1])[0, 1]))
        order = np.argsort(told)
        best = one.best
        firsts.append(float(best - one.times[order[0]]))
        tens.append(float(best - one.times[order[:10]].min()))
    return {
        "problems": len(given),
        "rank_correlation": round(float(np.mean(correlations)), 4),
        "speed_of_first": round(float(2 ** np.mean(firsts)), 4),
        "speed_of_best_of_10": round(float(2 ** np.mean(tens)), 4),
        "worst_of_first": round(float(2 ** np.min(firsts)), 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    loop_problems.load_operations()
    tables = [table for path in options.tables for table in read_tables(path)]
    everyone = list(measured(tables))
    fitted = [one for one in everyone if not one.left_out]
    model = fit(fitted, options.seed)
    groups = {
        f"{table.header.device.name} {8 * table.header.device.vector_bytes}-bit": table
        for table in tables
    }
    model.card.update(
        {
            "tables": {name: [len(t.times_ns), t.entries] for name, t in groups.items()},
            "left_out": {
                name: judge(model, [one for one in everyone if one.left_out and _is(one, table)])
                for name, table in groups.items()
                if any(one.left_out and _is(one, table) for one in everyone)
            },
            "fitted": judge(model, fitted),
            "seed": options.seed,
        }
    )
    model.save(options.output)
    print(json.dumps(model.card, indent=1))


def _is(one: Measured, table: LoopTable) -> bool:
    return one.device == table.header.device


if __name__ == "__main__":
    main()
