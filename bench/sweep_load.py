"""The limit of a service that is known, found by three methods with equal budgets.

In virtual time many times over and at several levels of noise, and under the real LoadGen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import exp, log
from typing import Any

import numpy as np

import sweep_loadgen
from sweep_methods import METHODS, Found, Holds, by_bisect, by_boundary, by_doubling
from sweep_service import Draw, Service

Record = dict[str, Any]

BUDGET = 16
"""Tests; what LoadGen's own search takes at its default precision."""
CLOSE = 0.05

LEVELS: Mapping[str, Service] = {
    "no stalls": Service(stall_share=0.0),
    "stalls in 5 % of tests": Service(stall_share=0.05),
    "stalls in 10 % of tests": Service(),
    "stalls in 20 % of tests": Service(stall_share=0.2),
    "slow queries": Service(slow_share=0.1, slow_factor=5.0, bound_ms=60.0),
    "longer tests": Service(queries=1000, stall_share=0.03),
}
"""Kinds of noise; the third is the one that runs under LoadGen."""


def limits(service: Service, tests: int = 4000) -> dict[str, float]:
    """Of every method: LoadGen's search looks at latency alone, the others at VALID."""
    rng = np.random.default_rng(0)
    valid = service.limit(rng, tests=tests)
    latency = service.limit(np.random.default_rng(0), valid=False, tests=tests)
    return {"boundary": valid, "bisect": valid, "find_peak": latency}


def a_range(limit: float, rng: np.random.Generator) -> tuple[int, int]:
    """Bounds as a user might give them: the limit is somewhere within a factor of four."""
    lower = round(limit * rng.uniform(0.35, 0.65))
    return lower, 4 * lower


def virtual(service: Service, repeats: int, tests: int = 1500) -> list[Record]:
    """All three methods, in virtual time; `tests` are those that the chances are from."""
    known, records = limits(service, tests), []
    chances = {kind: Curve(service, known["boundary"], tests, valid=kind) for kind in (True, False)}
    for repeat in range(repeats):
        rng = np.random.default_rng([7, repeat])
        lower, upper = a_range(known["boundary"], rng)
        valid, latency = (virtual_test(chances[kind], rng) for kind in (True, False))
        found = {
            "boundary": by_boundary(valid, lower, upper, BUDGET),
            "bisect": by_bisect(valid, lower, upper),
            "find_peak": by_doubling(latency, lower),
        }
        records.append(_record(repeat, lower, upper, found) | {"limits": known})
    return records


def virtual_test(curve: Curve, rng: np.random.Generator) -> Holds:
    """A test in virtual time, with new luck each time."""
    return lambda load: bool(rng.random() < curve(load))


class Curve:
    """The chance that a test holds, by load; worked out once."""

    def __init__(self, service: Service, limit: float, tests: int, *, valid: bool) -> None:
        draw = service.draw(np.random.default_rng(3), tests)
        self._loads = limit * np.concatenate(
            [[0.2, 0.4, 0.6, 0.75], np.arange(0.85, 1.15, 0.0125), [1.2, 1.3, 1.5]]
        )
        chances = [service.chance(load, draw, valid=valid) for load in self._loads]
        self._chances = np.array([*chances[:-1], 0.0])

    def __call__(self, load: float) -> float:
        return float(np.interp(load, self._loads, self._chances))


