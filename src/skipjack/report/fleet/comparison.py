"""A comparison for people, for machines and for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from skipjack.app import GatedComparison
from skipjack.fleet.release.compare.comparing import Comparison, Mean
from skipjack.fleet.release.compare.sides import Side
from skipjack.fleet.release.compare.verdicts import Compared, Timing, Verdict
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import time_text
from skipjack.report.render import TableColumn, print_json, print_rows, say
from skipjack.storage import atomic_write

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


def render_comparison(found: GatedComparison, top: int, json: bool) -> None:
    """For people, or for machines a line for each problem and one with the counts and means."""
    if not json:
        print_comparison(found.comparison, top)
        return
    for one in found.comparison.problems:
        print_json("compare", {"kind": "problem", **row_of(one)})
    print_json("compare", _summary_json(found, top))


def print_comparison(comparison: Comparison, top: int) -> None:
    """Counts, means, the extremes, changed winners, and what could not be compared."""
    console = screen.out()
    for line in _headlines(comparison):
        say(line, console)
    _print_counts(console, comparison)
    for title, rows in (
        ("slower", comparison.worst(top)),
        ("faster", comparison.best(top)),
    ):
        if rows:
            say(f"\n{title}, the largest difference first", console)
            _print_problems(console, rows)
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


def _print_counts(console: Console, comparison: Comparison) -> None:
    rows: list[tuple[Text | str, ...]] = []
    for verdict in Verdict:
        count = comparison.count(verdict)
        if count or verdict.compared:
            rows.append((Text(str(verdict), _STYLES.get(verdict, "")), str(count), ""))
    for name, mean in _means(comparison):
        rows.append((name, str(mean.problems), f"{mean.gain:.4f}" if mean.problems else "-"))
    print_rows(_columns("", "problems", "geometric mean"), rows, console=console)


def _columns(first: str, *others: str) -> list[TableColumn]:
    """All but the first at the right."""
    return [TableColumn(first), *(TableColumn(name, right=True) for name in others)]


def _means(comparison: Comparison) -> list[tuple[str, Mean]]:
    return [
        ("compared", comparison.mean),
        ("same winner", comparison.mean_same),
        ("winner changed", comparison.mean_changed),
    ]


def _print_problems(console: Console, problems: Sequence[Compared]) -> None:
    columns = _columns(
        *("problem", "device", "times as fast", "old time", "new time", "old winner", "new winner")
    )
    print_rows(columns, [_problem_row(one) for one in problems], console=console)


def _problem_row(one: Compared) -> tuple[Text | str, ...]:
    gain = f"{one.gain:.3f} [{one.low:.3f}, {one.high:.3f}]" if one.gain else "-"
    return (
        one.name,
        one.device,
        Text(gain, _STYLES.get(one.verdict, "")),
        _time(one.old),
        _time(one.new),
        one.old.solver if one.old else "-",
        (one.new.solver if one.winner_changed else "the same") if one.new else "-",
    )


def _time(timing: Timing | None) -> str:
    if timing is None:
        return "-"
    spread = f" ±{100 * timing.spread:.1f} %" if timing.spread is not None else ""
    return f"{time_text(timing.time_ns)}{spread}"


def _print_changes(console: Console, comparison: Comparison) -> None:
    changes = comparison.changes()
    if not changes:
        return
    say(f"\n{numbered(comparison.mean_changed.problems, 'winner')} changed", console)
    for (before, after), count in changes[:_MOST_LINES]:
        say(f"  {count:>6}  {before} -> {after}", console)
    if len(changes) > _MOST_LINES:
        say(f"  ... and {numbered(len(changes) - _MOST_LINES, 'other pair')}", console)


def _print_rest(console: Console, comparison: Comparison) -> None:
    reasons = comparison.reasons()
    if reasons:
        say("\nnot compared", console)
    for reason, count in reasons[:_MOST_LINES]:
        say(f"  {count:>6}  {reason}", console)
    impossible = comparison.of(Verdict.IMPOSSIBLE)
    if impossible:
        say(
            f"\n{len(impossible)} excluded for an impossible time, as {impossible[0].name}: "
            f"{impossible[0].reason}",
            console,
        )
    for side in (comparison.new, comparison.old):
        for line in _oddities(side):
            say(line, console)


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


def _summary_json(found: GatedComparison, top: int) -> dict[str, Any]:
    comparison = found.comparison
    return {
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
        "failure": found.failure or None,
    }


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


def write_csv(comparison: Comparison, path: Path) -> None:
    """All problems, for a spreadsheet."""
    atomic_write(path, comparison_csv(comparison).encode())


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
