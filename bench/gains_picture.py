"""Draw docs/images/gains.svg from the result files: one dot for each case, wins and losses alike.

Each row is a benchmark: the time of a library divided by the time of the kernel that Skipjack
tuned, on a logarithmic axis. ``--check`` writes nothing and exits with 1 if the picture is out of
date.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
PICTURE = HOME.parent / "docs" / "images" / "gains.svg"
RESULTS = HOME / "results"

LEFT, RIGHT, TOP, ROW = 322, 830, 34, 52
"""Where the axis starts and ends, and where rows are, in units of the picture."""
LEAST, MOST = 0.5, 8.0
"""Ends of the axis; a ratio beyond is drawn at the end."""
TICKS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)


def _library(problem: Any) -> float | None:
    return problem["ratio"]["ratio"] if problem.get("ratio") else None


def _ours(case: Any) -> float | None:
    return case["ratios"]["ours"]["ratio"] if "ours" in case["ratios"] else None


def _numpy_or_mkl(shape: Any) -> float:
    return min(float(shape["ratios"][name]["ratio"]) for name in ("numpy", "mkl"))


def _torch(case: Any) -> float | None:
    return case["ratios"]["torch"]["ratio"] if "torch" in case["ratios"] else None


@dataclass(frozen=True)
class Suite:
    """A row of the picture: its words, and where its ratios are."""

    title: str
    peer: str
    file: str
    list: str
    ratio: Callable[[Any], float | None]


SUITES = (
    Suite("matrix products, H200, f16 and bf16", "cuBLAS", "gpu_matmul_h200", "problems", _library),
    Suite("convolutions, H200, f16", "cuDNN", "gpu_conv_h200", "problems", _library),
    Suite(
        "matrix products, Zen 4, 1 thread",
        "the better of NumPy and MKL",
        "cpu_products_znver4_1",
        "shapes",
        _numpy_or_mkl,
    ),
    Suite("convolutions, Zen 4, 1 thread", "PyTorch", "cpu_conv_znver4_1", "cases", _ours),
    Suite("vector operations, Zen 4, 1 thread", "PyTorch", "cpu_vector_znver4_1", "cases", _torch),
)


def ratios_of(suite: Suite) -> list[float]:
    """The ratios of all cases that have both times, the least first."""
    result = json.loads((RESULTS / f"{suite.file}.json").read_text(encoding="utf-8"))
    found = map(suite.ratio, result[suite.list])
    return sorted(ratio for ratio in found if ratio is not None)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def across(ratio: float) -> float:
    """The horizontal place of a ratio."""
    inside = min(max(ratio, LEAST), MOST)
    return LEFT + (RIGHT - LEFT) * math.log(inside / LEAST) / math.log(MOST / LEAST)


def row(suite: Suite, at: int) -> list[str]:
    """A suite's words, its cases as dots, and a bar at their geometric mean."""
    ratios = ratios_of(suite)
    mean = geometric_mean(ratios)
    slower = sum(ratio < 1 for ratio in ratios)
    middle = TOP + ROW * at + ROW / 2
    lines = [
        f'<text x="12" y="{middle - 4:.0f}" class="title">{escape(suite.title)}</text>',
        f'<text x="12" y="{middle + 13:.0f}" class="note">{len(ratios)} cases against '
        f"{escape(suite.peer)}, {slower} slower</text>",
    ]
    for number, ratio in enumerate(ratios):
        spread = (number * 0.618034 % 1 - 0.5) * 24  # so that equal ratios do not hide each other
        kind = "loss" if ratio < 1 else "win"
        lines.append(
            f'<circle cx="{across(ratio):.1f}" cy="{middle + spread:.1f}" r="2.2" class="{kind}"/>'
        )
    place = across(mean)
    lines += [
        f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{middle - 17:.0f}" y2="{middle + 17:.0f}" '
        'class="mean"/>',
        f'<text x="{RIGHT + 12}" y="{middle + 4:.0f}" class="title">{mean:.2f}x</text>',
    ]
    return lines


def picture() -> str:
    """The whole picture."""
    bottom = TOP + ROW * len(SUITES)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {bottom + 44}" role="img"',
        '     aria-label="Speed of tuned kernels relative to libraries, one dot for each case">',
        "<style>",
        "text { font-family: sans-serif; fill: #24292f } .title { font-size: 13px }",
        ".note { font-size: 11px; fill: #57606a } .win { fill: #1a7f64; fill-opacity: .45 }",
        ".loss { fill: #c4432b; fill-opacity: .75 } .mean { stroke: #24292f; stroke-width: 2.5 }",
        ".grid { stroke: #d0d7de } .one { stroke: #57606a; stroke-dasharray: 4 3 }",
        "</style>",
        f'<rect width="900" height="{bottom + 44}" fill="#ffffff"/>',
        f'<text x="{RIGHT + 12}" y="24" class="note">mean</text>',
    ]
    for tick in TICKS:
        place, kind = across(tick), "one" if tick == 1 else "grid"
        lines += [
            f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{bottom}" class="{kind}"/>',
            f'<text x="{place:.1f}" y="{bottom + 17}" class="note" text-anchor="middle">'
            f"{tick:g}x</text>",
        ]
    for at, suite in enumerate(SUITES):
        lines += row(suite, at)
    lines += [
        f'<text x="{across(1):.0f}" y="{bottom + 35}" class="note" text-anchor="middle">'
        "slower than the library | faster</text>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the picture, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")
    options = parser.parse_args(argv)
    text = picture()
    if not options.check:
        PICTURE.write_text(text, encoding="utf-8")
        return 0
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PICTURE.name} is out of date", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
