"""The table that ``skipjack tune`` ends with."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from skipjack.report import screen
from skipjack.report.numbers import percent_text, ratio_text, time_text
from skipjack.tuning.result import Outcome, TuneResult

_WORDS = {
    Outcome.BANKED: ("banked", "green"),
    Outcome.KEPT: ("kept: the bank's entry still leads", "green"),
    Outcome.RESERVED: ("reserved: gain within the noise", "yellow"),
    Outcome.VENDOR: ("", "yellow"),
    Outcome.FAILED: ("failed", "red"),
}


def print_results(results: Sequence[TuneResult]) -> None:
    """One row a problem, then the winners' configs and what went wrong."""
    console = screen.out()
    console.print(results_table(results))
    for result in results:
        if result.status is Outcome.FAILED:
            console.print(Text(f"{result.problem.key}: {result.reason}", style="red"))
            continue
        ties = f" (and {len(result.ties)} ties)" if result.ties else ""
        console.print(Text(f"{result.problem.key}: {result.solver} {result.best}{ties}"))


def results_table(results: Sequence[TuneResult]) -> Table:
    """The rows."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("problem", no_wrap=True)
    for name in ("default", "NumPy", "tuned", "spread", "rate", "of peak"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("gain over default", "gain over NumPy"):
        table.add_column(name, no_wrap=True)
    for name in ("builds/runs", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bank")
    for result in results:
        table.add_row(*_row(result))
    return table


def _row(result: TuneResult) -> list[str | Text]:
    words, style = _WORDS[result.status]
    if result.status is Outcome.FAILED:
        return [
            result.problem.key,
            *["-"] * 8,
            f"{result.builds}/{result.runs}",
            f"{result.seconds:.1f}",
            Text(words, style=style),
        ]
    rate, unit = result.rate
    over, numpy = result.speedup.default, result.speedup.vendor
    return [
        result.problem.key,
        time_text(result.default_ns),
        time_text(result.vendor_ns),
        time_text(result.time_ns),
        f"{100 * result.spread:.1f} %",
        f"{rate:.1f} {unit}",
        percent_text(result.peak_share),
        ratio_text(over.ratio, over.low, over.high),
        ratio_text(numpy.ratio, numpy.low, numpy.high) if numpy else "-",
        f"{result.builds}/{result.runs}",
        f"{result.seconds:.1f}",
        Text(words or result.reason, style=style),
    ]
