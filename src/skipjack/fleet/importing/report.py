"""What came of an import, in numbers that add up.

::

    lines    = understood + blank + not_applicable + rejected
    problems = imported + tagged + duplicates + unknown

The first counts lines. The second counts what the understood lines stand for: one line may stand
for several problems, in several directions and batch sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skipjack.interop import LONE_LAYOUT
from skipjack.reading import numbered

SHOWN = 20
"""Bad lines that a report has; all are counted."""
_REASONS = 20
_EXCERPT = 120


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was left out."""

    number: int
    """From 1 on."""
    text: str
    """The beginning of it."""
    reason: str

    def fields(self) -> dict[str, object]:
        """As a report file and ``--json`` name them."""
        return {"line": self.number, "text": self.text, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Numbers of an import that is over."""

    lines: int = 0
    understood: int = 0
    """Lines that stand for problems."""
    blank: int = 0
    """Empty lines and comments."""
    not_applicable: int = 0
    """Lines that are sound, but say what no operation here computes."""
    rejected: int = 0
    """Lines that are wrong, or no problem at all."""
    problems: int = 0
    """That the understood lines stand for, repeated ones counted each time."""
    imported: int = 0
    """Problems that the store did not know."""
    tagged: int = 0
    """Problems that the store knew and that have the tag since this import."""
    duplicates: int = 0
    """Problems that were there with the tag, or stood in the file before."""
    unknown: int = 0
    """Problems that the store does not know and that were to be tagged only."""
    without_direction: int = 0
    """Understood lines that left the direction open."""
    without_batch: int = 0
    """Understood lines that were kept as they are though batch sizes were given."""
    lone_layout: int = 0
    """Understood commands that say the layout of their output alone, which holds for all arrays."""
    bad: tuple[BadLine, ...] = ()
    """The first rejected lines."""
    not_applicable_reasons: Mapping[str, int] = field(default_factory=dict)
    """The first reasons, with how many lines have each."""


def lone_layouts(count: int) -> str:
    """One sentence for all commands that say the layout of their output alone."""
    return f"{numbered(count, 'command')}: {LONE_LAYOUT}"


class ImportProgress(NamedTuple):
    """How far an import has come; what it counts as imported is committed."""

    lines: int
    imported: int
    bytes_read: int
    bytes_in_all: int | None
    """None where nobody knows, as of a pipe."""


def excerpt(line: str) -> str:
    """The beginning of a line as a person can read it."""
    text = line.strip()
    cut = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
    return "".join(each if each.isprintable() else "\ufffd" for each in cut)


def count_reason(reasons: dict[str, int], reason: str) -> None:
    """Reasons that quote the line are many: the first different ones are kept."""
    if reason in reasons or len(reasons) < _REASONS:
        reasons[reason] = reasons.get(reason, 0) + 1
