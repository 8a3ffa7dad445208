"""Whether databases are in order: each file by itself, and those of one device together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.errors import CorruptFileError, SkipjackError, StorageError, UsageError
from skipjack.interop.miopen.file_bytes import file_bytes
from skipjack.interop.miopen.file_names import DbName, parse_db_name
from skipjack.interop.miopen.find_checks import check_find_records
from skipjack.interop.miopen.findings import LISTED, FileReport
from skipjack.interop.miopen.formats import JSON_LINES, Format, format_of, named_format
from skipjack.interop.miopen.json_lines import read_json_lines
from skipjack.interop.miopen.kernel_db import KERNEL_DB, code_of, packed_kernels
from skipjack.interop.miopen.opening import ends_within
from skipjack.interop.miopen.perf_checks import Numbered, check_perf_records, check_together
from skipjack.interop.miopen.perf_sqlite import perf_contents
from skipjack.interop.miopen.records import Record
from skipjack.interop.miopen.sqlite_file import reading
from skipjack.interop.miopen.text_db import Form, is_canonical, scan


@dataclass(slots=True)
class _Checked:
    """A file, what was found in it, and its records for comparing."""

    path: Path
    report: FileReport
    format: Format | None = None
    records: list[Numbered] = field(default_factory=list)


def check_paths(
    paths: Sequence[Path], *, limit: int = LISTED, device: str | None = None
) -> list[FileReport]:
    """Check files, and directories with what is in them; a report for each file."""
    checked = [_check(path, limit, device) for path in _files(paths)]
    for find in checked:
        for perf in checked:
            if _belong_together(find, perf):
                check_together((find.records, find.report), (perf.records, perf.report))
    return [each.report for each in checked]


def _files(paths: Sequence[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise StorageError(f"there is no file {path}")
            found[path] = None
            continue
        inside = [each for each in sorted(path.iterdir()) if each.is_file() and _is_meant(each)]
        if not inside:
            raise UsageError(f"there is no database in {path}; its files have other names")
        found.update(dict.fromkeys(inside))
    return list(found)


def _is_meant(path: Path) -> bool:
    """Whether a file in a directory is a database, as far as its name says."""
    if named_format(path.name.removesuffix(".bz2")) is not None:
        return True
    if not path.name.endswith(JSON_LINES):
        return False
    try:
        return bool(format_of(path))
    except SkipjackError:
        return False  # some other JSON lines


def _check(path: Path, limit: int, device: str | None) -> _Checked:
    checked = _Checked(path, FileReport(str(path), limit=limit))
    try:
        checked.format = format_of(path)
        checked.report.database = str(checked.format)
        if checked.format.kind == "kernel" and checked.format.storage == "sqlite":
            _check_kernels(path, checked.report)
        elif checked.format.kind != "kernel":
            checked.records = _records(path, checked.format, checked.report, device)
            _check_records(checked.records, checked.format, checked.report)
    except SkipjackError as error:
        checked.report.add("unreadable", str(error))
    return checked


def _records(path: Path, form: Format, report: FileReport, device: str | None) -> list[Numbered]:
    """The records with their lines; what is no record is reported."""
    if form.storage == "sqlite":
        _check_pages(path)
        contents = perf_contents(path, device)
        for count, kind, what in (
            (contents.rows_without_config, "orphan_row", "rows of parameters have no problem"),
            (contents.configs_without_rows, "orphan_config", "problems have no parameters"),
        ):
            if count:
                report.add(kind, f"{count} {what}", count=count)
        return [(0, record) for record in contents.records]
    if form.storage == "jsonl":
        found, _ = read_json_lines(path)
        return list(zip(found.lines, found.records, strict=True))
    scanned = scan(file_bytes(path), path)
    records: list[Numbered] = []
    for line in scanned.lines:
        if line.record is None:
            report.add("bad_line", line.complaint, line.number)
        else:
            records.append((line.number, line.record))
    _check_form(scanned.form, scanned.blank_lines, report)
    if form.kind == "find" and ends_within([record for _, record in records], scanned.form):
        report.add("bad_line", "the file is cut off in this line", records[-1][0])
    return records


def _check_form(form: Form, blank_lines: int, report: FileReport) -> None:
    if form.newline != "\n":
        report.add("odd_lines", "lines end in CR LF; MIOpen takes the CR for a part of the values")
    if form.bom:
        report.add(
            "odd_lines", "the file begins with a byte order mark, which MIOpen does not skip"
        )
    if not form.final_newline:
        report.add("odd_lines", "the last line has no end; the file may be cut off")
    if blank_lines:
        report.add("odd_lines", f"{blank_lines} blank lines")


def _check_records(records: list[Numbered], form: Format, report: FileReport) -> None:
    report.records = len(records)
    # Our own lines are sorted by problem, and several problems may have one key of MIOpen's.
    in_text = form.storage == "text"
    if in_text and not is_canonical([record for _, record in records]):
        line = _first_unsorted(records)
        report.add("unsorted", "keys are not sorted; skipjack convert-db sorts them", line)
    first: dict[str, int] = {}
    for line, record in records:
        before = first.setdefault(record.key, line)
        if before != line and form.storage != "jsonl":
            message = f"{record.key} stands in line {before} already, which is what counts"
            report.add("duplicate_key", message, line)
        _check_ids(record, line, report)
    if form.kind == "find":
        check_find_records(records, report)
    else:
        check_perf_records(records, report)


def _first_unsorted(records: list[Numbered]) -> int:
    before = ""
    for line, record in records:
        if record.key < before:
            return line
        before = record.key
    return 0


def _check_ids(record: Record, line: int, report: FileReport) -> None:
    names = [part.partition(":")[0] for part in record.contents.split(";") if part]
    if len(set(names)) < len(names):
        again = next(name for at, name in enumerate(names) if name in names[:at])
        report.add("duplicate_id", f"{record.key} has {again} twice; the first counts", line)


def _check_pages(path: Path) -> None:
    with reading(path, "database") as connection:
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise CorruptFileError(f"{path} is damaged: {said}")


def _check_kernels(path: Path, report: FileReport) -> None:
    for packed in packed_kernels(path):
        report.records += 1
        try:
            code_of(packed, path)
        except CorruptFileError as error:
            report.add("damaged_kernel", str(error))
    if not report.records:
        report.add("odd_lines", f"the {KERNEL_DB} holds no kernels")


def _belong_together(find: _Checked, perf: _Checked) -> bool:
    """Whether two files are the find-db and the perf-db of one device."""
    if find.format is None or perf.format is None:
        return False
    if (find.format.kind, perf.format.kind) != ("find", "perf"):
        return False
    names = [_device(each.path) for each in (find, perf)]
    return find.path.parent == perf.path.parent and None not in names and names[0] == names[1]


def _device(path: Path) -> tuple[str, int, str] | None:
    name: DbName | None = parse_db_name(path.name.removesuffix(".bz2"))
    return None if name is None or name.batchnorm else (name.arch, name.units, name.features)
