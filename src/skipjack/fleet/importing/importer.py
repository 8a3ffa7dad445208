"""Import a file into the store: read lines, gather problems, hand them over in chunks.

Each chunk is one transaction. An import that is interrupted or killed leaves whole chunks, and
running it again adds what is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from json import dumps
from pathlib import Path
from typing import BinaryIO, TextIO

from skipjack.errors import UsageError
from skipjack.fleet.importing.lines import line_blocks
from skipjack.fleet.importing.options import ImportOptions
from skipjack.fleet.importing.reading import Kind, Reader, Reading
from skipjack.fleet.importing.report import (
    SHOWN,
    BadLine,
    ImportProgress,
    ImportReport,
    count_reason,
    excerpt,
)
from skipjack.fleet.store import Added, NewProblem
from skipjack.fleet.store import Problems as StoredProblems

CHUNK = 20_000
"""Problems in one transaction: others who import wait for a fraction of a second."""

Observer = Callable[[ImportProgress], None]


def import_file(
    problems: StoredProblems,
    path: Path | str,
    options: ImportOptions,
    *,
    progress: Observer | None = None,
) -> ImportReport:
    """Import all that a file holds; ``-`` is standard input.

    Lines never stop an import. `UsageError` if the file or the report cannot be opened; what the
    store raises passes through, with the chunks before it committed.
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
    """As `import_file`, from an open file; `size` is for the progress alone."""
    with ExitStack() as opened:
        report: TextIO | None = None
        if options.report is not None:
            try:
                report = opened.enter_context(options.report.open("w", encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"cannot write {options.report}: {error.strerror}") from None
        importing = _Import(problems, options, report)
        reader = Reader(options)
        for lines, bytes_read in line_blocks(file):
            importing.take(lines, reader)
            if progress is not None:
                progress(importing.progress(bytes_read, size))
        importing.flush()
        if progress is not None:
            progress(importing.progress(size or 0, size))
        return importing.report()


class _Import:
    """An import under way: its numbers, and the problems that are not handed over yet."""

    def __init__(
        self, problems: StoredProblems, options: ImportOptions, report: TextIO | None
    ) -> None:
        self._stored = problems
        self._options = options
        self._report_file = report
        self._waiting: list[NewProblem] = []
        self._unknown_seen: set[str] = set()
        self._lines = 0
        self._counts = {kind: 0 for kind in Kind if kind is not Kind.UNDERSTOOD}
        self._problems = self._distinct = 0
        self._without_direction = self._without_batch = self._lone_layout = 0
        self._added = Added()
        self._bad: list[BadLine] = []
        self._reasons: dict[str, int] = {}

    def take(self, lines: list[str], reader: Reader) -> None:
        """Count and gather what lines stand for."""
        read, counts = reader.read, self._counts
        for line in lines:
            reading = read(line)
            kind = reading.kind
            self._lines += 1
            if kind is Kind.UNDERSTOOD:
                self._waiting += reading.problems
                self._without_direction += reading.without_direction
                self._without_batch += reading.without_batch
                self._lone_layout += reading.lone_layout
                if len(self._waiting) >= CHUNK:
                    self.flush()
                continue
            counts[kind] += 1
            if kind is not Kind.BLANK:
                self._leave_out(line, reading)

    def _leave_out(self, line: str, reading: Reading) -> None:
        rejected = reading.kind is Kind.REJECTED
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
        """Hand over what was gathered."""
        self._problems += len(self._waiting)
        distinct = {problem.key: problem for problem in self._waiting}
        self._waiting = []
        if self._options.tag_only:
            # The store does not keep the unknown ones, so it cannot tell whether one comes again.
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
        """How far it has come."""
        return ImportProgress(self._lines, self._added.imported, bytes_read, size)

    def report(self) -> ImportReport:
        """The numbers, once all is handed over."""
        added, counts = self._added, self._counts
        # What is new has the tag too.
        tagged = max(added.tagged - added.imported, 0)
        unknown = self._distinct - added.imported - added.known
        return ImportReport(
            lines=self._lines,
            understood=self._lines - sum(counts.values()),
            blank=counts[Kind.BLANK],
            not_applicable=counts[Kind.NOT_APPLICABLE],
            rejected=counts[Kind.REJECTED],
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
