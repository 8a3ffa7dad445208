"""How good the policy for loop nests is, on nests that it was not trained on (`loop_suite`).

Every method has the same number of distinct measurements and begins with nothing known:

(a) the policy alone, without a measurement, against the best of 300 measurements in the same space,
    beside the first analytic proposal and the training set's best constant sequence of actions;
(b) with 1, 4, 10 and 30 measurements against the analytic order, today's genetic search and every
    tree search, with five seeds each;
(c) in the preset looptune, ten actions against a beam search of 500 measurements.

What (a) and (c) compare is timed again five times, each time in new processes. The 25 shapes of
LoopTune are a row of their own (`loop_shapes`). Entries are done one by one, and one that was
interrupted goes on where it was: all of it takes less than an hour on two cores, ``--quick`` three
minutes. ``--ship`` also writes where ``auto`` may use the policy, beside the policy's file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import loop_constant
import loop_suite
import loop_summary
import machine
from loop_contest import (
    QUICK,
    WHOLE,
    Contest,
    Plan,
    Record,
    hold,
    plan_record,
    rates_of,
    time_finalists,
)
from metaschedule import CACHE
from skipjack.learn.loops import Preset
from skipjack.learn.policy import FOLDER, EvaluationScope, evidence, read_policy
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.storage import atomic_write

SHAPES = Path(__file__).resolve().parent / "loop_shapes.py"
_QUICK_ENTRIES = 8
"""Every so-many-th entry of the suite is in the quick one."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    folder: Path
    """Where the policies are: ``full.npz`` and ``looptune.npz``."""
    seed: int
    plan: Plan
    quick: bool
    part: tuple[int, int]
    """Which part of the entries, of how many."""
    work: Path
    json: Path | None
    ship: bool
    shapes: bool

    @property
    def entries(self) -> list[loop_suite.Entry]:
        """Those of all parts."""
        whole = list(loop_suite.suite(self.seed))
        return whole[:: len(whole) // _QUICK_ENTRIES] if self.quick else whole


def parse_options(argv: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", type=Path, default=FOLDER, help="a folder of policies")
    parser.add_argument("--seed", type=int, default=loop_suite.SEED, help="of the suite")
    parser.add_argument("--seeds", type=int, help="of searches, instead of five")
    parser.add_argument("--quick", action="store_true", help="eight entries, few measurements")
    parser.add_argument("--part", default="1/1", help="I/N: one part, not written")
    parser.add_argument("--work", type=Path, help="where what is measured is kept")
    parser.add_argument("--json", type=Path, help="where to write the result")
    parser.add_argument("--ship", action="store_true", help="say where auto may use the policy")
    parser.add_argument("--no-shapes", action="store_true", help="leave the 25 shapes out")
    args = parser.parse_args(argv)
    part, _, parts = args.part.partition("/")
    plan = QUICK if args.quick else WHOLE
    plan = replace(plan, seeds=args.seeds or plan.seeds)
    folder = args.policy.resolve()
    return Options(
        folder=folder,
        seed=args.seed,
        plan=plan,
        quick=args.quick,
        part=(int(part) - 1, int(parts or 1)),
        work=(args.work or CACHE / "loops" / _name(folder, args.seed, plan)).resolve(),
        json=args.json,
        ship=args.ship,
        shapes=not args.no_shapes,
    )


def _name(folder: Path, seed: int, plan: Plan) -> str:
    """One for each policy, suite and plan: results of another are not gone on with."""
    parts = [*policy_files(folder).values(), loop_constant.RESULT]
    text = b"".join(path.read_bytes() for path in parts) + repr((seed, plan)).encode()
    return hashlib.sha256(text).hexdigest()[:12]


def policy_files(folder: Path) -> dict[Preset, Path]:
    """Those that there are; the preset full must be among them."""
    files = {preset: folder / f"{preset}.npz" for preset in Preset}
    if not files[Preset.FULL].is_file():
        sys.exit(f"{folder} has no policy full.npz; name another folder with --policy")
    return {preset: path for preset, path in files.items() if path.is_file()}


def contest_of(options: Options) -> Contest:
    """The policies and their rivals."""
    files = policy_files(options.folder)
    policies = {preset: read_policy(path) for preset, path in files.items()}
    return Contest(policies, files, loop_constant.read_constants(), options.plan)


def search_all(options: Options, contest: Contest) -> None:
    """All entries of the part whose records are not there yet."""
    at, parts = options.part
    for number, entry in enumerate(options.entries):
        path = _path(options, number)
        if number % parts != at or path.is_file():
            continue
        with rates_of(entry.threads, options.work / f"rates-{number}", keep=True) as rates:
            record = hold(entry, contest, rates)
        atomic_write(path, json.dumps(record).encode())
        print(
            f"{entry.name}: {record['measured']} schedules in {record['seconds']:.0f} s",
            flush=True,
        )


def repeat_all(options: Options) -> None:
    """Time what was found again: each repeat in new processes."""
    at, parts = options.part
    for repeat in range(options.plan.repeats):
        for threads in (1, 2):
            todo = [
                number
                for number, entry in enumerate(options.entries)
                if number % parts == at and entry.threads == threads
            ]
            todo = [n for n in todo if not _path(options, n, repeat).is_file()]
            if not todo:
                continue
            with rates_of(threads, options.work, keep=False) as rates:
                for number in todo:
                    record = _read(_path(options, number))
                    seconds = time_finalists(record, parse(record["problem"]), rates)
                    atomic_write(_path(options, number, repeat), json.dumps(seconds).encode())


def collect(options: Options) -> list[Record]:
    """The records of the part, with all repeats."""
    at, parts = options.part
    records = []
    for number, entry in enumerate(options.entries):
        if number % parts != at:
            continue
        paths = [_path(options, number, at) for at in range(options.plan.repeats)]
        missing = [path for path in (_path(options, number), *paths) if not path.is_file()]
        if missing:
            sys.exit(f"{entry.name} is not done yet; run the part that it belongs to")
        record = _read(_path(options, number))
        records.append(record | {"repeats": [_read(path) for path in paths]})
    return records


def _path(options: Options, number: int, repeat: int | None = None) -> Path:
    again = "" if repeat is None else f"-again-{repeat}"
    return options.work / f"entry-{number:02}{again}.json"


def _read(path: Path) -> Record:
    found: Record = json.loads(path.read_text(encoding="utf-8"))
    return found


def shapes_row(options: Options) -> Record | None:
    """The 25 shapes, in a process of its own: libraries read how many threads they have once."""
    path = options.work / "shapes.json"
    if not path.is_file():
        command = [sys.executable, str(SHAPES), "--policy", str(options.folder), "-o", str(path)]
        if subprocess.run([*command, *(["--quick"] if options.quick else [])]).returncode:
            return None
    return _read(path)


def main(argv: Sequence[str] | None = None) -> None:
    options = parse_options(argv)
    loop_suite.load_operations()
    options.work.mkdir(parents=True, exist_ok=True)
    contest = contest_of(options)
    search_all(options, contest)
    repeat_all(options)
    if options.part[1] > 1:
        summary = loop_summary.summarize(collect(options), options.plan.budgets)
        print("\n".join(loop_summary.lines(summary)))
    else:
        report(options, contest)


def report(options: Options, contest: Contest) -> None:
    """Print the bars and write the result file."""
    records = collect(options)
    summary = loop_summary.summarize(records, options.plan.budgets)
    print("\n".join(loop_summary.lines(summary)))
    device = cpu.detect()
    result: dict[str, Any] = machine.header("loops_policy", device, cpu.usable_cores())
    result |= {
        "suite_seed": options.seed,
        "settings": plan_record(options.plan) | {"cores": os.cpu_count()},
        "policies": {
            preset.value: hashlib.sha256(path.read_bytes()).hexdigest()
            for preset, path in contest.files.items()
        },
        "constants": {preset.value: list(x) for preset, x in contest.constants.items()},
        "summary": summary,
        "shapes": shapes_row(options) if options.shapes else None,
        "cases": records,
    }
    named = f"loops_policy_{device.arch}{'' if options.seed == loop_suite.SEED else options.seed}"
    default = options.work / "quick.json" if options.quick else machine.RESULTS / f"{named}.json"
    path = options.json or default
    machine.write_result(path, result)
    if options.ship:
        grounds = [EvaluationScope(**one) for one in summary["beaten"]]
        found = evidence(grounds, contest.files[Preset.FULL], path.name)
        text = json.dumps(found, indent=1) + "\n"
        atomic_write(options.folder / "evaluation.json", text.encode())


if __name__ == "__main__":
    main()
