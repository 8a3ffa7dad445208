"""Write the tables of docs/performance.md from the result files: no number is typed by hand.

A table stands between ``<!-- results:NAME -->`` and ``<!-- end -->``; what is there is replaced.
``--check`` writes nothing and exits with 1 if the document is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]

HOME = Path(__file__).resolve().parent
DOCUMENT = HOME.parent / "docs" / "performance.md"
RESULTS = HOME / "results"
FORMAT = 1

_MARKED = re.compile(r"(<!-- results:([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAMES = {
    "numpy": "NumPy",
    "cblas": "OpenBLAS (C)",
    "mkl": "MKL",
    "tvm": "TVM MetaSchedule",
    "default": "untuned default",
    "recipe": "one recipe for all shapes",
    "best_of_them": "the best library or peer of each shape",
}


def render(text: str, results: Sequence[Record]) -> str:
    """The document with every marked table made anew."""

    def table(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            raise SystemExit(f"no table is named {match[2]}; known are {', '.join(TABLES)}")
        name, make = TABLES[match[2]]
        parts = [make(result) for result in results if result["name"] == name]
        body = "\n\n".join(parts) or "No result file yet."
        return f"{match[1]}\n{body}\n\n{match[3]}"

    return _MARKED.sub(table, text)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _where(result: Record) -> str:
    device, versions = result["device"], result["versions"]
    parts = [f"{name} {version}" for name, version in versions.items() if version]
    return (
        f"**{device['model']} (`{device['name']}`)**, core {device['core_used']} of "
        f"{device['cores']}, {result['date'][:10]}; {', '.join(parts)}."
    )


def _name(contender: str) -> str:
    return _NAMES.get(contender, f"`{contender}`")


def matmul_summary(result: Record) -> str:
    """Geometric means, worst shapes and losses of each tuned solver."""
    parts = [_where(result)]
    for solver, speedups in result["summary"]["speedups"].items():
        rows = [
            [
                _name(rival),
                f"{found['geomean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]",
                f"{found['min']:.3f} at {found['min_shape']}",
                f"{found['losses']} of {found['shapes']}",
                str(found["clear_losses"]),
            ]
            for rival, found in speedups.items()
        ]
        head = [
            f"`{solver}` is so many times faster than",
            "geometric mean [95 %]",
            "least",
            "slower on",
            "under 0.95x",
        ]
        parts.append(_table(head, rows))
        parts.append(_losses(result["losses"][solver]))
    parts += [f"Note: {note}" for note in result["notes"]]
    doubtful = result["tvm_slower_than_its_own_account"]
    if doubtful:
        parts.append(f"Ratios to TVM not to be trusted: {', '.join(doubtful)}.")
    return "\n\n".join(parts)


def _losses(found: Sequence[Record]) -> str:
    listed = ", ".join(f"{x['shape']} ({x['ratio']:.2f}x of {_name(x['rival'])})" for x in found)
    return f"Under 0.95x of the best library or peer: {listed or 'none'}."


def matmul_shapes(result: Record) -> str:
    """Rates of everyone, shape by shape."""
    names = list(dict.fromkeys(name for shape in result["shapes"] for name in shape["contenders"]))
    leader = result["settings"]["solvers"][0]
    rows = []
    for shape in result["shapes"]:
        there = shape["contenders"]
        rates = [f"{there[name]['gflops']:.1f}" if name in there else "-" for name in names]
        share = f"{there[leader]['peak_share']:.1%}" if leader in there else "-"
        rows.append([shape["shape"], *rates, share])
    head = ["shape, GFLOP/s", *map(_name, names), f"peak share of `{leader}`"]
    return f"{_where(result)}\n\n{_table(head, rows)}"


def matmul_tuning(result: Record) -> str:
    """What the tuning cost, beside MetaSchedule's."""
    rows = []
    for solver, found in result["summary"]["tuning"].items():
        if found:
            rows.append(
                [
                    f"`{solver}`",
                    f"{found['median_wall_seconds']:.2f} (at most {found['max_wall_seconds']:.2f})",
                    f"{found['median_trials']:.0f}",
                    f"{found['median_builds']:.0f}",
                    f"{found['median_build_ms']:.1f}",
                    f"{found['median_overhead']:.1%}",
                    f"{found['tvm_median_seconds']:.0f}" if "tvm_median_seconds" in found else "-",
                    f"{found['tvm_seconds_ratio']:.0f}" if "tvm_seconds_ratio" in found else "-",
                ]
            )
    head = ["solver", "seconds a shape", "trials", "builds", "ms a build", "overhead"]
    head += ["TVM, seconds", "times as long"]
    return f"{_where(result)}\n\n{_table(head, rows)}"


def overheads(result: Record) -> str:
    """Building, starting, and the share of time around the work."""
    rows = [
        [
            f"a build with `{solver}`, median of {found['builds']}",
            f"{found['total_ms']:.1f} ms (IR {found['ir_ms']:.1f}, LLVM {found['llvm_ms']:.1f})",
        ]
        for solver, found in result["builds"].items()
    ]
    rows += [
        [
            f"overhead of tuning `{found['problem']}` for {found['seconds']:g} s",
            f"{found['overhead']:.1%} ({found['trials']} trials)",
        ]
        for found in result["tunings"]
    ]
    rows += [
        ["start of a session", f"{result['session_start_seconds']:.2f} s"],
        [
            "`skipjack --help`",
            f"{result['help_ms']:.0f} ms (Python alone: {result['python_ms']:.0f} ms)",
        ],
    ]
    return f"{_where(result)}\n\n{_table(['what', 'cost'], rows)}"


TABLES: dict[str, tuple[str, Callable[[Record], str]]] = {
    "matmul-summary": ("cpu_matmul", matmul_summary),
    "matmul-shapes": ("cpu_matmul", matmul_shapes),
    "matmul-tuning": ("cpu_matmul", matmul_tuning),
    "overheads": ("overheads", overheads),
}


def read_results(folder: Path) -> list[Record]:
    """Every result file, in the order of their names."""
    results = []
    for path in sorted(folder.glob("*.json")):
        result: Record = json.loads(path.read_text(encoding="utf-8"))
        if result.get("format") != FORMAT:
            raise SystemExit(f"{path.name} has format {result.get('format')!r}, not {FORMAT}")
        results.append(result)
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Write the document, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if out of date")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    before = args.document.read_text(encoding="utf-8")
    after = render(before, read_results(args.results))
    if args.check:
        if before != after:
            print(f"{args.document.name} is out of date: run python bench/performance_doc.py")
        return int(before != after)
    args.document.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
