"""Write the tables of docs from the result files: no number is typed by hand.

A table stands between ``<!-- results:NAME -->`` and ``<!-- end -->``; what is there is replaced.
``--check`` writes nothing and exits with 1 if a document is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import conv_tables
import gpu_tables
import learning_tables
import lookup_tables
import small_tables
import thread_tables
from table_text import Record, is_held

HOME = Path(__file__).resolve().parent
_PAGES = ("performance.md", "learning.md", "learning-results.md")
DOCUMENTS = [HOME.parent / "docs" / name for name in _PAGES]
RESULTS = HOME / "results"
FORMAT = 1

_MARKED = re.compile(r"(<!-- results:([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HELD = "-avx2"
"""Ends the name of a table of results that are held to AVX2; all other tables leave these out."""


def render(text: str, results: Sequence[Record]) -> str:
    """The document with every marked table made anew."""

    def table(match: re.Match[str]) -> str:
        named = match[2].removesuffix(_HELD)
        if named not in TABLES:
            raise SystemExit(f"no table is named {named}; known are {', '.join(TABLES)}")
        name, make = TABLES[named]
        held = match[2].endswith(_HELD)
        body = make([one for one in results if one.get("name") == name and is_held(one) == held])
        return f"{match[1]}\n{body}\n\n{match[3]}"

    return _MARKED.sub(table, text)


Make = Callable[[Sequence[Record]], str]


def _each(make: Callable[[Record], str]) -> Make:
    """A table for every result of the name."""
    return lambda results: "\n\n".join(map(make, results)) or _NOTHING


def _together(make: Make) -> Make:
    """One table for all results of the name."""
    return lambda results: make(results) if results else _NOTHING


def _with(part: str, make: Callable[[Record], str]) -> Make:
    """A table for every result of the name that has the part: those of older benchmarks may not."""
    return lambda results: _each(make)([result for result in results if part in result])


_NOTHING = "No result file yet."

TABLES: dict[str, tuple[str, Make]] = {
    "matmul-summary": ("cpu_matmul", _each(small_tables.matmul_summary)),
    "matmul-shapes": ("cpu_matmul", _each(small_tables.matmul_shapes)),
    "matmul-tuning": ("cpu_matmul", _each(small_tables.matmul_tuning)),
    "products-summary": ("cpu_products", _each(thread_tables.products_summary)),
    "products-shapes": ("cpu_products", _each(thread_tables.products_shapes)),
    "vector-summary": ("cpu_vector", _each(thread_tables.vector_summary)),
    "vector-operations": ("cpu_vector", _each(thread_tables.vector_operations)),
    "overheads": ("overheads", _each(small_tables.overheads)),
    "lookup-answers": ("lookup", _each(small_tables.answers)),
    "lookup-calls": ("lookup", _each(small_tables.call_costs)),
    "lookup-remembered": ("lookup", _with("remembered", lookup_tables.remembered)),
    "lookup-stored": ("lookup", _with("stored", lookup_tables.stored)),
    "regret": ("regret", _each(lookup_tables.regret)),
    "regret-transfer": ("regret", _each(lookup_tables.transfer)),
    "start-well": ("start_well", _each(small_tables.start_well)),
    "conv-overall": ("cpu_conv", _together(conv_tables.conv_overall)),
    "conv-summary": ("cpu_conv", _each(conv_tables.conv_summary_table)),
    "conv-layers": ("cpu_conv", _each(conv_tables.conv_layers)),
    "gpu-matmul": ("gpu_matmul", _each(gpu_tables.means)),
    "gpu-products": ("gpu_matmul", _each(gpu_tables.products)),
    "gpu-conv": ("gpu_conv", _each(gpu_tables.means)),
    "gpu-layers": ("gpu_conv", _each(gpu_tables.layers)),
    "gpu-vector": ("gpu_vector", _each(gpu_tables.means)),
    "gpu-bandwidth": ("gpu_compile", _each(gpu_tables.vectors)),
    "gpu-start-well": ("gpu_start_well", _each(gpu_tables.starts)),
    "learn-cards": ("", lambda _: learning_tables.cards()),
    "heuristic-time": ("heuristic_time", _each(learning_tables.heuristic_time)),
    "learn-heuristic": ("learn_heuristic", _each(learning_tables.heuristic)),
    "learn-transfer": ("learn_transfer", _each(learning_tables.heuristic_transfer)),
    "model-search": ("model_search", _each(learning_tables.model_search)),
    "model-transfer": ("model_transfer", _each(learning_tables.transfer)),
    "replay": ("replay", _each(learning_tables.replay_means)),
    "replay-spaces": ("replay", _each(learning_tables.replay_spaces)),
    "gpu-searches": ("gpu_autotune", _each(gpu_tables.searches)),
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
    parser.add_argument("--document", type=Path, action="append", help="default: all of them")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    results, outdated = read_results(args.results), 0
    for document in args.document or DOCUMENTS:
        before = document.read_text(encoding="utf-8")
        after = render(before, results)
        if not args.check:
            document.write_text(after, encoding="utf-8")
        elif before != after:
            print(f"{document.name} is out of date: run python bench/performance_doc.py")
            outdated = 1
    return outdated


if __name__ == "__main__":
    sys.exit(main())
