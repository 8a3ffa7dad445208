"""Sweeps: the largest load that holds, and the best setting of a grid with its load.

A service of sleeping workers has a limit that is known from simulating it. It is looked for under
LoadGen, with the same number of tests, by `Boundary`, by a bisection and by LoadGen's own
FindPeakPerformance. Then recorded grids of settings are searched by `JointLoad` and others.

Run as ``make bench-sweep``, shorter as ``make bench-sweep BENCH_ARGS=--quick``. A run that was
interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import machine
import sweep_joint
import sweep_load
from journal import Journal
from metaschedule import CACHE
from skipjack.native import cpu
from sweep_grids import grid_of, made_up, read_grid
from sweep_joint import full_runs
from sweep_load import LEVELS, Real

NAME = "sweep"
_REPEATS = 20
_VIRTUAL_REPEATS = 200
_MADE_UP = 25
_SEEDS, _SEEDS_MADE_UP = 50, 2
_RECORDED = "sweep-grid-*.json"
_REAL = "stalls in 10 % of tests"

Record = dict[str, Any]


def virtual(quick: bool) -> Record:
    """Every kind of noise in virtual time."""
    found: Record = {}
    for name, service in LEVELS.items():
        records = sweep_load.virtual(service, 20 if quick else _VIRTUAL_REPEATS)
        found[name] = sweep_load.summary(records)
        limit = records[0]["limits"]["boundary"]
        print(f"\nin virtual time, {name} (limit {limit:.0f} queries/s)")
        print("\n".join(sweep_load.lines(found[name])), flush=True)
    return found


def real(args: argparse.Namespace, journal: Journal) -> Record | None:
    """Under LoadGen; None if there was no time to finish."""
    service, repeats = LEVELS[_REAL], 2 if args.quick else _REPEATS
    bench, until = Real(service, args.seed, print), time.monotonic() + args.seconds
    left = [number for number in range(repeats) if f"repeat {number}" not in journal.records]
    print(f"\nunder LoadGen, {_REAL}: {len(left)} of {repeats} repeats to do", flush=True)
    known = bench.calibrate() if left else {}
    for number in left:
        if time.monotonic() > until:
            print("out of time; run again to go on")
            return None
        journal.add(bench.repeat(number, known))
        print(_line(journal.records[f"repeat {number}"]), flush=True)
    records = [journal.records[f"repeat {number}"] for number in range(repeats)]
    said = sweep_load.summary(records)
    tests = sum(record["simulation"]["tests"] for record in records)
    agreed = sum(record["simulation"]["agreed"] for record in records)
    print("\n".join(sweep_load.lines(said)))
    print(f"LoadGen said what the simulation foresaw in {agreed} of {tests} tests")
    return {
        "service": service.to_json(),
        "seed": args.seed,
        "repeats": repeats,
        "budget": sweep_load.BUDGET,
        "summary": said,
        "simulation": {"tests": tests, "agreed": agreed},
        "cases": records,
    }


def grids(quick: bool) -> Record:
    """The best setting and its load, in grids that were recorded and in made-up ones."""
    found: Record = {}
    for path in sorted(machine.RESULTS.glob(_RECORDED)):
        grid = read_grid(path)
        records = sweep_joint.compare(grid, 5 if quick else _SEEDS)
        title = f"{grid.name}: {len(grid.curves)} settings, {full_runs(grid)} runs for all"
        found[grid.name] = _said(title, records)
    records, count = [], 3 if quick else _MADE_UP
    for number in range(count):
        grid = grid_of(f"made-up {number}", made_up(number))
        records += sweep_joint.compare(grid, _SEEDS_MADE_UP)
    found["made-up"] = _said(f"{count} made-up grids of {len(grid.curves)} settings", records)
    return found


def _said(title: str, records: list[Record]) -> Record:
    said = sweep_joint.summary(records)
    print(f"\n{title}; a quarter of the runs at most")
    print("\n".join(sweep_joint.lines(said)), flush=True)
    return said


def _journal(args: argparse.Namespace) -> Journal:
    circumstances: Record = {"service": LEVELS[_REAL].to_json(), "budget": sweep_load.BUDGET}
    circumstances["seed"] = args.seed
    path = CACHE / f"{NAME}_{args.seed}{'_quick' * args.quick}.jsonl"
    return Journal(path, circumstances, again=args.again or args.quick)


def _line(record: Record) -> str:
    limit, parts = record["limits"]["boundary"], []
    for name, one in record["found"].items():
        load = "refused" if one["load"] is None else f"{one['load']:.0f}"
        parts.append(f"{name} {load} ({one['tests']})")
    return f"{record['case']:<10} limit {limit:.0f}: {', '.join(parts)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repeats, for an impression")
    parser.add_argument("--parts", default="virtual,grids,loadgen", help="of these (default: all)")
    parser.add_argument("--seconds", type=float, default=1e9, help="to stop LoadGen's part after")
    parser.add_argument("--seed", type=int, default=0, help="of the luck of LoadGen's tests")
    parser.add_argument("--again", action="store_true", help="do not go on, start over")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    parts = args.parts.split(",")
    device = cpu.detect()
    result = machine.header(NAME, device, [])
    if "virtual" in parts:
        result["virtual"] = virtual(args.quick)
    if "grids" in parts:
        result["grids"] = grids(args.quick)
    if "loadgen" in parts and find_spec("mlperf_loadgen") is None:
        print("\nLoadGen is not installed (pip install mlcommons-loadgen); its part is left out")
    elif "loadgen" in parts:
        result["versions"]["mlcommons-loadgen"] = metadata.version("mlcommons-loadgen")
        journal = _journal(args)
        result["loadgen"] = real(args, journal)
        if result["loadgen"] is None:
            return 1
        journal.remove()
    if not args.quick or args.json:
        path = args.json or machine.RESULTS / f"{NAME}_{device.arch}.json"
        kept = _kept(path)
        result["versions"] = kept.get("versions", {}) | result["versions"]
        machine.write_result(path, kept | result)
    return 0


def _kept(path: Path) -> Record:
    """What the result file says already: parts that were not run this time stay."""
    kept: Record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return kept


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; it goes on here when it is started again")