class Real:
    """The three methods under LoadGen, a repeat at a time."""

    def __init__(self, service: Service, seed: int, say: Callable[[str], None]) -> None:
        self.service = service
        self._seed = seed
        self._twin = service
        self._say = say
        self._agreed: list[bool] = []

    def calibrate(self) -> dict[str, float]:
        """Measure what sleeps really take, and work out the limits with that."""
        self._twin = sweep_loadgen.calibrated(self.service, np.random.default_rng(1))
        known = limits(self._twin)
        self._say(
            f"a query takes {self._twin.overshoot_ms:.3f} ms of a worker on top of its sleep, and "
            f"{self._twin.delay_ms:.3f} ms more; limit {known['boundary']:.0f} queries/s"
        )
        return known

    def repeat(self, number: int, known: Mapping[str, float]) -> Record:
        """One answer of every method; who begins changes from repeat to repeat."""
        rng = np.random.default_rng([11 + self._seed, number])
        lower, upper = a_range(known["boundary"], rng)
        self._agreed = []
        ways: dict[str, Callable[[], Found]] = {
            "boundary": lambda: by_boundary(self._test(rng), lower, upper, BUDGET),
            "bisect": lambda: by_bisect(self._test(rng), lower, upper),
            "find_peak": lambda: self._peak(lower, rng),
        }
        turn = number % len(METHODS)
        order = METHODS[turn:] + METHODS[:turn]
        found = {name: ways[name]() for name in order}
        record = _record(number, lower, upper, {name: found[name] for name in METHODS})
        twin = {"overshoot_ms": self._twin.overshoot_ms, "delay_ms": self._twin.delay_ms}
        agreed = {"tests": len(self._agreed), "agreed": sum(self._agreed)}
        return record | {"limits": dict(known), "calibration": twin, "simulation": agreed}

    def _test(self, rng: np.random.Generator) -> Holds:
        def holds(load: float) -> bool:
            draw = self.service.draw(rng, 1)
            test = sweep_loadgen.run_test(self.service, load, draw)
            self._agreed.append(test.valid == self._foreseen(load, draw))
            return test.valid

        return holds

    def _foreseen(self, load: float, draw: Draw) -> bool:
        return self._twin.chance(load, draw) == 1.0

    def _peak(self, start: float, rng: np.random.Generator) -> Found:
        peak = sweep_loadgen.find_peak(self.service, start, rng)
        return Found(peak.load, peak.tests)


def _record(repeat: int, lower: int, upper: int, found: Mapping[str, Found]) -> Record:
    return {
        "case": f"repeat {repeat}",
        "range": [lower, upper],
        "found": {name: asdict(one) for name, one in found.items()},
    }


def summary(records: Sequence[Record]) -> Record:
    """Of each method: how many answers are close, how far off they are, how many there are."""
    return {name: _of_method(name, records) for name in METHODS}


def _of_method(name: str, records: Sequence[Record]) -> Record:
    logs, covered, tests = [], [], []
    for record in records:
        limit = record["limits"][name]
        one = record["found"][name]
        tests.append(one["tests"])
        if one["low"] is not None:
            covered.append(one["low"] - 1 <= limit <= one["high"] + 1)
        if one["load"] is not None:
            logs.append(log(one["load"] / limit))
    close = sum(abs(off) <= log(1 + CLOSE) for off in logs)
    said: Record = {
        "answers": len(logs),
        "refusals": len(records) - len(logs),
        "within_5_percent": round(close / len(records), 4),
        "mean_tests": round(float(np.mean(tests)), 1),
    }
    if logs:
        said["geomean_ratio"] = round(exp(float(np.mean(logs))), 4)
        said["spread"] = round(float(np.std(logs)), 4)
        said["worst_ratio"] = round(exp(max(logs, key=abs)), 4)
    if covered:
        said["interval_right"] = round(float(np.mean(covered)), 4)
    return said


def lines(said: Record) -> list[str]:
    """A table of a summary."""
    head = f"{'method':<10}{'within 5 %':>11}{'ratio':>8}{'spread':>8}{'worst':>8}"
    table = [f"{head}{'refused':>9}{'tests':>7}"]
    for name, one in said.items():
        ratio, spread, worst = (
            f"{one[key]:>8.3f}" if key in one else f"{'-':>8}"
            for key in ("geomean_ratio", "spread", "worst_ratio")
        )
        close = f"{one['within_5_percent']:>11.0%}"
        counts = f"{one['refusals']:>9}{one['mean_tests']:>7.1f}"
        table.append(f"{name:<10}{close}{ratio}{spread}{worst}{counts}")
    return table
