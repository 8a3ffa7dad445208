"""A budget of device time over many problems: what it saves where it is spent in different ways.

::

    python bench/device_seconds.py --spaces DIR/*_T4.json.gz --ledger ledger.sqlite --record

Each of 20 seeds draws a label: 60 problems with times, numbers of calls, durations of a trial and
curves of their searches. The curves are of five sources: ``synthetic`` (searches of spaces that
have many or few fast configs), ``even`` (the same, but all problems are called once and their times
differ by a factor of ten at most), ``recorded`` (Kernel Tuner's spaces, searched by the genetic
searcher), ``ledger`` (searches as a ledger has recorded them), and ``alike``, where all problems
are equal, so that nothing can be gained. Every way has the same device-seconds, pays for verdicts
in the same way, and has four evaluators; a verdict counts if it was begun in time. Compared are:

- ``gain``: expected gain times calls for each second, as ``skipjack run --device-seconds`` does
- ``equal``: the problem with the least device time so far goes on
- ``first``: problems in order, each with all of its trials
- ``heavy``: in order of calls times time, each with all of its trials
"""

from __future__ import annotations

import argparse
import glob
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

import machine
from skipjack.fleet.model import (
    SLICE_TRIALS,
    JobProgress,
    LabelBudget,
    SliceChoice,
    SliceRecord,
    choose_slices,
    expected_verdict,
)
from skipjack.learn.replay import RecordedSpace, load_recording, run_replay
from skipjack.learn.trials import opened_ledger
from skipjack.native import cpu

PROBLEMS, TRIALS, SEEDS, EVALUATORS = 60, 96, 20, 4
SHARES = (0.1, 0.25, 0.5)
"""Budgets as shares of what all trials of all problems would take."""
SETUP_S, VERDICT_TRIALS = 0.3, 6.0
"""Device time of a slice beside its trials, and that of a verdict in trials."""

