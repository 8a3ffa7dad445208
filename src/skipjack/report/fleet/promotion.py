"""What a promotion changed, what was undone, and what there is to undo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from skipjack.app import Comparison, GatedComparison, Promoted, PromoteResult, Promotion
from skipjack.fleet.release.compare.verdicts import Verdict
from skipjack.report.fleet.comparison import render_comparison
from skipjack.report.render import TableColumn, print_json, print_rows, say

_COUNTS = ("added", "changed", "unchanged", "kept", "dropped")
_NUMBERS = [TableColumn(name, right=True) for name in _COUNTS]


def render_promotion(done: PromoteResult, json: bool) -> None:
    """Each file with what became of its records; for machines, the comparison that forbade it."""
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
        say(f"{name} was so already")
    if dry_run:
        say(f"nothing was changed in {done.directory}; without --dry-run it is")
    elif done.promotion:
        say(f"promotion {number}; skipjack promote --into {done.directory} --undo takes it back")
    else:
        say(f"nothing had to be changed in {done.directory}")


def undone(directory: Path, promotions: Sequence[Promotion], json: bool) -> None:
    """The promotions that were taken back."""
    for one in promotions:
        if json:
            print_json("promote", {"undone": True, "directory": str(directory), **one.to_json()})
        else:
            names = ", ".join(file.name for file in one.files)
            say(f"promotion {one.number} of {one.label} is undone: {names}")


def listed(directory: Path, promotions: Sequence[Promotion], json: bool) -> None:
    """All promotions of a directory, the first one first."""
    if json:
        for one in promotions:
            print_json("promote", {"directory": str(directory), **one.to_json()})
        return
    if not promotions:
        say(f"nothing was promoted into {directory} yet")
        return
    rows = []
    for one in promotions:
        sums = [sum(getattr(file.counts, name) for file in one.files) for name in _COUNTS]
        who = f"{one.user}@{one.host}"
        facts = (str(one.number), one.label, str(one.phase), one.at[:19], who, str(len(one.files)))
        rows.append((*facts, *map(str, sums)))
    print_rows(["number", "label", "state", "when", "who", "files", *_NUMBERS], rows)


def _verdicts(comparison: Comparison) -> dict[str, int]:
    return {str(each): comparison.count(each) for each in Verdict if comparison.count(each)}
