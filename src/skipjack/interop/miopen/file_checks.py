"""Whether one file is in order: its name, its lines and its records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.errors import CorruptFileError, SkipjackError
from skipjack.interop.miopen.file_bytes import file_bytes
from skipjack.interop.miopen.file_names import is_gpu, kind_of_name
from skipjack.interop.miopen.find_checks import check_find_records
from skipjack.interop.miopen.findings import FileReport
from skipjack.interop.miopen.formats import Format, format_of, named_format
from skipjack.interop.miopen.json_reading import read_json_lines
from skipjack.interop.miopen.kernel_checks import check_kernels
from skipjack.interop.miopen.key_styles import NEW_KINDS, OLD_KINDS
from skipjack.interop.miopen.keys import FindKey, is_perf_key, parse_find_key
from skipjack.interop.miopen.opening import ends_within, named_device
from skipjack.interop.miopen.perf_checks import Numbered, check_perf_records
from skipjack.interop.miopen.perf_sqlite import perf_contents, perf_devices
from skipjack.interop.miopen.plausible import SHORTEST_CALL_MS, SHORTEST_MS
from skipjack.interop.miopen.records import Record
from skipjack.interop.miopen.sqlite_file import reading
from skipjack.interop.miopen.text_db import Form, is_canonical, scan
from skipjack.reading import numbered


@dataclass(slots=True)
class CheckedFile:
    """A file, what was found in it, and its records for comparing."""

    path: Path
    report: FileReport
    format: Format | None = None
    records: list[Numbered] = field(default_factory=list)
    keys: list[FindKey | None] = field(default_factory=list)
    """The parts of a find-db's keys."""
    devices: tuple[str, ...] = ()
    """That the content says."""
    chosen: bool = False
    """Whether it is a file in which a device can be chosen."""


def check_file(path: Path, limit: int, device: str | None) -> CheckedFile:
    """Look at all of it; what cannot be read at all is a finding, too."""
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
        # Lines of JSON may be about problems that MIOpen has no records for.
        nothing = not report.records and form.storage != "jsonl"
        if nothing and report.counts.keys() <= {"odd_lines"}:
            report.add("empty", f"the {form.kind}-db holds nothing")
    except SkipjackError as error:
        report.add("unreadable", str(error))
    return checked


def _check_name(path: Path, form: Format, report: FileReport) -> None:
    """MIOpen opens files by their names and believes them."""
    name = path.name.removesuffix(".bz2")
    said = named_format(name)
    ours = next((kind for kind in ("find", "perf") if name.endswith(f".{kind}.jsonl")), form.kind)
    if said and said != form:
        report.add("wrong_name", f"it is a {form}, but its name is that of a {said}")
    elif ours != form.kind:
        report.add("wrong_name", f"it is a {form}, but its name is that of a {ours}-db")


def _records(checked: CheckedFile, form: Format, device: str | None) -> list[Numbered]:
    """The records with their lines; what is no record is reported."""
    path, report = checked.path, checked.report
    if form.storage == "sqlite":
        return _of_sqlite(checked, device)
    if form.storage == "jsonl":
        found = read_json_lines(path)
        checked.devices = tuple(found.devices)
        _check_again(((line.number, line.name) for line in found.said), report)
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


def _of_sqlite(checked: CheckedFile, device: str | None) -> list[Numbered]:
    _check_pages(checked.path)
    # What is checked are keys and solvers; a problem of several devices counts once.
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
        report.add("odd_lines", "lines end in CR LF; MIOpen takes the CR for a part of the values")
    if form.bom:
        report.add(
            "odd_lines", "the file begins with a byte order mark, which MIOpen does not skip"
        )
    if not form.final_newline:
        report.add("odd_lines", "the last line has no end; the file may be cut off")
    if blank_lines:
        report.add("odd_lines", numbered(blank_lines, "blank line"))


def _check_records(checked: CheckedFile, form: Format) -> None:
    records, report = checked.records, checked.report
    report.records = len(records)
    # Our own lines are sorted by problem, and several problems may have one key of MIOpen's.
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
    """By the device, which a GPU's bound is for, also where nothing says what it is."""
    names = [name for name in (named_device(checked.path), *checked.devices) if name]
    on_cpu = bool(names) and not any(map(is_gpu, names))
    return SHORTEST_CALL_MS if on_cpu else SHORTEST_MS


def _check_style(checked: CheckedFile) -> None:
    """MIOpen never finds a key of the old style in a new file, nor the other way round."""
    kind = kind_of_name(checked.path.name.removesuffix(".bz2"))
    for line, record in checked.records:
        if kind in NEW_KINDS and "-" in record.key and parse_find_key(record.key):
            message = "it has keys of old perf-dbs; skipjack convert-db translates them"
        elif kind in OLD_KINDS and is_perf_key(record.key):
            message = "it has keys of today's perf-dbs, but its name is that of an old one"
        else:
            continue
        checked.report.add("wrong_name", message, line)
        return


def _check_again(names: Iterable[tuple[int, str]], report: FileReport) -> None:
    """Keys, or in our own lines problems, that stand in several lines."""
    first: dict[str, int] = {}
    for line, name in names:
        before = first.setdefault(name, line)
        if before != line:
            message = f"{name} stands in line {before} already, which is what counts"
            report.add("duplicate_key", message, line)


def _first_unsorted(records: list[Numbered]) -> int:
    before = ""
    for line, record in records:
        if record.key < before:
            return line
        before = record.key
    return 0


def _check_ids(record: Record, line: int, report: FileReport) -> None:
    names = record.ids
    if len(set(names)) < len(names):
        again = next(name for at, name in enumerate(names) if name in names[:at])
        report.add("duplicate_id", f"{record.key} has {again} twice; the first counts", line)


def _check_pages(path: Path) -> None:
    with reading(path, "database") as connection:
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise CorruptFileError(f"{path} is damaged: {said}")
