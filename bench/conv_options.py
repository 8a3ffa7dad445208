"""What can be asked of the benchmark of convolutions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import conv_cases
import sitting
from contenders import PAGE
from conv_cases import Case, Layer
from conv_summary import Record
from stand import Plan

_SECONDS = 0.6
"""For a find; the first trial of every solver and the final come on top."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    cases: tuple[Case, ...]
    part: bool
    """Whether some cases were picked; they are measured anew each time."""
    shard: tuple[int, int]
    seconds: float | None
    cold: bool
    plan: Plan
    threads: int
    core: int | None
    json: Path | None
    again: bool
    update: bool

    @property
    def find_seconds(self) -> float:
        """For all solvers together."""
        return self.seconds or _SECONDS

    def settings(self) -> Record:
        """For the result file."""
        return {
            "find_seconds": self.find_seconds,
            **asdict(self.plan),
            "dtype": "f32",
            "threads": self.threads,
            "alignment_bytes": PAGE,
            "caches": "hot",
            "cold": self.cold,
            "confidence": 0.95,
        }


def parse_options(argv: Sequence[str] | None, about: str = "") -> tuple[Options, list[int]]:
    """Read the command line; gives the numbers of threads too."""
    parser = argparse.ArgumentParser(description=about)
    sitting.add_options(parser)
    parser.add_argument("--layers", help="parts of layers' names, joined by commas: 3x3,dw")
    parser.add_argument("--directions", help="fwd,bwd,wrw (default: all)")
    parser.add_argument("--layout", help="NCHW,NHWC (default: both)")
    parser.add_argument("--batches", help="1,16 (default: both)")
    parser.add_argument("--shard", default="1/1", help="2/3: the second third of all cases")
    parser.add_argument("--seconds", type=float, help="for each find (default 0.6)")
    parser.add_argument(
        "--cold",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="find each case with nothing known; --no-cold lets cases before help the next",
    )
    parser.add_argument("--again", action="store_true", help="do not go on, start over")
    parser.add_argument(
        "--update", action="store_true", help="put these cases into the result that is there"
    )
    args = parser.parse_args(argv)
    picked = [args.layers, args.directions, args.layout, args.batches]
    counts = sitting.thread_counts(args.threads)
    number, of = (int(part) for part in args.shard.split("/"))
    options = Options(
        cases=_chosen(args),
        part=any(picked) or args.quick,
        shard=(number, of),
        seconds=args.seconds or (1.0 if args.quick else None),
        cold=args.cold,
        plan=Plan(rounds=20, samples=2, sample_ns=100_000, seconds=0.5),
        threads=counts[0] if counts else 1,
        core=args.core,
        json=args.json,
        again=args.again,
        update=args.update,
    )
    return options, counts


def _chosen(args: argparse.Namespace) -> tuple[Case, ...]:
    everyone = conv_cases.QUICK if args.quick else conv_cases.ALL

    def has(text: str | None, value: object) -> bool:
        return text is None or str(value).lower() in text.lower().split(",")

    def named(layer: Layer) -> bool:
        parts = args.layers.split(",") if args.layers else [""]
        return any(part in layer.name for part in parts)

    return tuple(
        case
        for case in everyone
        if named(case.layer)
        and has(args.directions, case.direction)
        and has(args.layout, case.layout)
        and has(args.batches, case.batch)
    )


def sharded(cases: Sequence[Case], number: int, of: int) -> list[Case]:
    """One of several parts that have all kinds of cases in them; their order is kept."""
    drawn = np.random.default_rng(0).permutation(len(cases))
    return [cases[at] for at in sorted(drawn[number - 1 :: of])]
