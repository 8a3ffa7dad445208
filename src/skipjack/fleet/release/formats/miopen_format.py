"""MIOpen's files: find-dbs and perf-dbs of convolutions, and kernel-dbs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from skipjack.bank import KernelRecord
from skipjack.core import parse_device_name
from skipjack.errors import CorruptFileError, UsageError
from skipjack.fleet.release.formats.export_format import (
    FIND_DB,
    KERNEL_DB,
    MIOPEN,
    PERF_DB,
    Contents,
    ExportFormat,
    FindOptions,
    KeyedFile,
    PerfOptions,
    ReleaseFile,
    base_name,
)
from skipjack.fleet.release.formats.miopen_records import (
    GatheredRecords,
    gather,
    one_perf_file,
    perf_file,
)
from skipjack.fleet.release.results import (
    Fetch,
    FoundProblem,
    Shipment,
    TunedProblem,
    outdated_remarks,
    params_of,
)
from skipjack.interop.miopen import (
    SUFFIXES,
    DatabaseRecord,
    DbName,
    FindText,
    KernelRow,
    PackedKernel,
    current_of,
    db_name,
    find_text,
    packed_kernels,
    perf_contents,
    write_kernel_db,
    write_perf_sqlite,
    write_text_db,
)
from skipjack.interop.miopen import read_text as read_text_file
from skipjack.interop.miopen import write_packed as write_kernel_rows

# MIOpen's databases as keyed records: text, perf-dbs in SQLite, and kernel-dbs.


def read_text(path: Path) -> Iterator[tuple[str, DatabaseRecord]]:
    """All records by key; `CorruptFileError` names an invalid line."""
    if path.name.endswith((".fdb.txt", ".ufdb.txt")):
        return _checked_find_records(path)
    return ((record.key, record) for record in read_text_file(path).records)


def _checked_find_records(path: Path) -> Iterator[tuple[str, DatabaseRecord]]:
    """Records of a find-db; `CorruptFileError` for values that are not find results."""
    found = read_text_file(path)
    for record, line in zip(found.records, found.lines, strict=True):
        for item in record.items:
            if find_text(item) is None:
                raise CorruptFileError(
                    f"{path}:{line}: {item.text[:80]!r} is not a find result; "
                    "repair or remove the line"
                )
        yield record.key, record


def write_text(path: Path, records: Iterable[DatabaseRecord], like: Path | None) -> None:
    """Write records in canonical order, with the line ends of the old file."""
    form = read_text_file(like).form if like else None
    write_text_db(path, list(records), form=form)


def read_sqlite(path: Path) -> Iterator[tuple[str, DatabaseRecord]]:
    """The records of a perf-db by key."""
    found = perf_contents(path)
    if found.other_devices:
        raise UsageError(f"{path} has several devices; split it before merging into it")
    return ((record.key, record) for record in found.records)


def write_sqlite(path: Path, records: Iterable[DatabaseRecord], like: Path | None) -> None:
    """Write the tables of MIOpen, sorted by key."""
    write_perf_sqlite(path, sorted(records, key=lambda record: record.key))


def same_record(old: DatabaseRecord, new: DatabaseRecord) -> bool:
    """Whether records are equivalent; MIOpen ignores the order of items."""
    return old.contents == new.contents or set(old.items) == set(new.items)


def joined_perf(old: DatabaseRecord, new: DatabaseRecord) -> DatabaseRecord:
    """The new record, with parameters of other solvers from the old one."""
    named = {item.id for item in new.items}
    kept = [item for item in old.items if item.id not in named]
    return DatabaseRecord(new.key, sorted([*new.items, *kept], key=lambda item: item.id))


def joined_find(old: DatabaseRecord, new: DatabaseRecord) -> DatabaseRecord:
    """The new record, with results of other solvers from the old one; current format, by time."""
    texts = _texts(new)
    named = {text.solver for text in texts}
    texts += [text for text in _texts(old) if text.solver not in named]
    if len(texts) == len(named):
        return new
    ordered = sorted(texts, key=lambda text: (float(text.time), text.solver))
    return DatabaseRecord(new.key, [current_of(text) for text in ordered])


def _texts(record: DatabaseRecord) -> list[FindText]:
    texts = [find_text(item) for item in record.items]
    return [text for text in texts if text is not None]


def read_kernels(path: Path) -> Iterator[tuple[tuple[str, str], PackedKernel]]:
    """Kernels by name and arguments, still packed."""
    return (((row.name, row.args), row) for row in packed_kernels(path))


def write_kernels(path: Path, rows: Iterable[PackedKernel], like: Path | None) -> None:
    """Write old kernels in their order, then new ones."""
    write_kernel_rows(path, rows)


def same_kernel(old: PackedKernel, new: PackedKernel) -> bool:
    """Whether the code is the same."""
    return old.md5.lower() == new.md5.lower()


# MIOpen's files: find-dbs and perf-dbs of convolutions, and kernel-dbs.
#
# MIOpen looks up a kernel by the name of its source and its compiler options. Skipjack's kernels
# are named after their solver and a digest of the problem's key; the options are the config as text
# of `params_of`.

_DIGITS = 16


class MiopenFormat(ExportFormat):
    """``x.HIP.fdb.txt``, ``x.db.txt`` or ``x.db``, and ``x.kdb``."""

    name = MIOPEN
    kernel_ending = ".kdb"
    keyed = (
        KeyedFile(
            (".fdb.txt", ".ufdb.txt"),
            read_text,
            write_text,
            same_record,
            joined_find,
            by_line=True,
        ),
        KeyedFile(
            (".db.txt", ".udb.txt"),
            read_text,
            write_text,
            same_record,
            joined_perf,
            by_line=True,
        ),
        KeyedFile(
            (".db", ".udb"),
            read_sqlite,
            write_sqlite,
            same_record,
            joined_perf,
        ),
        KeyedFile((".kdb", ".ukdb"), read_kernels, write_kernels, same_kernel),
    )

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings, including those of earlier versions of MIOpen."""
        return tuple(SUFFIXES)

    def find_endings(self, backend: str = "HIP") -> tuple[str, ...]:
        """The endings: files of the backend first, user files last."""
        own = (f".{backend}.fdb.txt", ".HIP.fdb.txt", ".fdb.txt", ".ufdb.txt")
        return tuple(dict.fromkeys(own))

    def find_stem(self, name: str) -> str:
        """The name without the backend and the build, which user files have."""
        return super().find_stem(name).split(".HIP")[0].split(".OpenCL")[0]

    def find(self, found: Iterable[FoundProblem], options: FindOptions) -> Contents:
        """A record for each key, as in MIOpen's own files."""
        gathered = GatheredRecords(options.top)
        gathered.take(found)
        files = tuple(
            ReleaseFile(
                name,
                partial(_find_name, backend=options.backend),
                partial(_write_records, records=records),
                {"problems": len(records), "entries": sum(len(one.items) for one in records)},
                tuple(sorted(gathered.toolchains[name])),
            )
            for name, records in gathered.devices()
        )
        counts, remarks = gathered.counts(), tuple(gathered.remarks())
        return Contents(FIND_DB, self.name, files, counts, remarks)

    def check_perf(self, options: PerfOptions) -> None:
        """Accept all options: text, SQLite and one file."""

    def perf(self, tuned: Iterable[TunedProblem], options: PerfOptions) -> Contents:
        """A record for each key, with the parameters of its solvers."""
        gathered = gather(tuned)
        if options.one_file:
            return one_perf_file(gathered, options.one_file, options.aliases)
        files = tuple(
            perf_file(name, device, sqlite=options.sqlite)
            for name, device in gathered.devices.items()
        )
        return Contents(PERF_DB, self.name, files, gathered.counts, gathered.remarks)

    def kernel(self, shipments: Mapping[str, Shipment], fetch: Fetch) -> Contents:
        """A ``.kdb`` for each device, including kernels that MIOpen compiled."""
        files = tuple(_kdb_file(name, one, fetch) for name, one in sorted(shipments.items()))
        remarks = tuple(outdated_remarks(shipments))
        return Contents(KERNEL_DB, self.name, files, {"not_in_this_format": 0}, remarks)

    def one_kernel_file(self, path: Path, shipments: Mapping[str, Shipment], fetch: Fetch) -> int:
        """Write a ``.kdb``; `UsageError` for several devices."""
        if len(shipments) > 1:
            names = " or ".join(f"{base_name(device)}.kdb" for device in sorted(shipments))
            raise UsageError(
                f"a .kdb is for one device, but there are {len(shipments)}; choose one with "
                f"--device, or give a directory for {names}"
            )
        return sum(write_kernel_db(path, kernel_rows(one, fetch)) for one in shipments.values())

    def other_names(self, name: str) -> tuple[str, ...]:
        """A perf-db may exist as text or SQLite, and its format is kept."""
        return (name.removesuffix(".txt"),) if name.endswith(".db.txt") else ()

    def remarks_beside(self, directory: Path, name: str) -> list[str]:
        """A remark if a find-db is new and one of another backend exists."""
        ending = ".fdb.txt"
        if not name.endswith(ending):
            return []
        others = sorted(each.name for each in directory.glob(f"{name.partition('.')[0]}.*{ending}"))
        return [
            f"{name} is new; {other} of another backend is unchanged (see --backend)"
            for other in others
        ]


