"""The table that ``skipjack tune`` ends with."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from skipjack.execute.statistics import Ratio
from skipjack.report import screen
from skipjack.report.library import library_cell, library_column
from skipjack.report.numbers import gain_text, percent_text, time_text
from skipjack.tuning.result import Outcome, TuneResult

_STYLES = {
    Outcome.BANKED: "green",
    Outcome.KEPT: "green",
    Outcome.RESERVED: "yellow",
    Outcome.VENDOR: "yellow",
    Outcome.NOISY: "yellow",
    Outcome.FAILED: "red",
}
_SHORT_NS = 5000.0
"""Below this, calling NumPy from Python costs as much as the work."""


def print_results(results: Sequence[TuneResult], console: Console | None = None) -> None:
    """One row a problem (or a block, where the screen is narrow), then configs and reasons."""
    console = console or screen.out()
    table = results_table(results)
    if width_of(table, console) <= console.width:
        console.print(table)
    else:
        _print_blocks(results, console)
    for result in results:
        style = "red" if result.status is Outcome.FAILED else ""
        for line in _remarks(result):
            console.print(Text(line, style=style), soft_wrap=True)


def width_of(table: Table, console: Console) -> int:
    """What the table needs so that nothing is cut."""
    return Measurement.get(console, console.options.update(max_width=1000), table).maximum


def results_table(results: Sequence[TuneResult]) -> Table:
    """The rows."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("problem", no_wrap=True)
    library = library_column(result.vendor for result in results)
    for name in _columns(library):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bank", no_wrap=True)
    for result in results:
        bank = Text(str(result.status), style=_STYLES[result.status])
        table.add_row(result.problem.key, *_cells(result, library), bank)
    return table


def _columns(library: str) -> list[str]:
    measured = ["default", library, "tuned", "spread", "rate", "of peak"]
    return [*measured, "x default", f"x {library}", "builds", "runs", "s"]


def _print_blocks(results: Sequence[TuneResult], console: Console) -> None:
    for result in results:
        console.print(Text(f"{result.problem.key}: {result.status}", style=_STYLES[result.status]))
        library = library_column([result.vendor])
        for name, cell in zip(_columns(library), _cells(result, library), strict=True):
            console.print(Text(f"  {name:>9}  {cell}"))


def _cells(result: TuneResult, library: str) -> list[str]:
    counts = [str(result.builds), str(result.runs), f"{result.seconds:.1f}"]
    if result.status is Outcome.FAILED:
        return [*["-"] * (len(_columns(library)) - len(counts)), *counts]
    rate, unit = result.rate
    return [
        time_text(result.default_ns),
        library_cell(time_text(result.vendor_ns), result.vendor, library),
        time_text(result.time_ns),
        f"{100 * result.spread:.1f} %",
        f"{rate:.1f} {unit}",
        percent_text(result.peak_share),
        _gain(result.speedup.default),
        _gain(result.speedup.vendor),
        *counts,
    ]


def _gain(ratio: Ratio | None) -> str:
    if ratio is not None and ratio.noisy:
        return "noisy"
    return gain_text(ratio.ratio, ratio.low, ratio.high) if ratio else "-"


def _remarks(result: TuneResult) -> list[str]:
    """The winner's config, libraries that have no column, and why it is not in the bank."""
    key = result.problem.key
    if result.status is Outcome.FAILED:
        return [f"{key}: {result.reason}"]
    ties = f", tied with {len(result.ties)} others" if result.ties else ""
    lines = [f"{key}: {result.solver} {result.best}{ties}"]
    for name, gain in result.speedup.vendors.items():
        if name != result.vendor:
            lines.append(f"  {_gain(gain)} over {name}")
    if result.vendor == "numpy" and result.time_ns < _SHORT_NS:
        lines.append("  a call this short is mostly Python for NumPy; ours is timed without it")
    if result.reason:
        lines.append(f"  {result.reason}")
    return lines
