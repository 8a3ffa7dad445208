"""Fits the cost model of schedules that comes with Skipjack from tables of `loop_tables`.

Needs lightgbm, for the fit alone::

    python bench/loop_model.py bench/results/loop_tables -o src/skipjack/learn/costs/cost_model.npz
    python bench/loop_model.py bench/results/loop_tables --part bench/results/loop_tables/looptune \
        -o src/skipjack/learn/costs/looptune_model.npz

Tables of ``--part`` have schedules of one part of the space alone, such as those of the preset
looptune: their fastest need not be fast. How fast they are is told by a model of the other tables,
and what is written is the mean of a model of all tables and one of the others.

A tenth of the problems is left out of the fit. On those it is told how well schedules of a problem
are ordered (Spearman's correlation), and how fast the schedule is that the model takes for the
fastest, and the fastest of its first 10, as a share of the third fastest in the table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMRegressor
from numpy.typing import NDArray

import loop_problems
from skipjack.core import Device
from skipjack.learn.costs import TreeCostModel, cost_facts, cost_features, log_scale
from skipjack.learn.rates import read_table, table_files
from skipjack.models import TreeEnsemble
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule

TREES = {"num_leaves": 31, "learning_rate": 0.05, "n_estimators": 600, "min_child_samples": 20}
FIRST_TREES = {**TREES, "learning_rate": 0.08, "n_estimators": 260}
"""Of the models that tell how fast the fastest of a part are."""
ROUNDS = 2
"""So many of them: of the other tables, then of all."""
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

    table: str
    """The table's file."""
    part: bool
    """Whether the table has schedules of one part of the space alone."""
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


def measured(path: Path, part: bool) -> Iterator[Measured]:
    """Of every problem of a table with enough schedules that ran."""
    table = read_table(path)
    device = table.header.device
    for key, times_ns in table.times_ns.items():
        timed = {text: ns for text, ns in times_ns.items() if ns is not None}
        if len(timed) >= _FEWEST:
            facts = cost_facts(parse(key), device)
            rows = [cost_features(facts, Schedule.parse(text)) for text in timed]
            seconds = np.array(list(timed.values())) * 1e-9
            times = (np.log2(seconds) - log_scale(facts)).astype(np.float32)
            name = f"{'looptune ' if part else ''}{path.name.partition('.')[0]}"
            yield Measured(name, part, key, device, np.array(rows, np.float32), times)


def fit(given: Sequence[Measured], seed: int) -> TreeCostModel:
    """A model of these problems: how schedules compare with the best, and how fast that is.

    With tables of a part, it is the mean of a model of all tables and one of the others: a schedule
    that only one of them takes for fast is seldom chosen.
    """
    whole = [one for one in given if not one.part]
    bests = {id(one): one.best for one in whole}
    compared = [_compared(whole, bests, seed, TREES)]
    if len(whole) < len(given):
        for _ in range(ROUNDS):
            known = [one for one in given if id(one) in bests]
            first = _compared(known, bests, seed, FIRST_TREES)
            bests |= {id(one): _best(one, first) for one in given if one.part}
        compared.append(_compared(given, bests, seed, TREES))
    fixed = len(cost_facts(parse(given[0].problem), given[0].device).fixed)
    nests = np.array([one.features[0, :fixed] for one in given])
    level = LGBMRegressor(**LEVEL_TREES, random_state=seed, n_jobs=1, verbose=-1)
    level.fit(nests, np.array([bests[id(one)] for one in given]))
    return as_arrays([(one, 1 / len(compared)) for one in compared] + [(level, 1.0)])


def _compared(
    given: Sequence[Measured], bests: Mapping[int, float], seed: int, trees: Mapping[str, Any]
) -> LGBMRegressor:
    """How schedules compare with the best."""
    features = np.concatenate([one.features for one in given])
    behind = np.concatenate([one.times - bests[id(one)] for one in given])
    behind_own = np.concatenate([one.times - one.best for one in given])
    weights = np.maximum(2.0 ** (-_WEIGHT * behind_own.clip(-_LUCK)), _LEAST_WEIGHT)
    weights *= np.concatenate([np.full(len(one.times), _weight(one.device)) for one in given])
    model = LGBMRegressor(**trees, **SAMPLED, random_state=seed, n_jobs=1, verbose=-1)
    model.fit(features, behind.clip(-_LUCK, _SLOWEST), sample_weight=weights)
    return model


def _best(one: Measured, model: LGBMRegressor) -> float:
    """What the best would take, by the model's word on the faster half of a part."""
    fast = one.times <= np.median(one.times)
    told = np.median(one.times[fast] - model.predict(one.features[fast]))
    return min(one.best, float(told))


def _weight(device: Device) -> float:
    return next((weight for name, weight in _WEIGHTS.items() if name == device.arch), 1.0)


def as_arrays(fitted: Sequence[tuple[LGBMRegressor, float]]) -> TreeCostModel:
    """The trees of all of them, whose sum is what is told; each counts by its share."""
    roots: list[int] = []
    nodes: list[tuple[int, float, int, int, float]] = []
    deepest = 0

    def add(node: dict[str, Any], depth: int, share: float) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        at = len(nodes)
        if "split_feature" not in node:
            nodes.append((0, np.inf, at, at, share * node["leaf_value"]))
            return at
        assert node["decision_type"] == "<="
        nodes.append((0, 0.0, 0, 0, 0.0))
        sides = [node[side] for side in ("left_child", "right_child")]
        below, above = (add(side, depth + 1, share) for side in sides)
        nodes[at] = (node["split_feature"], node["threshold"], below, above, 0.0)
        return at

    for one, share in fitted:
        for tree in one.booster_.dump_model()["tree_info"]:
            roots.append(add(tree["tree_structure"], 0, share))
    features, thresholds, below, above, values = zip(*nodes, strict=True)
    trees = TreeEnsemble(
        np.array(roots, np.int32),
        np.array(features, np.int32),
        np.array(thresholds, np.float32),
        np.array(below, np.int32),
        np.array(above, np.int32),
        np.array(values, np.float32),
        deepest,
    )
    return TreeCostModel(trees)


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
    parser.add_argument("--part", type=Path, nargs="*", default=[], help="tables of a part")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    loop_problems.load_operations()
    everyone = [
        one
        for part, paths in ((False, options.tables), (True, options.part))
        for path in table_files(paths)
        for one in measured(path, part)
    ]
    fitted = [one for one in everyone if not one.left_out]
    model = fit(fitted, options.seed)
    tables = {name: [one for one in everyone if one.table == name] for name in names(everyone)}
    left_out = {name: [one for one in some if one.left_out] for name, some in tables.items()}
    model.card.update(
        {
            "tables": {
                name: [len(some), sum(len(one.times) for one in some)]
                for name, some in tables.items()
            },
            "left_out": {name: judge(model, some) for name, some in left_out.items() if some},
            "fitted": judge(model, fitted),
            "seed": options.seed,
        }
    )
    model.save(options.output)
    print(json.dumps(model.card, indent=1))


def names(given: Sequence[Measured]) -> list[str]:
    """Of the tables, in their order."""
    return list(dict.fromkeys(one.table for one in given))


if __name__ == "__main__":
    main()
