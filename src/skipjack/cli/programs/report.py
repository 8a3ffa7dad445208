"""``skipjack report``: a result file of a program as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import examples
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.integrations.torch import ReadResult, ResultRow

EXAMPLES = examples(
    "skipjack report tune_result_20261116_101500_pid4242.json",
    "skipjack report tune_result_20261116_101500_pid4242.json --all",
)
_OFF = "off"
_ROWS = 30
_TABLE_WIDTH = 140
"""Columns of a screen on which an operation has room in one line of a table."""
_WORDS = ("status", "searcher", "kernel")
_COUNTS = ("bank_hit", "bank_append", "bank_update", "bank_reserved", "vendor", "failed")


def show_report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="What programs wrote: tune_result_TIME_pidPID.json."
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help=f"All operations, not the first {_ROWS}.")
    ] = False,
) -> None:
    """Show what became of a program's operations.

    Those whose calls take longest come first.
    """
    from skipjack.errors import StorageError
    from skipjack.integrations.torch import read_result

    for file in files:
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
    rows = sorted(result.rows, key=lambda one: (-one.value_us, -one.calls, one.op))[:most]
    if rows and console.width >= _TABLE_WIDTH:
        console.print(_table(rows))
    elif rows:
        for line in _pairs(rows):
            console.print(Text(line), no_wrap=True, overflow="ellipsis")
    left_out = len(result.rows) - most if most is not None else 0
    if left_out > 0:
        console.print(Text(f"and {left_out} more: --all"))
    sentences = *_counts(result), *_reasons(result), *_times(result)
    for sentence in sentences:
        console.print(Text(sentence))


def _table(rows: Sequence[ResultRow]) -> object:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("operation", "sizes"):
        table.add_column(name)
    for name in ("calls", "before µs", "after µs", "gain", "saved ms"):
        table.add_column(name, justify="right")
    for name in _WORDS:
        table.add_column(name)
    for row in rows:
        named = _name(row), row.description
        table.add_row(*map(Text, named), *_numbers(row), *map(Text, _words(row)))
    return table


def _pairs(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Two lines for each operation: what it is, and its numbers."""
    yield ""
    yield _line(("calls", "before µs", "after µs", "gain", "saved ms"), _WORDS)
    for row in rows:
        yield f"{_name(row)}  {row.description}"
        yield _line(_numbers(row), _words(row))
    yield ""


def _line(numbers: Sequence[str], words: Sequence[str]) -> str:
    widths = (8, 9, 9, 6, 8)
    right = " ".join(f"{text:>{width}}" for text, width in zip(numbers, widths, strict=True))
    return f"{right}  {words[0]:<13} {words[1]:<10} {words[2]}"


def _name(row: ResultRow) -> str:
    return row.op.removeprefix("aten::")


def _numbers(row: ResultRow) -> tuple[str, ...]:
    return (
        f"{row.calls:,}",
        *(_number(row.before_us, 1), _number(row.after_us, 1), _number(row.gain, 2)),
        _number(row.saved_us / 1000 or None, 2),
    )


def _words(row: ResultRow) -> tuple[str, ...]:
    return row.status, row.searcher or "-", _kernel(row)


def _kernel(row: ResultRow) -> str:
    return row.solver or "skipjack" if row.kernel == "skipjack" else "torch"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _counts(result: ReadResult) -> list[str]:
    counts = [f"{result.summary.get(name, 0)} {name}" for name in _COUNTS]
    total = result.summary.get("total", 0)
    ours = result.summary.get("with_skipjack_kernel", 0)
    if not total:
        return ["no operation was decided about"]
    of_all = f"{numbered(total, 'operation')}: {' + '.join(counts)}"
    return [of_all, f"{ours} of them run kernels of Skipjack", result.gain_formula]


def _reasons(result: ReadResult) -> list[str]:
    """Why operations are left to PyTorch, the most frequent reason first."""
    counts = Counter(row.reason for row in result.rows if row.kernel == "torch")
    return [f"{count} left to PyTorch: {reason}" for reason, count in counts.most_common(5)]


def _times(result: ReadResult) -> list[str]:
    time = result.time
    if time is None:
        return []
    took = f"the program took {time.seconds:.2f} s"
    if time.has_searched:
        took += ", with its searches; run it once more to see what they gained"
    if result.policy == _OFF:
        return [f"{took}, without Skipjack's kernels"]
    if time.before_seconds is None:
        hint = "skipjack exec --policy off -- COMMAND runs it without Skipjack's kernels"
        return [f"{took}; it was not run untuned before ({hint})"]
    before = f"{took}; without Skipjack's kernels it took {time.before_seconds:.2f} s"
    if time.gain is None:
        return [before]
    return [f"{before}: {time.gain:.2f} times as fast, by one run of each with its start-up"]
