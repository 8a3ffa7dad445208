"""A comparison for people, for machines and for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from json import dumps
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skipjack.fleet.release.compare.comparing import Comparison, Mean
from skipjack.fleet.release.compare.sides import Side
from skipjack.fleet.release.compare.verdicts import Compared, Timing, Verdict
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import time_text

FORMAT = 1
_MOST_LINES = 8
_STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red"}
_WHAT = {
    "finds": "its finds",
    "tunings": "its tunings, as it has no find",
    "bank": "finds of this user",
    "file": "as it stands there",
}
COLUMNS = (
    *("problem", "find_key", "device", "verdict", "gain", "low", "high"),
    *("new_solver", "new_ns", "new_spread", "new_samples"),
    *("old_solver", "old_ns", "old_spread", "old_samples", "reason"),
)


def print_comparison(comparison: Comparison, top: int) -> None:
    """Counts, means, the extremes, changed winners, and what could not be compared."""
    console = screen.out()
    for line in _headlines(comparison):
        _say(console, line)
    screen.print_table(_counts(comparison), console)
    for title, rows in (
        ("slower", comparison.worst(top)),
        ("faster", comparison.best(top)),
    ):
        if rows:
            _say(console, f"\n{title}, the largest difference first")
            screen.print_table(_table(rows), console)
    _print_changes(console, comparison)
    _print_rest(console, comparison)


def _headlines(comparison: Comparison) -> Iterator[str]:
    new, old = comparison.new, comparison.old
    yield f"{new.name} ({_WHAT[new.what]})"
    yield f"  against {old.name} ({_WHAT[old.what]}) on {', '.join(comparison.devices)}"
    margin = comparison.options.margin
    yield (
        f"  a difference counts beyond both spreads together and {100 * margin.min_effect:g} %; "
        f"a spread that is not known is taken as {100 * margin.assumed_spread:g} %"
    )
    unknown = sum(one.old is None or one.old.spread is None for one in comparison.compared)
    if unknown:
        yield f"  of {unknown} of the baseline's times no spread is known"
    if comparison.options.relative_to:
        yield f"  times are multiples of those of {comparison.options.relative_to} on the same side"
    if comparison.left_out:
        yield f"  left out, as one side alone has them: {', '.join(comparison.left_out)}"
    for side in (new, old):
        if side.unused:
            names = ", ".join(side.unused)
            yield f"  not used of {side.name}, where another of the same device counts: {names}"


def _counts(comparison: Comparison) -> Table:
    table = _plain("", "problems", "geometric mean")
    for verdict in Verdict:
        count = comparison.count(verdict)
        if count or verdict.compared:
            table.add_row(Text(str(verdict), _STYLES.get(verdict, "")), str(count), "")
    for name, mean in _means(comparison):
        table.add_row(name, str(mean.problems), f"{mean.gain:.4f}" if mean.problems else "-")
    return table


def _means(comparison: Comparison) -> list[tuple[str, Mean]]:
    return [
        ("compared", comparison.mean),
        ("same winner", comparison.mean_same),
        ("winner changed", comparison.mean_changed),
    ]


def _table(rows: Sequence[Compared]) -> Table:
    table = _plain(
        *("problem", "device", "times as fast", "old time", "new time", "old winner", "new winner")
    )
    for one in rows:
        gain = f"{one.gain:.3f} [{one.low:.3f}, {one.high:.3f}]" if one.gain else "-"
        table.add_row(
            Text(one.name),
            one.device,
            Text(gain, _STYLES.get(one.verdict, "")),
            _time(one.old),
            _time(one.new),
            one.old.solver if one.old else "-",
            (one.new.solver if one.winner_changed else "the same") if one.new else "-",
        )
    return table


def _time(timing: Timing | None) -> str:
    if timing is None:
        return "-"
    spread = f" ±{100 * timing.spread:.1f} %" if timing.spread is not None else ""
    return f"{time_text(timing.time_ns)}{spread}"


def _print_changes(console: Console, comparison: Comparison) -> None:
    changes = comparison.changes()
    if not changes:
        return
    _say(console, f"\n{numbered(comparison.mean_changed.problems, 'winner')} changed")
    for (before, after), count in changes[:_MOST_LINES]:
        _say(console, f"  {count:>6}  {before} -> {after}")
    if len(changes) > _MOST_LINES:
        _say(console, f"  ... and {numbered(len(changes) - _MOST_LINES, 'other pair')}")


def _print_rest(console: Console, comparison: Comparison) -> None:
    reasons = comparison.reasons()
    if reasons:
        _say(console, "\nnot compared")
    for reason, count in reasons[:_MOST_LINES]:
        _say(console, f"  {count:>6}  {reason}")
    impossible = comparison.of(Verdict.IMPOSSIBLE)
    if impossible:
        _say(
            console,
            f"\n{len(impossible)} excluded for an impossible time, as {impossible[0].name}: "
            f"{impossible[0].reason}",
        )
    for side in (comparison.new, comparison.old):
        for line in _oddities(side):
            _say(console, line)


def _oddities(side: Side) -> Iterator[str]:
    if side.repeated:
        again = numbered(side.repeated, "result")
        yield f"left out {again} of {side.name} for a problem that had one"
    if not side.skipped:
        return
    yield f"skipped {numbered(len(side.skipped), 'line')} of {side.name}"
    for line in side.skipped[:_MOST_LINES]:
        yield f"  {line.file}:{line.line}: {line.reason}"
    if len(side.skipped) > _MOST_LINES:
        numbers = [str(line.line) for line in side.skipped[_MOST_LINES : 5 * _MOST_LINES]]
        more = " ..." if len(side.skipped) > 5 * _MOST_LINES else ""
        yield f"  and lines {', '.join(numbers)}{more}"


def comparison_json(comparison: Comparison, top: int, failure: str) -> Iterator[str]:
    """A line for each problem, then one with the counts and means."""
    for one in comparison.problems:
        yield dumps({"format": FORMAT, "kind": "problem", **row_of(one)})
    yield dumps(
        {
            "format": FORMAT,
            "kind": "summary",
            "new": _side_json(comparison.new),
            "old": _side_json(comparison.old),
            "devices": list(comparison.devices),
            "left_out_devices": list(comparison.left_out),
            "min_effect": comparison.options.margin.min_effect,
            "assumed_spread": comparison.options.margin.assumed_spread,
            "relative_to": comparison.options.relative_to or None,
            "counts": {str(verdict): comparison.count(verdict) for verdict in Verdict},
            "winner_changed": comparison.mean_changed.problems,
            "means": {
                name.replace(" ", "_"): {"gain": round(mean.gain, 6), "problems": mean.problems}
                for name, mean in _means(comparison)
            },
            "worst": [one.name for one in comparison.worst(top)],
            "best": [one.name for one in comparison.best(top)],
            "changes": [
                {"from": before, "to": after, "problems": count}
                for (before, after), count in comparison.changes()
            ],
            "failure": failure or None,
        }
    )


def _side_json(side: Side) -> dict[str, Any]:
    skipped = [{"file": one.file, "line": one.line, "reason": one.reason} for one in side.skipped]
    return {
        "name": side.name,
        "what": side.what,
        "problems": len(side.found),
        "without_result": len(side.absent),
        "repeated": side.repeated,
        "unused": list(side.unused),
        "skipped": skipped,
    }


def comparison_csv(comparison: Comparison) -> str:
    """All problems, for a spreadsheet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row_of(one) for one in comparison.problems)
    return text.getvalue()


def row_of(one: Compared) -> dict[str, Any]:
    """One problem, flat."""
    row: dict[str, Any] = {
        "problem": one.problem,
        "find_key": one.find_key,
        "device": one.device,
        "verdict": str(one.verdict),
        "gain": round(one.gain, 6) if one.gain else None,
        "low": round(one.low, 6) if one.gain else None,
        "high": round(one.high, 6) if one.gain else None,
        "reason": one.reason,
    }
    for side, timing in (("new", one.new), ("old", one.old)):
        row[f"{side}_solver"] = timing.solver if timing else None
        row[f"{side}_ns"] = timing.time_ns if timing else None
        row[f"{side}_spread"] = timing.spread if timing else None
        row[f"{side}_samples"] = timing.samples if timing else None
    return {name: row[name] for name in COLUMNS}


def _plain(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, no_wrap=True, justify="left" if number == 0 else "right")
    return table


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(Text(line, style), soft_wrap=True)
