"""From the records of a contest to bars: ratios with intervals, and whether each bar is met.

A ratio is a rival's time over the policy's: above 1 the policy is faster. Means are geometric over
entries; intervals are from resampling entries, and within each the seeds or repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loop_contest import ANALYTIC, BEAM, BEST, CONSTANT, GENETIC, POLICY, PROMISING, Record
from skipjack.learn.policy import EvaluationScope

CONFIDENCE = 0.95
_DRAWS = 2000
_CLIP = 20.0
"""The most that one entry counts: also where one of both found nothing that runs."""
ALONE_MEAN, ALONE_LEAST = 0.95, 0.8
LOOPTUNE_MEAN = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A geometric mean over entries, its interval, and the least entry."""

    mean: float
    low: float
    high: float
    least: float
    least_at: str

    def text(self) -> str:
        """For the terminal."""
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_json(self) -> Record:
        """For result files."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


Logs = Sequence[NDArray[np.float64]]
"""Of each entry the logarithms of the ratios, one for each seed or repeat."""


def estimate(names: Sequence[str], logs: Logs) -> Estimate:
    """The mean over entries of the means within."""
    rng = np.random.default_rng(0)
    means = np.array([some.mean() for some in logs])
    draws = np.empty((_DRAWS, len(logs)))
    for at, some in enumerate(logs):
        draws[:, at] = some[rng.integers(len(some), size=(_DRAWS, len(some)))].mean(axis=1)
    chosen = rng.integers(len(logs), size=(_DRAWS, len(logs)))
    resampled = np.take_along_axis(draws, chosen, axis=1).mean(axis=1)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(resampled, [tail, 100 - tail])
    least = int(means.argmin())
    return Estimate(
        float(np.exp(means.mean())),
        float(np.exp(low)),
        float(np.exp(high)),
        float(np.exp(means[least])),
        names[least],
    )


def finalist_logs(record: Record, rival: str, own: str) -> NDArray[np.float64]:
    """Of each repeat: the rival's time over the own; of several schedules the best on the whole."""
    theirs, ours = (_repeats(record, name) for name in (rival, own))
    ratios = np.clip(theirs / ours, 1 / _CLIP, _CLIP)
    found: NDArray[np.float64] = np.log(np.where(np.isfinite(ratios), ratios, 1 / _CLIP))
    return found


def _repeats(record: Record, name: str) -> NDArray[np.float64]:
    rows = [
        np.array([_number(repeat[text]) for repeat in record["repeats"]])
        for text in record["finalists"][name]
    ]
    if not rows:
        return np.full(len(record["repeats"]), np.inf)
    return min(rows, key=lambda row: float(np.log(row).mean()))


def curve_logs(record: Record, rival: str, budget: int) -> NDArray[np.float64]:
    """Of each seed: the best of the rival's measurements over the best of the policy's."""
    ours, theirs = record["curves"][POLICY], record["curves"][rival]
    count = max(len(ours), len(theirs))
    ratios = [
        _number(theirs[at % len(theirs)][budget]) / _number(ours[at % len(ours)][budget])
        for at in range(count)
    ]
    clipped = np.clip(np.nan_to_num(np.array(ratios), nan=1.0), 1 / _CLIP, _CLIP)
    found: NDArray[np.float64] = np.log(clipped)
    return found


def _number(value: float | None) -> float:
    return np.inf if value is None else value


def summarize(records: Sequence[Record], budgets: Sequence[int]) -> Record:
    """Bars (a), (b) and (c) over all entries, and (a) and (b) by group."""
    names = [record["name"] for record in records]

    def ends(rival: str, own: str) -> Estimate:
        return estimate(names, [finalist_logs(record, rival, own) for record in records])

    alone = {who: ends(BEST, who) for who in (POLICY, PROMISING, CONSTANT)}
    looptune: dict[str, Estimate] = {}
    if f"looptune {POLICY}" in records[0]["finalists"]:
        looptune = {
            "of the beam": ends(f"looptune {BEAM}", f"looptune {POLICY}"),
            "constant of the beam": ends(f"looptune {BEAM}", f"looptune {CONSTANT}"),
            "over the constant": ends(f"looptune {CONSTANT}", f"looptune {POLICY}"),
            "over the untuned nest": ends("looptune untuned", f"looptune {POLICY}"),
        }
    return {
        "a": {
            "of the best": {who: each.to_json() for who, each in alone.items()},
            "over promising(1)": ends(PROMISING, POLICY).to_json(),
            "over the constant sequence": ends(CONSTANT, POLICY).to_json(),
            "met": alone[POLICY].mean >= ALONE_MEAN and alone[POLICY].least >= ALONE_LEAST,
        },
        "b": _searched(records, budgets),
        "c": {
            **{what: each.to_json() for what, each in looptune.items()},
            "met": bool(looptune)
            and looptune["of the beam"].mean >= LOOPTUNE_MEAN
            and looptune["over the constant"].low > 1.0,
        },
        "groups": {
            group: _group([record for record in records if record["group"] == group], budgets)
            for group in dict.fromkeys(record["group"] for record in records)
        },
        "beaten": [asdict(ground) for ground in grounds(records, budgets)],
    }


