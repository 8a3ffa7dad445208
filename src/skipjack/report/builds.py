"""The table that ``skipjack tune --build-only`` ends with."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from skipjack.core.config import settings_text
from skipjack.report import screen
from skipjack.report.render import TableColumn, table
from skipjack.tuning.build_only import BuildResult, BuiltConfig

_CPU_COLUMNS = ("build ms", "bytes", "code", "spills")
_GPU_COLUMNS = ("build ms", "bytes", "registers", "shared", "spills")


def print_builds(results: Sequence[BuildResult], console: Console | None = None) -> None:
    """For each problem a line, a table of its configs, and why builds failed."""
    console = console or screen.out()
    for result in results:
        console.print(Text(headline(result), style="" if result.built else "red"), soft_wrap=True)
        screen.print_table(builds_table(result), console)
        for build in result.builds:
            if not build.ok:
                console.print(Text(f"  {build.number}: {build.reason}", "red"), soft_wrap=True)


def headline(result: BuildResult) -> str:
    """``add:4096:f32 for haswell/1 by nest: 16 of 16 built in 0.3 s``."""
    return (
        f"{result.problem.key} for {result.device.name} by {result.solver}: "
        f"{result.built} of {len(result.builds)} built in {result.seconds:.1f} s "
        f"({_means(result)})"
    )


def _means(result: BuildResult) -> str:
    if result.gpu:
        return result.compiler
    return f"{result.target['triple']}, {result.device.vector_bytes}-byte vectors"


def builds_table(result: BuildResult) -> Table:
    """One row a config."""
    columns = _GPU_COLUMNS if result.gpu else _CPU_COLUMNS
    first: dict[str, int] = {}
    rows: list[tuple[Text | str, ...]] = []
    for build in result.builds:
        status = Text(str(build.status), style="green" if build.ok else "red")
        owner = first.setdefault(build.digest or str(build.number), build.number)
        cells = _cells(build, owner, len(columns))
        rows.append((str(build.number), settings_text(build.config), status, *cells))
    return table(
        [
            *(TableColumn("number", right=True), TableColumn("config", folded=True), "status"),
            *(TableColumn(name, right=True) for name in columns),
            "digest",
        ],
        rows,
    )


def _cells(build: BuiltConfig, owner: int, columns: int) -> list[str]:
    """`owner` is the first config with the same code."""
    known = "known" if owner == build.number else f"as {owner}"
    spent = known if build.cached else f"{1000.0 * build.seconds:.1f}"
    if needs := build.needs:
        size = str(len(build.data)) if build.ok else "-"
        return [spent, size, *map(str, needs.values()), build.digest[:12] or "-"]
    if not build.ok:
        return [spent, *["-"] * columns]
    spills = "-" if build.vector_spills is None else str(build.vector_spills)
    return [spent, str(len(build.data)), str(build.text_bytes), spills, build.digest[:12]]
