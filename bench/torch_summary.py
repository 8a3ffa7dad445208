"""From the cases of the end-to-end benchmark to lines and means, losses beside wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from summary import geometric_mean
from torch_models import CONVOLUTIONAL, OTHER

BARS = {CONVOLUTIONAL: 1.25, OTHER: 1.05}
"""The geometric means that are asked for on CPUs, by kind of network."""
FLOOR = 0.98
"""No case may lie under it with its whole interval."""
Record = dict[str, Any]


def heading() -> str:
    return (
        f"{'case':<34} {'plain ms':>10} {'hook ms':>10}  {'speedup [95 %]':<24} {'hits':>6} "
        f"{'kernels':>8}"
    )


def line(record: Record) -> str:
    """A case for the screen."""
    found, calls, ms = record["speedup"], record["calls"], record["ms"]
    speedup = f"{found['ratio']:.3f} [{_end(found['low'])}, {_end(found['high'])}]"
    return (
        f"{record['case']:<34} {ms['plain']:10.3f} {ms['hook']:10.3f}  {speedup:<24} "
        f"{share(calls):6.1%} {calls['kernels']:4d}/{calls['kinds']:<3d} {verdict(record)}"
    ).rstrip()


def _end(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"


def share(calls: Record) -> float:
    """Of the calls of operations that the hook is under, those that our kernels computed."""
    return calls["hits"] / calls["calls"] if calls["calls"] else 0.0


def verdict(record: Record) -> str:
    """In one word, by the interval; nothing where it holds 1."""
    low, high = record["speedup"]["low"], record["speedup"]["high"]
    if high is not None and high < FLOOR:
        return "UNDER THE FLOOR"
    if high is not None and high < 1.0:
        return "loss"
    return "win" if low is not None and low > 1.0 else ""


def summarize(records: Sequence[Record]) -> Record:
    """Means by kind of network, over all and for each number of threads."""
    found: Record = {}
    for kind in BARS:
        mine = [record for record in records if record["kind"] == kind]
        if not mine:
            continue
        found[kind] = {"all": _over(mine)}
        for threads in sorted({record["threads"] for record in mine}):
            some = [record for record in mine if record["threads"] == threads]
            found[kind][f"threads {threads}"] = _over(some)
    return found


def _over(records: Sequence[Record]) -> Record:
    ratios = [record["speedup"]["ratio"] for record in records]
    mean, low, high = geometric_mean(ratios)
    worst = min(records, key=lambda record: float(record["speedup"]["ratio"]))
    verdicts = [verdict(record) for record in records]
    calls = {name: sum(record["calls"][name] for record in records) for name in ("hits", "calls")}
    return {
        "cases": len(records),
        "geomean": round(mean, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "wins": verdicts.count("win"),
        "losses": len([one for one in verdicts if one not in ("win", "")]),
        "under_floor": [r["case"] for r in records if verdict(r) == "UNDER THE FLOOR"],
        "worst": {"case": worst["case"], "ratio": worst["speedup"]["ratio"]},
        "hit_share": round(share(calls), 4),
    }


def lines(summary: Record) -> list[str]:
    """For the screen, with the bars."""
    found = []
    for kind, means in summary.items():
        for which, over in means.items():
            bar = f", asked for {BARS[kind]:.2f}" if which == "all" else ""
            found.append(
                f"{kind:<14} {which:<10} {over['geomean']:.3f} [{over['low']:.3f}, "
                f"{over['high']:.3f}] in {over['cases']} cases{bar}; {over['wins']} won, "
                f"{over['losses']} lost, {len(over['under_floor'])} under {FLOOR}; "
                f"{over['hit_share']:.1%} of calls hit; worst {over['worst']['case']} "
                f"{over['worst']['ratio']:.3f}"
            )
    return found