Curve = Sequence[float]
"""The best time after each trial; infinite before the first success."""
Choose = Callable[[Sequence[JobProgress], LabelBudget, int], SliceChoice]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a simulated label."""

    curve: Curve
    calls: float
    trial_s: float
    size: float
    """The estimate of its time that is known before."""

    @property
    def first_ns(self) -> float:
        return next((time for time in self.curve if math.isfinite(time)), math.inf)


_DECADES = {"synthetic": (4.0, 6.5), "recorded": (4.0, 6.5), "even": (5.0, 6.0)}
"""Times of the problems, as logarithms to base 10 of nanoseconds."""

_LEAST = 0.001
"""What is added to shares of which ratios are made: a short budget may save nothing."""


# Labels


def synthetic_curve(rng: np.random.Generator) -> Curve:
    """A search that gets better as it goes on, in a space with many or few fast configs."""
    shape, scale = rng.uniform(0.6, 4.0), rng.uniform(0.1, 1.5)
    fails, focus = rng.uniform(0.0, 0.4), rng.uniform(0.0, 0.6)
    above = rng.gamma(shape, scale / shape, TRIALS)  # logarithms of the ratio to the optimum
    best, curve = math.inf, []
    for at, drawn in enumerate(above):
        if math.isfinite(best) and rng.random() < focus:
            drawn = best * rng.uniform(0.7, 1.6)  # a neighbour of the best
        if at == 0 or rng.random() >= fails:
            best = min(best, float(drawn))
        curve.append(best)
    return [math.exp(one) for one in curve]


def recorded_curves(spaces: Sequence[RecordedSpace]) -> list[Curve]:
    found: list[Curve] = [
        run_replay(space, "genetic", TRIALS, seed, batch=SLICE_TRIALS).curve
        for space in spaces
        for seed in range(60)
    ]
    return [curve for curve in found if math.isfinite(curve[0])]


def ledger_curves(path: Path) -> list[Curve]:
    """The searches of a ledger with enough trials, in the order of their tells."""
    found: list[Curve] = []
    with opened_ledger(path) as ledger:
        for study in ledger.studies():
            if study.tells < 32 or study.searcher == "listed":
                continue
            best, curve = math.inf, []
            for trial in ledger.trials(study.id)[:TRIALS]:
                if trial.ok and trial.value is not None:
                    best = min(best, trial.value)
                curve.append(best)
            if math.isfinite(best):
                found.append([*curve, *[best] * (TRIALS - len(curve))])
    return found


def label_of(source: str, seed: int, curves: Sequence[Curve]) -> list[Problem]:
    rng = np.random.default_rng((seed, len(source)))
    if source == "alike":
        curve = synthetic_curve(rng)
        while curve[-1] == next(one for one in curve if math.isfinite(one)):
            curve = synthetic_curve(rng)
        return [Problem([1e5 * one for one in curve], 1.0, 0.2, 1.0)] * PROBLEMS
    label = []
    for _ in range(PROBLEMS):
        curve = synthetic_curve(rng) if not curves else curves[int(rng.integers(len(curves)))]
        base_ns = 1.0 if source == "ledger" else 10 ** rng.uniform(*_DECADES[source])
        scaled = [base_ns * one for one in curve]
        first = next(one for one in scaled if math.isfinite(one))
        label.append(
            Problem(
                scaled,
                calls=1.0 if source == "even" else float(np.round(10 ** rng.uniform(0.0, 3.0))),
                trial_s=0.05 + 4e-9 * first + rng.exponential(0.1),
                size=first * 10 ** rng.normal(0.0, 0.5),
            )
        )
    return label


# Ways


def gain(jobs: Sequence[JobProgress], budget: LabelBudget, count: int) -> SliceChoice:
    return choose_slices(jobs, budget, count)


def by(order: Callable[[JobProgress], Any]) -> Choose:
    """Jobs in a fixed order, with as much reserved for verdicts as `gain` reserves."""

    def choose(jobs: Sequence[JobProgress], budget: LabelBudget, count: int) -> SliceChoice:
        ranked = sorted(jobs, key=order)
        ranks = {one.id: at for at, one in enumerate(ranked)}
        return choose_slices([replace(one, priority=-ranks[one.id]) for one in jobs], budget, count)

    return choose


WAYS: dict[str, Choose] = {
    "gain": gain,
    "equal": by(lambda one: (sum(s.seconds for s in one.slices), one.id)),
    "first": by(lambda one: one.id),
    "heavy": by(lambda one: (-one.calls * one.size, one.id)),
}


# Simulation


def simulate(label: Sequence[Problem], way: Choose, seconds: float) -> tuple[float, float]:
    """The time saved by all calls, in ns, and the device-seconds that were used."""
    jobs = [
        JobProgress(id, budget=TRIALS, calls=one.calls, size=one.size)
        for id, one in enumerate(label)
    ]
    used = won = 0.0
    verdicts: list[float] = []
    while True:
        budget = LabelBudget(seconds, used, expected_verdict(verdicts))
        choice = way([one for one in jobs if not one.ended], budget, EVALUATORS)
        if not (choice.slices or choice.verdicts):
            break
        for id in choice.slices:
            jobs[id], cost = _after_slice(jobs[id], label[id])
            used += cost
        for id in (*choice.verdicts, *(id for id in choice.slices if not jobs[id].open)):
            jobs[id] = replace(jobs[id], ended=True)
            cost = VERDICT_TRIALS * label[id].trial_s
            won += jobs[id].won_ns if used < seconds else 0.0
            used += cost
            slices = jobs[id].slices
            verdicts.append(cost * len(slices) / sum(one.seconds for one in slices))
    return won, used


def _after_slice(job: JobProgress, problem: Problem) -> tuple[JobProgress, float]:
    after = min(TRIALS, job.trials + SLICE_TRIALS)
    cost = SETUP_S + (after - job.trials) * problem.trial_s
    best = problem.curve[after - 1]
    known = math.isfinite(best)
    record = SliceRecord(after, best if known else None, cost)
    first = problem.first_ns if known else None
    return replace(job, slices=(*job.slices, record), trials=after, first_ns=first), cost


def total_s(label: Iterable[Problem]) -> float:
    rounds = math.ceil(TRIALS / SLICE_TRIALS)
    return sum(rounds * SETUP_S + (TRIALS + VERDICT_TRIALS) * one.trial_s for one in label)


def possible_ns(label: Iterable[Problem]) -> float:
    """What all trials of all problems save."""
    return sum((one.first_ns - one.curve[-1]) * one.calls for one in label)


def compare(source: str, curves: Sequence[Curve], share: float) -> dict[str, Any]:
    saved: dict[str, list[float]] = defaultdict(list)
    used: dict[str, list[float]] = defaultdict(list)
    for seed in range(SEEDS):
        label = label_of(source, seed, curves)
        seconds = share * total_s(label)
        for name, way in WAYS.items():
            won, seconds_used = simulate(label, way, seconds)
            saved[name].append(won / possible_ns(label))
            used[name].append(seconds_used / seconds)
    row: dict[str, Any] = {
        "source": source,
        "share_of_all_trials": share,
        "saved_of_possible": {
            name: round(float(np.mean(values)), 4) for name, values in saved.items()
        },
        "used_of_budget": {
            name: {"mean": round(float(np.mean(shares)), 3), "max": round(max(shares), 3)}
            for name, shares in used.items()
        },
        "gain_against": {},
    }
    for name in WAYS:
        if name == "gain":
            continue
        ratios = [
            (mine + _LEAST) / (other + _LEAST)
            for mine, other in zip(saved["gain"], saved[name], strict=True)
        ]
        row["gain_against"][name] = {
            "geometric_mean": round(geometric_mean(ratios), 3),
            "min": round(min(ratios), 3),
            "max": round(max(ratios), 3),
            "losses": sum(ratio < 0.999 for ratio in ratios),
            "seeds": len(ratios),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spaces", nargs="*", default=[], help="T4 files of recorded spaces")
    parser.add_argument("--ledger", type=Path, help="a ledger with recorded searches")
    parser.add_argument("--record", action="store_true", help="write bench/results")
    options = parser.parse_args()
    paths = [Path(path) for text in options.spaces for path in sorted(glob.glob(text))]  # noqa: PTH207
    spaces = [load_recording(path) for path in paths]
    curves: dict[str, list[Curve]] = {"synthetic": [], "even": [], "alike": []}
    if spaces:
        curves["recorded"] = recorded_curves(spaces)
    if options.ledger:
        curves["ledger"] = ledger_curves(options.ledger)
    rows = [compare(source, found, share) for source, found in curves.items() for share in SHARES]
    for row in rows:
        print(f"{row['source']}, {row['share_of_all_trials']:.0%} of the time of all trials:")
        print("   saved of what is possible:", row["saved_of_possible"])
        for name, ratio in row["gain_against"].items():
            print(
                f"   gain against {name}: {ratio['geometric_mean']}x "
                f"({ratio['min']} to {ratio['max']}), {ratio['losses']} of {SEEDS} lost"
            )
    if options.record:
        header = machine.header("device_seconds", cpu.detect(1), cpu.usable_cores())
        found = {
            "problems": PROBLEMS,
            "trials": TRIALS,
            "seeds": SEEDS,
            "evaluators": EVALUATORS,
            "spaces": [path.name for path in paths],
            "searches_of_the_ledger": len(curves.get("ledger", ())),
            "rows": rows,
        }
        machine.write_result(machine.RESULTS / "device_seconds.json", header | found)


if __name__ == "__main__":
    main()
