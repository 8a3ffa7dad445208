"""What a find over a whole list gave: winners, how far the library is behind, how long it took.

Run ``skipjack find -f LIST --json > found.jsonl`` first, then
``python bench/find_list.py found.jsonl --name resnet50``; the summary goes to bench/results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import machine
from skipjack.native import cpu

_LIBRARY = "onednn"


def main(argv: Sequence[str] | None = None) -> int:
    """Summarise one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("found", type=Path, help="what `skipjack find --json` printed")
    parser.add_argument("--name", required=True, help="of the list, for the result file")
    options = parser.parse_args(argv)
    lines = options.found.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    ranked = [record for record in records if record["status"] == "ok"]
    threads = int(str(ranked[0]["device"]).rpartition("/")[2])
    device = replace(cpu.detect(), units=threads)
    summary = summarize(records)
    for name, value in summary.items():
        print(f"{name}: {value}")
    result = machine.header(f"find_{options.name}", device, [])
    result |= {"summary": summary, "problems": [_short(record) for record in ranked]}
    path = (
        Path(__file__).parent / "results" / f"find_{options.name}_{device.arch}_{device.units}.json"
    )
    machine.write_result(path, result)
    return 0


def summarize(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts, winners, and the library's time over the first's."""
    ranked = [record for record in records if record["status"] == "ok"]
    behind = [ratio for record in ranked if (ratio := _behind(record)) is not None]
    failed = [
        f"{record['problem']} {solver['solver']}: {solver['status']}"
        for record in records
        for solver in record["solvers"]
        if solver["status"] not in ("ok", "not_applicable")
    ]
    return {
        "problems": len(records),
        "ranked": len(ranked),
        "not_applicable": sum(record["status"] == "not_applicable" for record in records),
        "seconds": round(sum(record.get("seconds", 0.0) for record in records), 1),
        "solvers_ranked": sum(len(_times(record)) for record in ranked),
        "winners": dict(Counter(next(iter(_times(record))) for record in ranked).most_common()),
        "library_over_first": round(geometric_mean(behind), 4) if behind else None,
        "library_first": sum(next(iter(_times(record))) == _LIBRARY for record in ranked),
        "failed": failed,
    }


def _times(record: dict[str, Any]) -> dict[str, float]:
    """By solver, fastest first."""
    return {s["solver"]: s["time_ns"] for s in record["solvers"] if s["status"] == "ok"}


def _behind(record: dict[str, Any]) -> float | None:
    times = _times(record)
    return times[_LIBRARY] / next(iter(times.values())) if _LIBRARY in times else None


def _short(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "problem": record["problem"],
        "time_ns": {n: round(t) for n, t in _times(record).items()},
    }


if __name__ == "__main__":
    sys.exit(main())
