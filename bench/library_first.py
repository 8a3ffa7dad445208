"""Where a lookup for a GPU without any bank gives a library before a solver's first proposal.

On CPUs lookups time proposals beside the library; on GPUs they time nothing.
``python bench/library_first.py`` makes the table that they read, from the results that are
committed in ``bench/results``. Of each kind of device, operation, element type, layout and
direction it takes how fast tuned kernels are beside the library that a lookup would give, in the
geometric mean, times how fast first proposals are beside tuned kernels, in the geometric mean of
the operation. Where that is below 1, the library goes first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

from skipjack.core import Problem
from skipjack.operations import parse
from skipjack.runtime import answers

RESULTS = Path(__file__).with_name("results")
TABLE = Path(answers.__file__).with_name("library_first.json")

Family = tuple[str, str, str, str, str]


def main() -> None:
    """Write the table."""
    TABLE.write_text(json.dumps(table(), indent=1) + "\n")


def table() -> dict[str, Any]:
    """The families of problems whose first proposals are behind a library."""
    tuned: dict[Family, list[float]] = defaultdict(list)
    for kind, problem, ratio in beside_libraries():
        tuned[family_of(kind, problem)].append(ratio)
    first: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kind, problem, share in beside_tuned():
        first[kind, problem.operation].append(share)
    rows = []
    for family, ratios in sorted(tuned.items()):
        ratio = geometric_mean(ratios) * geometric_mean(first.get(family[:2], [1.0]))
        if ratio < 1.0:
            kind, operation, dtype, layout, direction = family
            named = {"kind": kind, "operation": operation, "dtype": dtype}
            named |= {"layout": layout, "direction": direction}
            rows.append({**named, "ratio": round(ratio, 3), "problems": len(ratios)})
    return {"format": 1, "made_by": "bench/library_first.py", "behind": rows}


def family_of(kind: str, problem: Problem) -> Family:
    """What problems have in common that share a row."""
    return kind, problem.operation, problem.dtype, problem.layout, problem.direction


def beside_libraries() -> Iterator[tuple[str, Problem, float]]:
    """Kind of device, problem, and how many times faster its tuned kernel is than the library."""
    for name in ("gpu_matmul_h200", "gpu_conv_h200", "gpu_vector_h200"):
        for case in read(name)["problems"]:
            yield "cuda", parse(case["problem"]), case["ratio"]["ratio"]


def beside_tuned() -> Iterator[tuple[str, Problem, float]]:
    """Kind of device, problem, and the share of a tuned kernel's speed that the first has."""
    for case in read("gpu_start_well_h200")["problems"]:
        yield "cuda", parse(case["problem"]), case["first_over_best"]


def read(name: str) -> dict[str, Any]:
    """A file of results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def geometric_mean(numbers: list[float]) -> float:
    """Of ratios."""
    return exp(sum(map(log, numbers)) / len(numbers))


if __name__ == "__main__":
    main()
