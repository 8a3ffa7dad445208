"""From the cases of the vector operations to numbers over all of them, and what is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skipjack.core import Device
from summary import over_shapes

TARGETS = {"numpy": 1.0, "torch": 1.0, "numpy_called": 1.0, "torch_called": 1.0}
ROOFLINE_INSIDE, ROOFLINE_BEYOND = 0.8, 0.9
"""Least share of the roofline where the second cache holds the arrays, and where it does not."""

Record = dict[str, Any]


def name_of(record: Record) -> str:
    """An operation at a footprint."""
    return f"{record['operation']} at {size_text(record['footprint'])}"


def size_text(footprint: int) -> str:
    """``16 KiB``."""
    return f"{footprint >> 20} MiB" if footprint >= 1 << 20 else f"{footprint >> 10} KiB"


def summarize(records: Sequence[Record], device: Device) -> Record:
    """Geometric means over all cases and by footprint, and every place under a target."""
    sizes = list(dict.fromkeys(record["footprint"] for record in records))
    by_size = {
        size_text(size): _means([r for r in records if r["footprint"] == size]) for size in sizes
    }
    inside = device.cache_bytes("L2")
    return {"all": _means(records), "by_footprint": by_size, "under": _under(records, inside)}


def _means(records: Sequence[Record]) -> Record:
    columns: dict[str, dict[str, float]] = {}
    for record in records:
        for column, found in _ratios(record).items():
            columns.setdefault(column, {})[name_of(record)] = found["ratio"]
    return {column: over_shapes(values) for column, values in columns.items()}


def _ratios(record: Record) -> dict[str, Record]:
    """By column; ``_called`` where our kernel was called from Python too."""
    called = {f"{rival}_called": ratio for rival, ratio in record["called_ratios"].items()}
    found: dict[str, Record] = {**record["ratios"], **called}
    return {"roofline": record["roofline"], **found} if record["roofline"] else found


def _under(records: Sequence[Record], inside: int) -> Mapping[str, list[Record]]:
    """Cases whose whole interval lies under a target, by column, worst first."""
    found: dict[str, list[Record]] = {column: [] for column in ("roofline", *TARGETS)}
    for record in records:
        roof = ROOFLINE_INSIDE if record["bytes"] <= inside else ROOFLINE_BEYOND
        targets = {"roofline": roof, **TARGETS}
        for column, ratio in _ratios(record).items():
            if ratio["high"] < targets[column]:
                case = {"case": name_of(record), "ratio": ratio["ratio"]}
                found[column].append(case | {"target": targets[column]})
    return {name: sorted(cases, key=lambda case: case["ratio"]) for name, cases in found.items()}


def heading() -> str:
    """The words above the columns."""
    return (
        f"{'operation':<26} {'us':>10} {'roofline':>24} {'vs numpy':>18} {'vs torch':>18}"
        f"  {'from Python, numpy':>18} {'torch':>6}  tuned"
    )


def line(record: Record) -> str:
    """One case as soon as it is done."""
    if not record["roofline"]:
        return f"{name_of(record):<26} no kernel: {record['tuning']['reason']}"
    roof = record["roofline"]
    called = record["called_ratios"]
    return (
        f"{name_of(record):<26} {record['times_us']['ours']:>10.2f} "
        f"{_interval(roof):>18} {roof['by'][:5]} "
        f"{_interval(record['ratios'].get('numpy')):>18} "
        f"{_interval(record['ratios'].get('torch')):>18}"
        f"  {called.get('numpy', {}).get('ratio', 0):>18.2f} "
        f"{called.get('torch', {}).get('ratio', 0):>6.2f}  "
        f"{record['tuning']['status']} {record['tuning']['trials']} {_config(record)}"
    )


def _config(record: Record) -> str:
    config = record["tuning"]["config"]
    return " ".join(f"{name}={value}" for name, value in config.items())


def _interval(ratio: Record | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio['ratio']:.2f} [{ratio['low']:.2f},{ratio['high']:.2f}]"


def lines(summary: Record) -> list[str]:
    """Means, and what falls short."""
    found = [""]
    for where, means in {"all": summary["all"], **summary["by_footprint"]}.items():
        parts = [f"{column} {mean['geomean']:.3f}" for column, mean in means.items()]
        found.append(f"{where:<8} {'; '.join(parts)}  (geometric means)")
    for column, cases in summary["under"].items():
        listed = ", ".join(f"{case['case']} {case['ratio']:.2f}" for case in cases)
        found.append(f"under the target against {column}: {listed or 'none'}")
    return found
