"""From the shapes of the large matrix products to numbers over all of them, and what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from summary import over_shapes

TARGET = 0.9
"""No shape should run at less than this share of the speed of the best of NumPy and MKL."""
BEST = "best_of_numpy_mkl"
_TO_BEAT = ("numpy", "mkl")
_COLUMNS = (*_TO_BEAT, "cblas", "torch")

Record = dict[str, Any]


def best_ratio(record: Record) -> float | None:
    """Against the faster of NumPy and MKL."""
    there = [record["ratios"][name]["ratio"] for name in _TO_BEAT if name in record["ratios"]]
    return min(there) if there else None


def _values(record: Record) -> dict[str, float]:
    best = best_ratio(record)
    found = {} if best is None else {BEST: best}
    found |= {rival: ratio["ratio"] for rival, ratio in record["ratios"].items()}
    return found | ({"roofline": record["roofline"]["ratio"]} if record["roofline"] else {})


def summarize(records: Sequence[Record]) -> Record:
    """Geometric means over all shapes and by kind, and the shapes under the target."""
    kinds = dict.fromkeys(record["kind"] for record in records)
    by_kind = {kind: _means([r for r in records if r["kind"] == kind]) for kind in kinds}
    under = [
        {"shape": record["shape"], "ratio": round(best, 4)}
        for record in records
        if (best := best_ratio(record)) is not None and best < TARGET
    ]
    under.sort(key=lambda case: case["ratio"])
    return {"all": _means(records), "by_kind": by_kind, "target": TARGET, "under": under}


def _means(records: Sequence[Record]) -> Record:
    columns: dict[str, dict[str, float]] = {}
    for record in records:
        for column, ratio in _values(record).items():
            columns.setdefault(column, {})[record["shape"]] = ratio
    return {column: over_shapes(values) for column, values in columns.items()}


def heading() -> str:
    """The words above the columns."""
    names = " ".join(f"{'vs ' + name:>18}" for name in _COLUMNS)
    return f"{'shape':<16} {'GFLOP/s':>8} {'peak':>5} {'roofline':>11} {names}  tuned"


def line(record: Record) -> str:
    """One shape as soon as it is done."""
    tuning = record["tuning"]
    if not record["roofline"]:
        return f"{record['shape']:<16} no kernel: {tuning['reason']}"
    mine, roof = record["contenders"]["ours"], record["roofline"]
    cells = " ".join(f"{_cell(record['ratios'].get(name)):>18}" for name in _COLUMNS)
    config = " ".join(f"{name}={value}" for name, value in tuning["config"].items())
    return (
        f"{record['shape']:<16} {mine['gflops']:>8.1f} {mine['peak_share']:>5.0%} "
        f"{roof['ratio']:>5.0%} {roof['by'][:5]} {cells}  {tuning['solver']} {tuning['status']} "
        f"{tuning['trials']} {config}"
    )


def _cell(ratio: Record | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio['ratio']:.2f} [{ratio['low']:.2f},{ratio['high']:.2f}]"


def lines(summary: Record) -> list[str]:
    """Means, and what falls short."""
    found = [""]
    for where, means in {"all": summary["all"], **summary["by_kind"]}.items():
        parts = [f"{column} {mean['geomean']:.3f}" for column, mean in means.items()]
        found.append(f"{where:<12} {'; '.join(parts)}  (geometric means)")
    listed = ", ".join(f"{case['shape']} {case['ratio']:.2f}" for case in summary["under"])
    found.append(f"under {summary['target']}x of the best of NumPy and MKL: {listed or 'none'}")
    return found
