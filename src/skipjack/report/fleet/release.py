"""Comparisons, promotions and exports."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from skipjack.app import ExportedFile, GatedComparison, PromoteResult
from skipjack.fleet.release.compare import (
    Comparison,
    ComparisonOutcome,
    MeanGain,
    ProblemComparison,
    Side,
    WinnerTiming,
)
from skipjack.fleet.release.export import ExportResult
from skipjack.fleet.release.promote import Promoted, Promotion
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import size_text, time_text
from skipjack.report.screen import TableColumn, print_json, print_rows, say
from skipjack.storage import atomic_write

# A comparison as tables, JSON and CSV.

_MOST_LINES = 8
_STYLES = {ComparisonOutcome.FASTER: "green", ComparisonOutcome.SLOWER: "red"}
_WHAT = {
    "finds": "its finds",
    "tunings": "its tunings, as it has no finds",
    "bank": "finds of this user",
    "file": "from files",
}
COLUMNS = (
    *("problem", "find_key", "device", "verdict", "gain", "low", "high"),
    *("new_solver", "new_ns", "new_spread", "new_samples"),
    *("old_solver", "old_ns", "old_spread", "old_samples", "reason"),
)


def render_comparison(found: GatedComparison, top: int, json: bool) -> None:
    """Print tables; with `json`, a line for each problem and one with counts and means."""
    if not json:
        print_comparison(found.comparison, top)
        return
    for one in found.comparison.problems:
        print_json("compare", {"kind": "problem", **row_of(one)})
    print_json("compare", _summary_json(found, top))


def print_comparison(comparison: Comparison, top: int) -> None:
    """Print counts, means, largest changes, changed winners, and what was not compared."""
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
        f"  a difference counts if it exceeds both spreads together and "
        f"{100 * margin.min_effect:g} %; an unknown spread is assumed to be "
        f"{100 * margin.assumed_spread:g} %"
    )
    unknown = sum(one.old is None or one.old.spread is None for one in comparison.compared)
    if unknown:
        yield f"  the spread of {numbered(unknown, 'time')} of the baseline is unknown"
    if comparison.options.relative_to:
        yield f"  times are relative to those of {comparison.options.relative_to} on the same side"
    if comparison.left_out:
        yield f"  left out, as only one side has them: {', '.join(comparison.left_out)}"
    for side in (new, old):
        if side.unused:
            names = ", ".join(side.unused)
            yield f"  not used of {side.name}, as it has another file for the device: {names}"


def _print_counts(console: Console, comparison: Comparison) -> None:
    rows: list[tuple[Text | str, ...]] = []
    for verdict in ComparisonOutcome:
        count = comparison.count(verdict)
        if count or verdict.compared:
            rows.append((Text(str(verdict), _STYLES.get(verdict, "")), str(count), ""))
    for name, mean in _means(comparison):
        rows.append((name, str(mean.problems), f"{mean.gain:.4f}" if mean.problems else "-"))
    print_rows(_columns("", "problems", "geometric mean"), rows, console=console)


def _columns(first: str, *others: str) -> list[TableColumn]:
    """Columns, all but the first aligned right."""
    return [TableColumn(first), *(TableColumn(name, right=True) for name in others)]


def _means(comparison: Comparison) -> list[tuple[str, MeanGain]]:
    return [
        ("compared", comparison.mean),
        ("same winner", comparison.mean_same),
        ("winner changed", comparison.mean_changed),
    ]


def _print_problems(console: Console, problems: Sequence[ProblemComparison]) -> None:
    columns = _columns(
        *("problem", "device", "times as fast", "old time", "new time", "old winner", "new winner")
    )
    print_rows(columns, [_problem_row(one) for one in problems], console=console)


def _problem_row(one: ProblemComparison) -> tuple[Text | str, ...]:
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


def _time(timing: WinnerTiming | None) -> str:
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
    impossible = comparison.of(ComparisonOutcome.IMPOSSIBLE)
    if impossible:
        say(
            f"\n{len(impossible)} excluded for an impossible time, such as {impossible[0].name}: "
            f"{impossible[0].reason}",
            console,
        )
    for side in (comparison.new, comparison.old):
        for line in _unusable_lines(side):
            say(line, console)


def _unusable_lines(side: Side) -> Iterator[str]:
    if side.repeated:
        again = numbered(side.repeated, "result")
        yield f"left out {again} of {side.name} for problems that had one before"
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
        "counts": {str(verdict): comparison.count(verdict) for verdict in ComparisonOutcome},
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
    """All problems as CSV."""
    atomic_write(path, comparison_csv(comparison).encode())


def comparison_csv(comparison: Comparison) -> str:
    """All problems as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row_of(one) for one in comparison.problems)
    return text.getvalue()


def row_of(one: ProblemComparison) -> dict[str, Any]:
    """A problem as a flat record."""
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


