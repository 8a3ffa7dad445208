"""What a promotion changed, what was undone, and what there is to undo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from skipjack.fleet.release.compare.comparing import Comparison
from skipjack.fleet.release.compare.verdicts import Verdict
from skipjack.fleet.release.promote.promoting import Promoted
from skipjack.fleet.release.promote.promotions import FileChange, Promotion
from skipjack.report import screen

FORMAT = 1
_COUNTS = ("added", "changed", "unchanged", "kept", "dropped")


def promoted(done: Promoted, comparison: Comparison | None, dry_run: bool, json: bool) -> None:
    """Each file with what became of its records."""
    number = done.promotion.number if done.promotion else None
    if json:
        record = {
            "format": FORMAT,
            "directory": str(done.directory),
            "promotion": number,
            "dry_run": dry_run,
            "files": [asdict(change) for change in done.changes],
            "unchanged": list(done.unchanged),
            "remarks": list(done.remarks),
            "compared": _verdicts(comparison) if comparison else None,
        }
        print(dumps(record))
        return
    for remark in done.remarks:
        _say(remark)
    if comparison:
        said = ", ".join(f"{count} {name}" for name, count in _verdicts(comparison).items())
        _say(f"against {comparison.old.name}: {said}")
    if done.changes:
        screen.print_table(_files(done.changes))
    for name in done.unchanged:
        _say(f"{name} was so already")
    if dry_run:
        _say(f"nothing was changed in {done.directory}; without --dry-run it is")
    elif done.promotion:
        _say(f"promotion {number}; skipjack promote --into {done.directory} --undo takes it back")
    else:
        _say(f"nothing had to be changed in {done.directory}")


def undone(directory: Path, promotions: Sequence[Promotion], json: bool) -> None:
    """The promotions that were taken back."""
    for one in promotions:
        if json:
            print(dumps({"undone": True, "directory": str(directory), **one.to_json()}))
        else:
            names = ", ".join(file.name for file in one.files)
            _say(f"promotion {one.number} of {one.label} is undone: {names}")


def listed(directory: Path, promotions: Sequence[Promotion], json: bool) -> None:
    """All promotions of a directory, the first one first."""
    if json:
        for one in promotions:
            print(dumps({"directory": str(directory), **one.to_json()}))
        return
    if not promotions:
        _say(f"nothing was promoted into {directory} yet")
        return
    table = _table("number", "label", "state", "when", "who", "files", *_COUNTS)
    for one in promotions:
        sums = [sum(getattr(file.counts, name) for file in one.files) for name in _COUNTS]
        who = f"{one.user}@{one.host}"
        facts = (str(one.number), one.label, str(one.phase), one.at[:19], who, str(len(one.files)))
        table.add_row(*map(Text, facts), *map(str, sums))
    screen.print_table(table)


def _files(changes: Iterable[FileChange]) -> Table:
    table = _table("file", "", *_COUNTS)
    for change in changes:
        counts = (str(getattr(change.counts, name)) for name in _COUNTS)
        table.add_row(change.name, "new" if change.before is None else "", *counts)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=True, justify="right" if name in _COUNTS else "left")
    return table


def _verdicts(comparison: Comparison) -> dict[str, int]:
    return {str(each): comparison.count(each) for each in Verdict if comparison.count(each)}


def _say(line: str) -> None:
    screen.out().print(Text(line), soft_wrap=True)
