"""What is wrong in databases: few words for each, many of a kind counted and not listed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning"]
KINDS: dict[str, Severity] = {
    "unreadable": "error",
    "wrong_name": "error",
    "bad_line": "error",
    "bad_key": "error",
    "bad_values": "error",
    "bad_time": "error",
    "impossible_time": "error",
    "bad_workspace": "error",
    "bad_sizes": "error",
    "bad_layout": "error",
    "wrong_direction": "error",
    "duplicate_key": "error",
    "duplicate_id": "error",
    "damaged_kernel": "error",
    "duplicate_kernel": "error",
    "dead_key": "warning",
    "empty": "warning",
    "odd_md5": "warning",
    "old_layout": "warning",
    "unsorted": "warning",
    "odd_lines": "warning",
    "unknown_algorithm": "warning",
    "orphan_row": "warning",
    "orphan_config": "warning",
    "no_find_record": "warning",
    "no_params": "warning",
    "not_as_noted": "warning",
}
"""Errors are what MIOpen would stumble over or believe though it is wrong; warnings what it lives
with."""
LISTED = 5
"""Findings of a kind in a file that are told one by one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, and where it is."""

    line: int
    """0 where there is no line to name."""
    kind: str
    message: str

    @property
    def severity(self) -> Severity:
        """Of its kind."""
        return KINDS[self.kind]


@dataclass(slots=True)
class FileReport:
    """What was found in one file."""

    file: str
    database: str = ""
    records: int = 0
    limit: int = LISTED
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, kind: str, message: str, line: int = 0, count: int = 1) -> None:
        """Count it, and keep the first ones of a kind."""
        if self.counts[kind] < self.limit:
            self.findings.append(Finding(line, kind, message))
        self.counts[kind] += count

    def total(self, severity: Severity) -> int:
        """How many of a severity."""
        return sum(count for kind, count in self.counts.items() if KINDS[kind] == severity)