# Reports of promotions: what was changed or undone, and what can be undone.

_COUNTS = ("added", "changed", "unchanged", "kept", "dropped")
_NUMBERS = [TableColumn(name, right=True) for name in _COUNTS]


def render_promotion(done: PromoteResult, json: bool) -> None:
    """Print the changes of each file, or with `json` the comparison that failed the gate."""
    if done.promoted is not None:
        _promoted(done.promoted, done.comparison, done.dry_run, json)
    elif json and done.comparison is not None:
        render_comparison(GatedComparison(done.comparison, done.failure), 10, json)


def _promoted(done: Promoted, comparison: Comparison | None, dry_run: bool, json: bool) -> None:
    number = done.promotion.number if done.promotion else None
    if json:
        record = {
            "directory": str(done.directory),
            "promotion": number,
            "dry_run": dry_run,
            "files": [asdict(change) for change in done.changes],
            "unchanged": list(done.unchanged),
            "remarks": list(done.remarks),
            "compared": _verdicts(comparison) if comparison else None,
        }
        print_json("promote", record)
        return
    for remark in done.remarks:
        say(remark)
    if comparison:
        said = ", ".join(f"{count} {name}" for name, count in _verdicts(comparison).items())
        say(f"against {comparison.old.name}: {said}")
    if done.changes:
        rows = [
            (
                change.name,
                "new" if change.before is None else "",
                *(str(getattr(change.counts, name)) for name in _COUNTS),
            )
            for change in done.changes
        ]
        print_rows(["file", "", *_NUMBERS], rows)
    for name in done.unchanged:
        say(f"{name} is unchanged")
    if dry_run:
        say(f"dry run: nothing was changed in {done.directory}; leave out --dry-run to promote")
    elif done.promotion:
        say(f"promotion {number}; skipjack promote --into {done.directory} --undo undoes it")
    else:
        say(f"{done.directory} is up to date; nothing was changed")


def undone(directory: Path, promotions: Sequence[Promotion], json: bool) -> None:
    """Print the promotions that were undone."""
    for one in promotions:
        if json:
            print_json("promote", {"undone": True, "directory": str(directory), **one.to_json()})
        else:
            names = ", ".join(file.name for file in one.files)
            say(f"promotion {one.number} of {one.label} is undone: {names}")


def listed(directory: Path, promotions: Sequence[Promotion], json: bool) -> None:
    """Print all promotions of a directory, the first one first."""
    if json:
        for one in promotions:
            print_json("promote", {"directory": str(directory), **one.to_json()})
        return
    if not promotions:
        say(f"nothing has been promoted into {directory}")
        return
    rows = []
    for one in promotions:
        sums = [sum(getattr(file.counts, name) for file in one.files) for name in _COUNTS]
        who = f"{one.user}@{one.host}"
        facts = (str(one.number), one.label, str(one.phase), one.at[:19], who, str(len(one.files)))
        rows.append((*facts, *map(str, sums)))
    print_rows(["number", "label", "state", "when", "who", "files", *_NUMBERS], rows)


def _verdicts(comparison: Comparison) -> dict[str, int]:
    return {
        str(each): comparison.count(each) for each in ComparisonOutcome if comparison.count(each)
    }


_NOUNS = {"devices": "device", "problems": "problem", "entries": "entry", "kernels": "kernel"}


def render_export(done: ExportResult | ExportedFile, json: bool) -> None:
    """Print each file with its contents, and what was left out."""
    if isinstance(done, ExportedFile):
        _render_file(done, json)
        return
    if json:
        print_json("export find-db", _fields(done))
        return
    for note in done.files:
        counts = ", ".join(numbered(count, _NOUNS[key]) for key, count in note.counts.items())
        copied = f" (measured on {note.alias_of})" if note.alias_of else ""
        say(f"{done.directory / note.name}: {counts}{copied}")
    if done.unfinished:
        say(f"  left out: {numbered(done.unfinished, 'job')} not done")
    if done.not_applicable:
        say(f"  left out: {numbered(done.not_applicable, 'job')} that no solver can compute")
    for remark in done.remarks:
        say(f"  {remark}")


def _fields(done: ExportResult) -> dict[str, object]:
    return {
        "kind": done.contents.kind,
        "directory": str(done.directory),
        "files": [note.to_json() for note in done.files],
        "left_out": {
            **done.contents.counts,
            "not_applicable": done.not_applicable,
            "unfinished": done.unfinished,
        },
        "remarks": list(done.remarks),
    }


def _render_file(done: ExportedFile, json: bool) -> None:
    if json:
        record = {"file": str(done.file), "kernels": done.kernels, "bytes": done.bytes}
        print_json("export find-db", {**record, "remarks": list(done.remarks)})
        return
    say(f"{numbered(done.kernels, 'kernel')} in {done.file}, {size_text(done.bytes)}")
    for remark in done.remarks:
        say(f"  {remark}")
