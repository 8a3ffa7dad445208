"""``skipjack report``: a result file of a program as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import examples

if TYPE_CHECKING:
    from skipjack.integrations.torch import ReadResult, ResultRow

EXAMPLES = examples(
    "skipjack report tune_result_20261116_101500_pid4242.json",
    "skipjack report tune_result_20261116_101500_pid4242.json --all",
)
_ROWS = 30
_COUNTS = ("bank_hit", "bank_append", "bank_update", "bank_reserved", "vendor", "failed")


def show_report(
    file: Annotated[
        Path, typer.Argument(help="What a program wrote: tune_result_TIME_pidPID.json.")
    ],
    every: Annotated[
        bool, typer.Option("--all", help=f"All operations, not the first {_ROWS}.")
    ] = False,
) -> None:
    """Show what became of a program's operations, those first whose calls take longest."""
    from skipjack.errors import StorageError
    from skipjack.integrations.torch import read_result

    try:
        result = read_result(file)
    except OSError as error:
        raise StorageError(f"cannot read {file}: {error.strerror or error}") from None
    _print(result, None if every else _ROWS)


def _print(result: ReadResult, most: int | None) -> None:
    from rich.text import Text

    from skipjack.report import screen

    console = screen.out()
    words = f", auto_tune_mode {result.auto_tune_mode}" if result.auto_tune_mode else ""
    state = "" if result.has_ended else "; it has not ended, or was killed"
    console.print(Text(f"{' '.join(result.command)}  (in {result.directory}, pid {result.pid})"))
    console.print(Text(f"policy {result.policy}{words}{state}"))
    console.print(_table(result, most))
    left_out = len(result.rows) - most if most is not None else 0
    if left_out > 0:
        console.print(Text(f"and {left_out} more: --all"))
    for sentence in (*_counts(result), f"{result.gain_formula}", *_times(result)):
        console.print(Text(sentence))


def _table(result: ReadResult, most: int | None) -> object:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("operation", "sizes"):
        table.add_column(name)
    for name in ("calls", "before µs", "after µs", "gain", "saved ms"):
        table.add_column(name, justify="right")
    for name in ("kernel", "status", "searcher"):
        table.add_column(name)
    rows = sorted(result.rows, key=lambda one: (-one.value_us, -one.calls, one.op))
    for row in rows[:most]:
        table.add_row(
            *(Text(row.op.removeprefix("aten::")), Text(row.description), f"{row.calls:,}"),
            *(_number(row.before_us, 1), _number(row.after_us, 1), _number(row.gain, 2)),
            _number(row.saved_us / 1000 or None, 2),
            *(Text(_kernel(row)), Text(row.status), Text(row.searcher or "-")),
        )
    return table


def _kernel(row: ResultRow) -> str:
    return row.solver or "skipjack" if row.kernel == "skipjack" else "torch"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _counts(result: ReadResult) -> list[str]:
    counts = [f"{result.summary.get(name, 0)} {name}" for name in _COUNTS]
    total = result.summary.get("total", 0)
    ours = result.summary.get("with_skipjack_kernel", 0)
    return [f"{total} operations: {' + '.join(counts)}", f"{ours} of them run kernels of Skipjack"]


def _times(result: ReadResult) -> list[str]:
    time = result.time
    if time is None:
        return []
    took = f"the program took {time.seconds:.2f} s"
    if time.has_searched:
        took += ", with its searches; run it once more to see what they gained"
    if time.before_seconds is None:
        hint = "skipjack exec --policy off -- COMMAND runs it without Skipjack's kernels"
        return [f"{took}; it was not run untuned before ({hint})"]
    before = f"{took}; untuned it took {time.before_seconds:.2f} s"
    return [before if time.gain is None else f"{before}: a gain of {time.gain:.2f} end to end"]
