"""How a program's operations were tuned, from its result file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from skipjack.integrations.torch.outcomes import ReadResult, ResultRow
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.screen import TableColumn, table

_OFF = "off"
_TABLE_WIDTH = 140
"""Least width of a screen for a table with one line per operation."""
_NUMBERS = ("calls", "before µs", "after µs", "gain", "saved ms")
_WORDS = ("status", "searcher", "kernel")
_COUNTS = ("bank_hit", "bank_append", "bank_update", "bank_reserved", "vendor", "failed")


def render_program_result(result: ReadResult, most: int | None) -> None:
    """Print the operations whose calls take longest, and a summary of all."""
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
        console.print(Text(f"and {left_out} more; --all shows them"))
    sentences = *_counts(result), *_reasons(result), *_times(result)
    for sentence in sentences:
        console.print(Text(sentence))


def _table(rows: Sequence[ResultRow]) -> Table:
    folded = [TableColumn(name, folded=True) for name in ("operation", "sizes")]
    words = [TableColumn(name, folded=True) for name in _WORDS]
    return table(
        [*folded, *(TableColumn(name, right=True) for name in _NUMBERS), *words],
        [(_name(row), row.description, *_numbers(row), *_words(row)) for row in rows],
        framed=True,
    )


def _pairs(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Two lines for each operation: its name and sizes, then its numbers."""
    yield ""
    yield _line(_NUMBERS, _WORDS)
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
        return ["the program ran no operation that can be tuned"]
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
