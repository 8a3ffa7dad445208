"""Checks of database files: each file alone, and the find-db and perf-db of a device together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.errors import CorruptFileError, SkipjackError, StorageError, UsageError
from skipjack.interop.miopen.database import NEW_KINDS, OLD_KINDS, is_cut_off, named_device
from skipjack.interop.miopen.file_access import file_bytes, open_for_reading
from skipjack.interop.miopen.file_formats import (
    JSON_LINES,
    DatabaseFormat,
    format_of,
    is_gpu,
    kind_of_name,
    named_format,
    parse_db_name,
)
from skipjack.interop.miopen.find_values import SHORTEST_CALL_MS, SHORTEST_MS
from skipjack.interop.miopen.json_lines import read_json_lines
from skipjack.interop.miopen.keys import FindKey, is_perf_key, parse_find_key
from skipjack.interop.miopen.perf_sqlite import perf_contents, perf_devices
from skipjack.interop.miopen.record_checks import (
    MOST_LISTED,
    FileReport,
    Numbered,
    check_find_records,
    check_kernels,
    check_perf_records,
    check_together,
)
from skipjack.interop.miopen.text_db import DatabaseRecord, Form, is_canonical, scan
from skipjack.reading import numbered

# Checks of one file: its name, its lines and its records.


@dataclass(slots=True)
class CheckedFile:
    """A file, the report about it, and its records for comparisons."""

    path: Path
    report: FileReport
    format: DatabaseFormat | None = None
    records: list[Numbered] = field(default_factory=list)
    keys: list[FindKey | None] = field(default_factory=list)
    """The parsed keys of a find-db."""
    devices: tuple[str, ...] = ()
    """Devices in the content."""
    chosen: bool = False
    """Whether a device can be selected in the file."""


def check_file(path: Path, limit: int, device: str | None) -> CheckedFile:
    """Check a file completely; a file that cannot be read is a finding as well."""
    checked = CheckedFile(path, FileReport(str(path), limit=limit))
    report = checked.report
    try:
        form = checked.format = format_of(path)
        report.database = str(form)
        _check_name(path, form, report)
        if form.kind != "kernel":
            checked.records = _records(checked, form, device)
            _check_records(checked, form)
        elif form.storage == "sqlite":
            check_kernels(path, report)
        # JSON lines may have problems without records of MIOpen.
        nothing = not report.records and form.storage != "jsonl"
        if nothing and report.counts.keys() <= {"odd_lines"}:
            report.add("empty", f"the {form.kind}-db is empty")
    except SkipjackError as error:
        report.add("unreadable", str(error))
    return checked


def _check_name(path: Path, form: DatabaseFormat, report: FileReport) -> None:
    """MIOpen selects files by their names, so name and content must agree."""
    name = path.name.removesuffix(".bz2")
    stated = named_format(name)
    ours = next((kind for kind in ("find", "perf") if name.endswith(f".{kind}.jsonl")), form.kind)
    if stated and stated != form:
        report.add("wrong_name", f"it is a {form}, but its name is that of a {stated}")
    elif ours != form.kind:
        report.add("wrong_name", f"it is a {form}, but its name is that of a {ours}-db")


def _records(checked: CheckedFile, form: DatabaseFormat, device: str | None) -> list[Numbered]:
    """The records with their lines; other lines are reported."""
    path, report = checked.path, checked.report
    if form.storage == "sqlite":
        return _of_sqlite(checked, device)
    if form.storage == "jsonl":
        found = read_json_lines(path)
        checked.devices = tuple(found.devices)
        _check_again(((line.number, line.name) for line in found.source_lines), report)
        return list(zip(found.lines, found.records, strict=True))
    scanned = scan(file_bytes(path), path)
    records: list[Numbered] = []
    for line in scanned.lines:
        if line.record is None:
            report.add("bad_line", line.complaint, line.number)
        else:
            records.append((line.number, line.record))
    _check_form(scanned.form, scanned.blank_lines, report)
    if form.kind == "find" and is_cut_off([record for _, record in records], scanned.form):
        report.add("bad_line", "the file is truncated in this line", records[-1][0])
    return records


def _of_sqlite(checked: CheckedFile, device: str | None) -> list[Numbered]:
    _check_pages(checked.path)
    # Only keys and solvers are checked, so a problem of several devices counts once.
    devices = perf_devices(checked.path) if device is None else ()
    contents, *others = (perf_contents(checked.path, each) for each in devices or (device,))
    checked.chosen = bool(contents.devices)
    for count, kind, what in (
        (contents.rows_without_config, "orphan_row", ("row", "of parameters without a problem")),
        (len(contents.bare), "orphan_config", ("problem", "without parameters")),
    ):
        if count:
            checked.report.add(kind, f"{numbered(count, what[0])} {what[1]}", count=count)
    known = {record.key for record in contents.records}
    more = {
        record.key: record for each in others for record in each.records if record.key not in known
    }
    return [(0, record) for record in (*contents.records, *more.values())]


def _check_form(form: Form, blank_lines: int, report: FileReport) -> None:
    if form.newline != "\n":
        report.add("odd_lines", "lines end in CR LF; MIOpen treats the CR as a part of the values")
    if form.bom:
        report.add(
            "odd_lines", "the file begins with a byte order mark, which MIOpen does not skip"
        )
    if not form.final_newline:
        report.add("odd_lines", "the last line has no line end; the file may be truncated")
    if blank_lines:
        report.add("odd_lines", numbered(blank_lines, "blank line"))


def _check_records(checked: CheckedFile, form: DatabaseFormat) -> None:
    records, report = checked.records, checked.report
    report.records = len(records)
    # Skipjack's JSON lines are sorted by problem, and problems may share a key of MIOpen.
    in_text = form.storage == "text"
    if in_text and not is_canonical([record for _, record in records]):
        line = _first_unsorted(records)
        report.add("unsorted", "keys are not sorted; skipjack convert-db sorts them", line)
    if form.storage != "jsonl":
        _check_again(((line, record.key) for line, record in records), report)
    for line, record in records:
        _check_ids(record, line, report)
    if form.kind == "find":
        checked.keys = check_find_records(records, report, _shortest_ms(checked))
    else:
        _check_style(checked)
        check_perf_records(records, report)


def _shortest_ms(checked: CheckedFile) -> float:
    """The shortest plausible time: that of a CPU if all devices are CPUs, else of a GPU."""
    names = [name for name in (named_device(checked.path), *checked.devices) if name]
    on_cpu = bool(names) and not any(map(is_gpu, names))
    return SHORTEST_CALL_MS if on_cpu else SHORTEST_MS


def _check_style(checked: CheckedFile) -> None:
    """Report keys of the wrong style, which MIOpen would never find in this file."""
    kind = kind_of_name(checked.path.name.removesuffix(".bz2"))
    for line, record in checked.records:
        if kind in NEW_KINDS and "-" in record.key and parse_find_key(record.key):
            message = "it has keys of old perf-dbs; skipjack convert-db translates them"
        elif kind in OLD_KINDS and is_perf_key(record.key):
            message = "it has keys of current perf-dbs, but its name is that of an old one"
        else:
            continue
        checked.report.add("wrong_name", message, line)
        return


def _check_again(names: Iterable[tuple[int, str]], report: FileReport) -> None:
    """Report keys, or in JSON lines problems, that occur more than once."""
    first: dict[str, int] = {}
    for line, name in names:
        before = first.setdefault(name, line)
        if before != line:
            message = f"{name} is in line {before} already, which takes precedence"
            report.add("duplicate_key", message, line)


def _first_unsorted(records: list[Numbered]) -> int:
    before = ""
    for line, record in records:
        if record.key < before:
            return line
        before = record.key
    return 0


def _check_ids(record: DatabaseRecord, line: int, report: FileReport) -> None:
    names = record.ids
    if len(set(names)) < len(names):
        again = next(name for at, name in enumerate(names) if name in names[:at])
        report.add(
            "duplicate_id", f"{record.key} has {again} twice; the first takes precedence", line
        )


def _check_pages(path: Path) -> None:
    with open_for_reading(path, "database") as connection:
        (stated,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if stated != "ok":
        raise CorruptFileError(f"{path} is damaged: {stated}")


# The files to check, and their reports.

_OURS = (".find.jsonl", ".perf.jsonl")
"""Endings of Skipjack's exports, which are checked even if they are damaged."""