def kernel_rows(shipment: Shipment, fetch: Fetch) -> Iterator[KernelRow]:
    """The rows of a kernel-db, sorted by name."""
    rows: list[tuple[str, str, str, str]] = [
        (kernel_name(one.solver, one.problem), kernel_args(one), one.artifact, one.problem)
        for one in shipment.kernels
    ]
    rows += [(one.name, one.args, one.digest, one.name) for one in shipment.harvested.values()]
    for name, args, digest, what in sorted(rows):
        yield KernelRow(name, args, fetch(digest, what))


def kernel_name(solver: str, problem: str) -> str:
    """``direct_5f0c4e6a9b1d2e3f.o``: the solver, and a digest of the problem's key."""
    return f"{solver}_{hashlib.sha256(problem.encode()).hexdigest()[:_DIGITS]}.o"


def kernel_args(record: KernelRecord) -> str:
    """The config and the target: ``rows~6,vectors~4 -mcpu=znver4``."""
    arch, _ = parse_device_name(record.device)
    return f"{params_of(record.config)} -mcpu={arch}"


def _kdb_file(name: str, shipment: Shipment, fetch: Fetch) -> ReleaseFile:
    def write(path: Path, _: str) -> None:
        write_kernel_db(path, kernel_rows(shipment, fetch))

    return ReleaseFile(
        name,
        _kdb_name,
        write,
        {"kernels": len(shipment.kernels) + len(shipment.harvested)},
        tuple(sorted(shipment.toolchains)),
        is_code=True,
    )


def _kdb_name(device: str) -> str:
    arch, units = parse_device_name(device)
    return db_name(DbName("kernel", arch, units))


def _write_records(path: Path, device: str, records: list[DatabaseRecord]) -> None:
    write_text_db(path, records)


def _find_name(device: str, backend: str) -> str:
    arch, units = parse_device_name(device)
    return db_name(DbName("find", arch, units, backend))
