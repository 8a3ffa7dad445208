"""Import of a file into the store, in chunks, with a report of all lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from skipjack.errors import UsageError
from skipjack.fleet.problem_import.line_reader import (
    ImportOptions,
    LineKind,
    LineReader,
    LineResult,
    line_blocks,
)
from skipjack.fleet.store import AddedProblems, NewProblem
from skipjack.fleet.store import Problems as StoredProblems
from skipjack.interop import LONE_LAYOUT
from skipjack.reading import numbered

# The report of an import, with counts that add up.
#
# ::
#
#     lines    = understood + blank + not_applicable + rejected
#     problems = imported + tagged + duplicates + unknown
#
# The first line counts lines, the second the problems of understood lines. A line may mean several
# problems, in several directions and batch sizes.

SHOWN = 20
"""Number of rejected lines in a report; all are counted."""
_REASONS = 20
_EXCERPT = 120


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was left out."""

    number: int
    """The line number, starting at 1."""
    text: str
    """The beginning of the line."""
    reason: str

    def fields(self) -> dict[str, object]:
        """The fields in a report file and in ``--json``."""
        return {"line": self.number, "text": self.text, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The counts of a finished import."""

    lines: int = 0
    understood: int = 0
    """Lines with problems."""
    blank: int = 0
    """Empty lines and comments."""
    not_applicable: int = 0
    """Valid lines with problems that no operation supports."""
    rejected: int = 0
    """Invalid lines, and lines without a problem."""
    problems: int = 0
    """Problems of the understood lines, including repetitions."""
    imported: int = 0
    """New problems."""
    tagged: int = 0
    """Known problems that got the tag in this import."""
    duplicates: int = 0
    """Problems that already had the tag, or occurred earlier in the file."""
    unknown: int = 0
    """Unknown problems, which an import with `tag_only` does not add."""
    without_direction: int = 0
    """Understood lines without a direction."""
    without_batch: int = 0
    """Understood lines without a batch size, although batch sizes were given."""
    lone_layout: int = 0
    """Understood commands with a layout only for the output, which applies to all arrays."""
    bad: tuple[BadLine, ...] = ()
    """The first rejected lines."""
    not_applicable_reasons: Mapping[str, int] = field(default_factory=dict)
    """The first reasons, with the number of lines of each."""


def lone_layouts(count: int) -> str:
    """One sentence about all commands with a layout only for the output."""
    return f"{numbered(count, 'command')}: {LONE_LAYOUT}"


class ImportProgress(NamedTuple):
    """The progress of an import; imported problems are committed."""

    lines: int
    imported: int
    bytes_read: int
    bytes_in_all: int | None
    """None if unknown, as for a pipe."""


def excerpt(line: str) -> str:
    """The beginning of a line, in printable characters."""
    text = line.strip()
    cut = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
    return "".join(each if each.isprintable() else "\ufffd" for each in cut)


def count_reason(reasons: dict[str, int], reason: str) -> None:
    """Count a reason; only the first distinct ones are kept, as some quote their line."""
    if reason in reasons or len(reasons) < _REASONS:
        reasons[reason] = reasons.get(reason, 0) + 1


# Import of a file into the store: lines are read, and problems stored in chunks.
#
# Each chunk is one transaction. An interrupted import leaves complete chunks, and running it again
# adds the rest.

CHUNK = 20_000
"""Problems per transaction, which delays other imports by a fraction of a second."""

Observer = Callable[[ImportProgress], None]


def import_file(
    problems: StoredProblems,
    path: Path | str,
    options: ImportOptions,
    *,
    progress: Observer | None = None,
) -> ImportReport:
    """Import a file; ``-`` is standard input.

    Invalid lines do not stop an import. `UsageError` if the file or the report cannot be opened;
    errors of the store are passed on, with earlier chunks committed.
    """
    with ExitStack() as opened:
        size: int | None = None
        if str(path) == "-":
            file: BinaryIO = sys.stdin.buffer
        else:
            try:
                file = opened.enter_context(Path(path).open("rb"))
                status = Path(path).stat()
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}") from None
            size = status.st_size or None
        return import_lines(problems, file, options, progress=progress, size=size)


def import_lines(
    problems: StoredProblems,
    file: BinaryIO,
    options: ImportOptions,
    *,
    progress: Observer | None = None,
    size: int | None = None,
) -> ImportReport:
    """Import an open file, like `import_file`; `size` is used only for the progress."""
    with ExitStack() as opened:
        report: TextIO | None = None
        if options.report is not None:
            try:
                report = opened.enter_context(options.report.open("w", encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"cannot write {options.report}: {error.strerror}") from None
        importing = _Import(problems, options, report)
        reader = LineReader(options)
        for lines, bytes_read in line_blocks(file):
            importing.take(lines, reader)
            if progress is not None:
                progress(importing.progress(bytes_read, size))
        importing.flush()
        if progress is not None:
            progress(importing.progress(size or 0, size))
        return importing.report()


class _Import:
    """A running import: its counts, and the problems that are not stored yet."""

    def __init__(
        self, problems: StoredProblems, options: ImportOptions, report: TextIO | None
    ) -> None:
        self._stored = problems
        self._options = options
        self._report_file = report
        self._waiting: list[NewProblem] = []
        self._unknown_seen: set[str] = set()
        self._lines = 0
        self._counts = {kind: 0 for kind in LineKind if kind is not LineKind.UNDERSTOOD}
        self._problems = self._distinct = 0
        self._without_direction = self._without_batch = self._lone_layout = 0
        self._added = AddedProblems()
        self._bad: list[BadLine] = []
        self._reasons: dict[str, int] = {}

    def take(self, lines: list[str], reader: LineReader) -> None:
        """Count lines and collect their problems."""
        read, counts = reader.read, self._counts
        for line in lines:
            reading = read(line)
            kind = reading.kind
            self._lines += 1
            if kind is LineKind.UNDERSTOOD:
                self._waiting += reading.problems
                self._without_direction += reading.without_direction
                self._without_batch += reading.without_batch
                self._lone_layout += reading.lone_layout
                if len(self._waiting) >= CHUNK:
                    self.flush()
                continue
            counts[kind] += 1
            if kind is not LineKind.BLANK:
                self._leave_out(line, reading)

    def _leave_out(self, line: str, reading: LineResult) -> None:
        rejected = reading.kind is LineKind.REJECTED
        if not rejected:
            count_reason(self._reasons, reading.reason)
        shown = rejected and len(self._bad) < SHOWN
        if not shown and self._report_file is None:
            return
        bad = BadLine(self._lines, excerpt(line), reading.reason)
        if shown:
            self._bad.append(bad)
        if self._report_file is not None:
            print(dumps({**bad.fields(), "status": reading.kind.value}), file=self._report_file)

    def flush(self) -> None:
        """Store the collected problems."""
        self._problems += len(self._waiting)
        distinct = {problem.key: problem for problem in self._waiting}
        self._waiting = []
        if self._options.tag_only:
            # The store does not keep unknown problems, so repeated ones are detected here.
            distinct = {key: new for key, new in distinct.items() if key not in self._unknown_seen}
            self._unknown_seen.update(distinct)
        self._distinct += len(distinct)
        if not distinct:
            return
        options = self._options
        self._added += self._stored.add(
            distinct.values(),
            options.tag,
            recurrent=options.recurrent,
            source=options.source,
            model=options.model,
            tag_only=options.tag_only,
            in_order=options.in_order,
        )

    def progress(self, bytes_read: int, size: int | None) -> ImportProgress:
        """The progress of the import."""
        return ImportProgress(self._lines, self._added.imported, bytes_read, size)

    def report(self) -> ImportReport:
        """The counts, after all problems are stored."""
        added, counts = self._added, self._counts
        # New problems have the tag as well.
        tagged = max(added.tagged - added.imported, 0)
        unknown = self._distinct - added.imported - added.known
        return ImportReport(
            lines=self._lines,
            understood=self._lines - sum(counts.values()),
            blank=counts[LineKind.BLANK],
            not_applicable=counts[LineKind.NOT_APPLICABLE],
            rejected=counts[LineKind.REJECTED],
            problems=self._problems,
            imported=added.imported,
            tagged=tagged,
            duplicates=self._problems - added.imported - tagged - unknown,
            unknown=unknown,
            without_direction=self._without_direction,
            without_batch=self._without_batch,
            lone_layout=self._lone_layout,
            bad=tuple(self._bad),
            not_applicable_reasons=self._reasons,
        )