def check_paths(
    paths: Sequence[Path], *, limit: int = MOST_LISTED, device: str | None = None
) -> list[FileReport]:
    """Check files, and the files in directories; returns a report for each file."""
    files, _ = files_to_check(paths)
    checked = [check_file(path, limit, device) for path in files]
    if device and not any(each.chosen for each in checked):
        raise UsageError(
            "--device selects a device of an old perf-db with several devices; no file is one"
        )
    for find in checked:
        for perf in checked:
            if _belong_together(find, perf):
                sides = (find.records, find.keys, find.report), (perf.records, perf.report)
                check_together(*sides)
    return [each.report for each in checked]


def files_to_check(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The databases in files and directories, and the other files in the directories."""
    found: dict[Path, None] = {}
    skipped: list[Path] = []
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise StorageError(f"the file {path} does not exist")
            found[path] = None
            continue
        inside = [(each, _is_meant(each)) for each in _files_in(path)]
        databases = [each for each, is_database in inside if is_database]
        if not databases:
            raise UsageError(f"{path} contains no file with the name of a database")
        found.update(dict.fromkeys(databases))
        skipped += [each for each, is_database in inside if not is_database]
    return list(found), skipped


def _files_in(directory: Path) -> Iterator[Path]:
    """Files of the directory, then those of its folders; hidden ones are skipped."""
    inside = sorted(each for each in directory.iterdir() if not each.name.startswith("."))
    yield from (each for each in inside if each.is_file())
    for each in inside:
        if each.is_dir() and not each.is_symlink():
            yield from _files_in(each)


def _is_meant(path: Path) -> bool:
    """Whether a file in a directory is a database, by its name or as JSON lines."""
    if named_format(path.name.removesuffix(".bz2")) is not None or path.name.endswith(_OURS):
        return True
    if not path.name.endswith(JSON_LINES):
        return False
    try:
        return bool(format_of(path))
    except SkipjackError:
        return False  # some other JSON lines


def _belong_together(find: CheckedFile, perf: CheckedFile) -> bool:
    """Whether two files are the find-db and the perf-db of one device."""
    if find.format is None or perf.format is None:
        return False
    if (find.format.kind, perf.format.kind) != ("find", "perf"):
        return False
    if find.path.parent != perf.path.parent or len(find.keys) != len(find.records):
        return False
    names = [_device(each.path) for each in (find, perf)]
    return None not in names and names[0] == names[1]


def _device(path: Path) -> tuple[str, int, str] | None:
    name = parse_db_name(path.name.removesuffix(".bz2"))
    return None if name is None or name.batchnorm else (name.arch, name.units, name.features)
