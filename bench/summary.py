"""From the rounds of each shape to numbers over all shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any

import numpy as np

from contenders import PEERS, UNTUNED, Field
from roofline import ratio_record
from shapes import Shape
from stand import Rounds

LOSS = 0.95
"""Below this share of a rival's speed a shape counts as lost."""
_RESAMPLES = 10_000

Record = dict[str, Any]


def shape_record(
    shape: Shape, tuning: Mapping[str, Record], there: Field, rounds: Rounds, subjects: list[str]
) -> Record:
    """Everything about one shape, small enough to be kept in a repository."""
    peak = rounds.peak_flops_per_s
    contenders = {}
    for name in there.kernels:
        rate = shape.flops / rounds.time_ns(name) * 1e9
        contenders[name] = {
            "time_us": round(rounds.time_ns(name) / 1e3, 3),
            "gflops": round(rate / 1e9, 2),
            "peak_share": round(rate / peak, 4),
            "error_over_tolerance": round(there.errors[name], 4),
        }
    ratios = {
        subject: {
            rival: ratio_record(rounds.ratio(rival, subject))
            for rival in there.kernels
            if rival != subject
        }
        for subject in subjects
        if subject in there.kernels
    }
    return {
        "shape": shape.name,
        "flops": shape.flops,
        "tuning": dict(tuning),
        "tvm": _tvm(there.tvm),
        "rounds": rounds.count,
        "quiet_rounds": rounds.quiet,
        "peak_gflops": round(peak / 1e9, 2),
        "contenders": contenders,
        "ratios": ratios,
        "skipped": there.skipped,
    }


def _tvm(meta: Mapping[str, Any]) -> Record | None:
    if not meta:
        return None
    kept = ("tvm", "date", "trials", "trials_valid", "tuning_seconds", "gflops")
    return {name: meta[name] for name in kept}


def best_rival(record: Record, subject: str) -> tuple[str, float]:
    """The fastest library or peer of a shape, and how many times faster than it the subject is."""
    ratios = record["ratios"].get(subject, {})
    there = [(ratios[name]["ratio"], name) for name in PEERS if name in ratios]
    ratio, name = min(there)
    return name, ratio


def summarize_shapes(records: Sequence[Record], subjects: Sequence[str]) -> Record:
    """Geometric means, minima and losses of each subject against each rival."""
    return {
        "speedups": {subject: _against_all(records, subject) for subject in subjects},
        "tuning": {subject: _tuning(records, subject) for subject in subjects},
    }


def _against_all(records: Sequence[Record], subject: str) -> Record:
    found = {}
    others = [*PEERS, *UNTUNED, *(name for name in ("nest", "microkernel") if name != subject)]
    for rival in others:
        ratios = {
            record["shape"]: record["ratios"][subject][rival]["ratio"]
            for record in records
            if rival in record["ratios"].get(subject, {})
        }
        if ratios:
            found[rival] = over_shapes(ratios)
    measured = [record for record in records if subject in record["ratios"]]
    if measured:
        best = {record["shape"]: best_rival(record, subject)[1] for record in measured}
        found["best_of_them"] = over_shapes(best)
    return found


def over_shapes(ratios: Mapping[str, float]) -> Record:
    """Geometric mean with its interval, the worst, and how many are under 1."""
    values = list(ratios.values())
    mean, low, high = geometric_mean(values)
    worst = min(ratios, key=lambda shape: ratios[shape])
    return {
        "geomean": round(mean, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "min": round(ratios[worst], 4),
        "min_shape": worst,
        "losses": sum(value < 1.0 for value in values),
        "clear_losses": sum(value < LOSS for value in values),
        "shapes": len(values),
    }


def geometric_mean(values: Sequence[float]) -> tuple[float, float, float]:
    """With a 95 % interval from resampling the shapes."""
    logs = np.log(values)
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(logs), (_RESAMPLES, len(logs)))
    low, high = np.percentile(logs[picks].mean(axis=1), [2.5, 97.5])
    return exp(float(logs.mean())), exp(float(low)), exp(float(high))


def _tuning(records: Sequence[Record], subject: str) -> Record:
    mine = [record["tuning"][subject] for record in records if subject in record["tuning"]]
    if not mine:
        return {}
    found: Record = {
        f"median_{name}": round(float(np.median([record[name] for record in mine])), 4)
        for name in ("wall_seconds", "builds", "runs", "trials", "build_ms", "overhead")
    }
    found["max_wall_seconds"] = max(record["wall_seconds"] for record in mine)
    against = [
        (record["tvm"]["tuning_seconds"], record["tuning"][subject]["wall_seconds"])
        for record in records
        if record["tvm"] and subject in record["tuning"]
    ]
    if against:
        found["tvm_median_seconds"] = round(float(np.median([tvm for tvm, _ in against])), 1)
        logs = [log(tvm / ours) for tvm, ours in against]
        found["tvm_seconds_ratio"] = round(exp(float(np.mean(logs))), 1)
        found["tvm_shapes"] = len(against)
    return found


def handicapped(records: Sequence[Record]) -> list[str]:
    """Shapes on which TVM is clearly slower here than TVM itself measured: a reason for doubt."""
    return [
        f"{record['shape']} ({record['contenders']['tvm']['gflops']:.0f} here, "
        f"{record['tvm']['gflops']:.0f} by its own account)"
        for record in records
        if record["tvm"] and record["contenders"]["tvm"]["gflops"] < LOSS * record["tvm"]["gflops"]
    ]


def losses(records: Sequence[Record], subject: str) -> list[Record]:
    """Shapes on which the subject is clearly slower than the best of the others, worst first."""
    found = []
    for record in records:
        if subject in record["ratios"]:
            rival, ratio = best_rival(record, subject)
            if ratio < LOSS:
                found.append({"shape": record["shape"], "ratio": ratio, "rival": rival})
    return sorted(found, key=lambda loss: loss["ratio"])