def _searched(records: Sequence[Record], budgets: Sequence[int]) -> Record:
    found: Record = {}
    names = [record["name"] for record in records]
    for at, budget in enumerate(budgets):
        over = {
            rival: estimate(names, [curve_logs(record, rival, at) for record in records])
            for rival in records[0]["curves"]
            if rival != POLICY
        }
        level = over[ANALYTIC].high >= 1.0
        better = [rival for rival, each in over.items() if each.low > 1.0]
        found[str(budget)] = {
            "over": {rival: each.to_json() for rival, each in over.items()},
            "level with the analytic order": level,
            "not better than": [r for r in over if r != ANALYTIC and r not in better],
            "met": level and len(better) + (ANALYTIC not in better) == len(over),
        }
    return found


def _group(records: Sequence[Record], budgets: Sequence[int]) -> Record:
    names = [record["name"] for record in records]
    alone = estimate(names, [finalist_logs(record, BEST, POLICY) for record in records])
    found: Record = {"of the best": alone.to_json()}
    for at, budget in enumerate(budgets):
        for rival in (ANALYTIC, GENETIC):
            logs = [curve_logs(record, rival, at) for record in records]
            found[f"over {rival} with {budget}"] = estimate(names, logs).to_json()
    return found


def grounds(records: Sequence[Record], budgets: Sequence[int]) -> list[EvaluationScope]:
    """Where ``auto`` may use the policy: it beat what ``auto`` does today, and the others as well.

    That is: with the two largest numbers of measurements, it is better than the genetic search
    beyond doubt, and than any other search and the analytic order in the mean.
    """
    found: dict[EvaluationScope, list[Record]] = {}
    for record in records:
        ground = EvaluationScope(record["group"], record["vector_bytes"], record["threads"] > 1)
        found.setdefault(ground, []).append(record)
    return [ground for ground, some in found.items() if len(some) > 1 and _beats_all(some, budgets)]


def _beats_all(records: Sequence[Record], budgets: Sequence[int]) -> bool:
    names = [record["name"] for record in records]
    for at in range(len(budgets))[-2:]:
        for rival in records[0]["curves"]:
            if rival == POLICY:
                continue
            over = estimate(names, [curve_logs(record, rival, at) for record in records])
            if over.mean < 1.0 or (rival == GENETIC and over.low <= 1.0):
                return False
    return True


def lines(summary: Record) -> list[str]:
    """The bars for the terminal."""

    def shown(each: dict[str, Any]) -> str:
        return (
            f"{each['mean']:.3f} [{each['low']:.3f}, {each['high']:.3f}], "
            f"least {each['least']:.3f} ({each['least_at']})"
        )

    alone, looptune = summary["a"], summary["c"]
    found = ["(a) without a measurement, of the best of a long search:"]
    found += [f"    {who:10} {shown(each)}" for who, each in alone["of the best"].items()]
    found += [
        f"    policy over {who}: {shown(alone[f'over {who}'])}"
        for who in ("promising(1)", "the constant sequence")
    ]
    found.append(f"    bar: mean at least 0.95, none under 0.8: {_verdict(alone['met'])}")
    for budget, each in summary["b"].items():
        found.append(f"(b) with {budget} measurements, policy over:")
        found += [f"    {rival:20} {shown(one)}" for rival, one in each["over"].items()]
        found.append(f"    bar: {_verdict(each['met'])}")
    found.append("(c) preset looptune:")
    found += [f"    {what:22} {shown(each)}" for what, each in looptune.items() if what != "met"]
    found.append(f"    bar: {_verdict(looptune['met'])}")
    places = [
        f"{one['group']} ({8 * one['vector_bytes']}-bit, "
        f"{'several threads' if one['several_threads'] else 'one thread'})"
        for one in summary["beaten"]
    ]
    found.append(f"auto may use the policy for: {', '.join(places) or 'nothing'}")
    return found


def _verdict(met: bool) -> str:
    return "met" if met else "missed"
