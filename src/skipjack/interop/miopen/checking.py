"""Whether databases are in order: each file by itself, and those of one device together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from skipjack.errors import SkipjackError, StorageError, UsageError
from skipjack.interop.miopen.file_checks import CheckedFile, check_file
from skipjack.interop.miopen.file_names import parse_db_name
from skipjack.interop.miopen.findings import LISTED, FileReport
from skipjack.interop.miopen.formats import JSON_LINES, format_of, named_format
from skipjack.interop.miopen.perf_checks import check_together

_OURS = (".find.jsonl", ".perf.jsonl")
"""How names of our exports end: a damaged one is still meant."""


def check_paths(
    paths: Sequence[Path], *, limit: int = LISTED, device: str | None = None
) -> list[FileReport]:
    """Check files, and directories with what is in them; a report for each file."""
    files, _ = files_to_check(paths)
    checked = [check_file(path, limit, device) for path in files]
    if device and not any(each.chosen for each in checked):
        raise UsageError(
            "--device chooses in an old perf-db that holds several devices, and none of these does"
        )
    for find in checked:
        for perf in checked:
            if _belong_together(find, perf):
                sides = (find.records, find.keys, find.report), (perf.records, perf.report)
                check_together(*sides)
    return [each.report for each in checked]


def files_to_check(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The databases among files and anywhere in directories, and what else is in those."""
    found: dict[Path, None] = {}
    skipped: list[Path] = []
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise StorageError(f"there is no file {path}")
            found[path] = None
            continue
        inside = [(each, _is_meant(each)) for each in _files_in(path)]
        meant = [each for each, is_meant in inside if is_meant]
        if not meant:
            raise UsageError(f"there is no database in {path}; its files have other names")
        found.update(dict.fromkeys(meant))
        skipped += [each for each, is_meant in inside if not is_meant]
    return list(found), skipped


def _files_in(directory: Path) -> Iterator[Path]:
    """Its own first, then those of the folders in it; what is hidden is somebody else's."""
    inside = sorted(each for each in directory.iterdir() if not each.name.startswith("."))
    yield from (each for each in inside if each.is_file())
    for each in inside:
        if each.is_dir() and not each.is_symlink():
            yield from _files_in(each)


def _is_meant(path: Path) -> bool:
    """Whether a file in a directory is a database, as far as its name says."""
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
