"""Fits the cost model of schedules that comes with Skipjack from tables of `loop_tables`.

``python bench/loop_model.py tables -o src/skipjack/learn/rates/cost_model.npz``

A tenth of the problems is left out of the fit. On those it is told how well schedules of a problem
are ordered (Spearman's correlation), and how fast the schedule is that the model takes for the
fastest, and the fastest of its first 10, as a share of the fastest in the table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import loop_problems
from skipjack.core.device import Device
from skipjack.learn.rates import LoopTable, NetworkCostModel, read_tables
from skipjack.learn.rates.features import cost_facts, cost_features, log_scale
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule

HIDDEN = (160, 96)
LEFT_OUT = 10
"""One problem in so many is not fitted but predicted."""
_AT_ONCE = 24
"""Problems of a step."""
_FEWEST = 8
_LEVEL = 0.05
"""What an error of all schedules of a problem counts, beside errors between them."""
_LEAST_WEIGHT = 0.15

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Measured:
    """The schedules of a problem on a device."""

    problem: str
    device: Device
    features: Matrix
    times: Matrix
    """Logarithms to base 2 of times over `log_scale`'s."""
    weights: Matrix
    """What an error of each schedule counts: that of fast ones more."""

    @property
    def left_out(self) -> bool:
        """Whether it is for the judgement alone; the same problem on every device is."""
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
                weights = np.maximum((seconds.min() / seconds) ** 0.5, _LEAST_WEIGHT)
                yield Measured(
                    key,
                    device,
                    np.array(rows, np.float32),
                    (np.log2(seconds) - log_scale(facts)).astype(np.float32),
                    weights.astype(np.float32),
                )


@dataclass
class Fit:
    """A network under way, and Adam's memory."""

    parameters: list[Matrix]
    first: list[Matrix]
    second: list[Matrix]
    steps: int = 0

    @classmethod
    def begun(cls, sizes: Sequence[int], rng: np.random.Generator) -> Fit:
        """Random weights of such sizes."""
        parameters: list[Matrix] = []
        for fan_in, fan_out in pairwise(sizes):
            weights = rng.normal(0.0, (2.0 / fan_in) ** 0.5, (fan_in, fan_out))
            parameters += [weights.astype(np.float32), np.zeros(fan_out, np.float32)]
        zeros = [np.zeros_like(each) for each in parameters]
        return cls(parameters, zeros, [each.copy() for each in zeros])

    def step(self, features: Matrix, gradient_of: Any, rate: float) -> float:
        """One step of Adam; `gradient_of` gives the loss and its gradient by the predictions."""
        inputs, values = [], features
        layers = len(self.parameters) // 2
        for at in range(layers):
            inputs.append(values)
            values = values @ self.parameters[2 * at] + self.parameters[2 * at + 1]
            if at + 1 < layers:
                values = np.maximum(values, 0.0)
        loss, gradient = gradient_of(values[:, 0])
        back = gradient[:, None]
        self.steps += 1
        for at in reversed(range(layers)):
            by_weights, by_bias = inputs[at].T @ back, back.sum(axis=0)
            if at:
                back = (back @ self.parameters[2 * at].T) * (inputs[at] > 0)
            self._update(2 * at, by_weights + 1e-5 * self.parameters[2 * at], rate)
            self._update(2 * at + 1, by_bias, rate)
        return float(loss)

    def _update(self, number: int, gradient: Matrix, rate: float) -> None:
        first, second = self.first[number], self.second[number]
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        size = rate * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        self.parameters[number] -= size * first / (np.sqrt(second) + 1e-8)


def fit(given: Sequence[Measured], epochs: int, seed: int) -> NetworkCostModel:
    """A model of these problems."""
    rng = np.random.default_rng(seed)
    together = np.concatenate([one.features for one in given])
    mean = together.mean(axis=0)
    scale = np.maximum(together.std(axis=0), 1e-3).astype(np.float32)
    rows = [np.clip((one.features - mean) / scale, -6.0, 6.0) for one in given]
    network = Fit.begun((together.shape[1], *HIDDEN, 1), rng)
    network.parameters[-1] += np.concatenate([one.times for one in given]).mean()
    steps = -(-len(given) // _AT_ONCE)
    for epoch in range(epochs):
        order = rng.permutation(len(given))
        for at in range(steps):
            some = order[at * _AT_ONCE : (at + 1) * _AT_ONCE]
            progress = (epoch * steps + at) / (epochs * steps)
            rate = 2e-3 * min(1.0, 20 * progress + 0.05) * 0.5 * (1 + np.cos(np.pi * progress))
            chosen = [given[int(number)] for number in some]
            features = np.concatenate([rows[int(number)] for number in some])
            network.step(features, lambda told, one=chosen: _loss(one, told), rate)
    weights, biases = tuple(network.parameters[::2]), tuple(network.parameters[1::2])
    return NetworkCostModel(mean, scale, weights, biases)


def _loss(chosen: Sequence[Measured], told: Matrix) -> tuple[float, Matrix]:
    """Squared errors between schedules of a problem, and a little of their level."""
    gradient, loss, at = np.empty_like(told), 0.0, 0
    for one in chosen:
        part = slice(at, at + len(one.times))
        at = part.stop
        error = told[part] - one.times
        share = one.weights / one.weights.sum()
        level = float((share * error).sum())
        apart = error - level
        loss += float((share * apart**2).sum()) + _LEVEL * level**2
        gradient[part] = 2 * share * (apart + _LEVEL * level)
    gradient /= np.float32(len(chosen))
    return loss / len(chosen), gradient


def judge(model: NetworkCostModel, given: Sequence[Measured]) -> dict[str, float]:
    """How well a model does on problems."""
    correlations, firsts, tens = [], [], []
    for one in given:
        told = model.predict(one.features)
        ranks = [np.argsort(np.argsort(values)) for values in (told, one.times)]
        correlations.append(float(np.corrcoef(ranks[0], ranks[1])[0, 1]))
        order = np.argsort(told)
        best = one.times.min()
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
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    loop_problems.load_operations()
    tables = [table for path in options.tables for table in read_tables(path)]
    everyone = list(measured(tables))
    fitted = [one for one in everyone if not one.left_out]
    model = fit(fitted, options.epochs, options.seed)
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
            "epochs": options.epochs,
        }
    )
    model.save(options.output)
    print(json.dumps(model.card, indent=1))


def _is(one: Measured, table: LoopTable) -> bool:
    return one.device == table.header.device


if __name__ == "__main__":
    main()
