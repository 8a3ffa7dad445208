"""From a label's finished jobs to a small record: every problem, means, wins and losses."""

from __future__ import annotations

import functools
import importlib.metadata
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from math import exp, log
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
LISTS = Path(__file__).resolve().parent / "lists"
MACHINE = "machine.json"
FORMAT = 1
LOSS = 0.95
"""Below this share of the library's speed a problem counts as lost."""

Record = dict[str, Any]


def describe_machine(path: Path) -> None:
    """What the numbers were found with; written on the GPU machine."""
    import subprocess

    query = "--query-gpu=name,driver_version,clocks.max.sm,power.limit,memory.total"
    said = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    packages = ("torch", "triton", "numpy", "skipjack")
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": said.stdout.strip(),
        "versions": {name: _version(name) for name in packages} | _libraries(),
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _libraries() -> Record:
    try:
        import torch
    except ImportError:
        return {}
    cudnn: Any = torch.backends.cudnn
    return {"cuda of torch": torch.version.cuda, "cudnn": cudnn.version()}


def summarize_label(user: Path, label: str) -> list[Record]:
    """A line for each finished job."""
    from skipjack.fleet.store import open_store
    from skipjack.settings import load_settings

    with open_store(settings=load_settings(user_dir=str(user))) as store:
        return [line(dict(result.job.result or {})) for result in store.results.jobs(label)]


def line(result: Record) -> Record:
    """What is kept of one result."""
    vendors = {name: ns for name, ns in result["vendors_ns"].items() if ns}
    vendor = min(vendors, key=vendors.__getitem__, default="")
    ratio = result["speedups"].get(vendor) if vendor else None
    return {
        "problem": result["problem"],
        "solver": result["solver"],
        "config": result["config"],
        "time_us": _us(result["time_ns"]),
        "rate": result["rate"],
        "rate_unit": result["rate_unit"],
        "vendor": vendor,
        "vendor_us": _us(vendors.get(vendor)),
        "ratio": ratio,
        "trials": result["trials"],
        "failed": result["failed"],
        "status": result["status"],
        "solvers": {one["solver"]: _us(one["time_ns"]) for one in result["solvers"]},
        "reason": result["reason"],
    }


def _us(time_ns: float | None) -> float | None:
    return None if time_ns is None else round(time_ns / 1e3, 3)


def ratio_of(found: Record) -> float | None:
    """How many times faster than the library."""
    ratio = found["ratio"]
    if ratio and ratio.get("ratio"):
        return float(ratio["ratio"])
    if found["vendor_us"] and found["time_us"]:
        return float(found["vendor_us"] / found["time_us"])
    return None


def means(lines: Iterable[Record]) -> Record:
    """Geometric means of ours alone and of find's choice over the library, wins and losses."""
    ratios = [ratio for found in lines if (ratio := ratio_of(found))]
    if not ratios:
        return {"problems": 0}
    return {
        "problems": len(ratios),
        "ours_over_library": _mean(ratios),
        "find_over_library": _mean(max(ratio, 1.0) for ratio in ratios),
        "ours_faster": sum(ratio > 1.0 for ratio in ratios),
        "lost": sum(ratio < LOSS for ratio in ratios),
        "least": round(min(ratios), 3),
        "most": round(max(ratios), 3),
    }


def _mean(values: Iterable[float]) -> float:
    logs = [log(value) for value in values]
    return round(exp(sum(logs) / len(logs)), 4)


def groups(lines: list[Record], of: Callable[[Record], str]) -> dict[str, Record]:
    """Means of the lines that are of one sort."""
    names = sorted({of(found) for found in lines})
    return {name: means(found for found in lines if of(found) == name) for name in names}


def write_results(lines: list[Record], suite: str, machine: Path) -> None:
    """The record in ``bench/results``, and the means on the screen."""
    if not lines:
        print(f"{suite}: nothing came back")
        return
    about = json.loads(machine.read_text()) if machine.exists() else {}
    summary = means(lines)
    found = {
        "format": FORMAT,
        "name": f"gpu_{suite}",
        **about,
        "summary": summary,
        "by": groups(lines, kind_of) | groups(lines, heading_of) | _without_odd(lines),
        "problems": sorted(lines, key=lambda found: str(found["problem"])),
    }
    path = RESULTS / f"gpu_{suite}_h200.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({"suite": suite, **summary}))
    for name, part in found["by"].items():
        print(f"  {name}: {part}")


@functools.cache
def _headings() -> Record:
    """Under which comment of the benchmark's lists each problem stands."""
    found: Record = {}
    for path in sorted(LISTS.glob("gpu_*.txt")):
        heading = ""
        for text in path.read_text().splitlines():
            if text.startswith("# "):
                heading = text[2:].partition(":")[0]
            else:
                found[text] = heading
    return found


def heading_of(found: Record) -> str:
    """What sort of problem the benchmark's list says it is; its kind where it says nothing."""
    operation, shape, *_ = found["problem"].split(":")
    return str(_headings().get(f"{operation}:{shape}") or kind_of(found))


def _without_odd(lines: list[Record]) -> dict[str, Record]:
    """Where libraries have no aligned kernels the ratios are of another sort."""
    rest = [found for found in lines if heading_of(found) != "odd sizes"]
    return {"without odd sizes": means(rest)} if len(rest) < len(lines) else {}


def keep_beside(name: str, found: Path, machine: Path) -> None:
    """A record that another script wrote on the GPU machine, with what it was found with."""
    if not found.exists():
        return
    about = json.loads(machine.read_text()) if machine.exists() else {}
    record = {"format": FORMAT, "name": name, **about, **json.loads(found.read_text())}
    (RESULTS / f"{name}_h200.json").write_text(json.dumps(record, indent=1) + "\n")


def kind_of(found: Record) -> str:
    """Operation, dtype, and for convolutions layout and direction."""
    operation, _, *rest = found["problem"].split(":")
    return " ".join([operation, *rest])
