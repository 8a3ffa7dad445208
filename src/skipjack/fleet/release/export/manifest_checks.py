"""Whether the manifests of exports tell of the files that are beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from skipjack.errors import SkipjackError
from skipjack.fleet.release.export.manifest import FILE_NAME, read_manifest
from skipjack.interop.miopen.findings import LISTED, FileReport


def manifest_reports(paths: Iterable[Path], *, limit: int = LISTED) -> list[FileReport]:
    """A report for each directory whose manifest tells of other files than those that are there."""
    reports = [_report(path, limit) for path in dict.fromkeys(paths) if path.is_dir()]
    return [report for report in reports if report.counts]


def _report(directory: Path, limit: int) -> FileReport:
    report = FileReport(str(directory / FILE_NAME), "manifest of an export", limit=limit)
    try:
        manifest = read_manifest(directory)
        report.records = len(manifest.files)
        changed = manifest.changed_in(directory)
    except SkipjackError as error:
        report.add("odd_lines", str(error))
        return report
    for name in changed:
        report.add(
            "not_as_noted",
            f"{name} is another file than the one that is noted: an export was interrupted, or "
            "somebody changed it; export it again",
        )
    return report
