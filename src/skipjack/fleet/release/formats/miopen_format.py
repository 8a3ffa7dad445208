"""MIOpen's files: find-dbs and perf-dbs of convolutions, and kernel-dbs.

MIOpen asks for a kernel by the name of its source and by what it was compiled with. Ours are called
by their solver and a digest of the problem's key, and the arguments are the config as `params_of`
writes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from skipjack.bank.kernel_db import KernelRecord
from skipjack.core.device import parse_device_name
from skipjack.errors import UsageError
from skipjack.fleet.release.formats import miopen_merging as merging
from skipjack.fleet.release.formats.contents import (
    FIND_DB,
    KERNEL_DB,
    MIOPEN,
    PERF_DB,
    Contents,
    ReleaseFile,
    base_name,
)
from skipjack.fleet.release.formats.export_format import (
    ExportFormat,
    FindOptions,
    KeyedFile,
    PerfOptions,
)
from skipjack.fleet.release.formats.miopen_find import GatheredRecords
from skipjack.fleet.release.formats.miopen_perf import gather, one_perf_file, perf_file
from skipjack.fleet.release.results import (
    Fetch,
    FoundProblem,
    Shipment,
    TunedProblem,
    outdated_remarks,
    params_of,
)
from skipjack.interop.miopen import (
    DbName,
    KernelRow,
    Record,
    db_name,
    write_kernel_db,
    write_text_db,
)
from skipjack.interop.miopen.file_names import SUFFIXES

_DIGITS = 16


class MiopenFormat(ExportFormat):
    """``x.HIP.fdb.txt``, ``x.db.txt`` or ``x.db``, and ``x.kdb``."""

    name = MIOPEN
    kernel_ending = ".kdb"
    keyed = (
        KeyedFile(
            (".fdb.txt", ".ufdb.txt"),
            merging.read_text,
            merging.write_text,
            merging.same_record,
            merging.joined_find,
            by_line=True,
        ),
        KeyedFile(
            (".db.txt", ".udb.txt"),
            merging.read_text,
            merging.write_text,
            merging.same_record,
            merging.joined_perf,
            by_line=True,
        ),
        KeyedFile(
            (".db", ".udb"),
            merging.read_sqlite,
            merging.write_sqlite,
            merging.same_record,
            merging.joined_perf,
        ),
        KeyedFile(
            (".kdb", ".ukdb"), merging.read_kernels, merging.write_kernels, merging.same_kernel
        ),
    )

    @property
    def endings(self) -> tuple[str, ...]:
        """Those of earlier versions of MIOpen, too."""
        return tuple(SUFFIXES)

    def find_endings(self, backend: str = "HIP") -> tuple[str, ...]:
        """Files of the backend first, those of users last."""
        own = (f".{backend}.fdb.txt", ".HIP.fdb.txt", ".fdb.txt", ".ufdb.txt")
        return tuple(dict.fromkeys(own))

    def find_stem(self, name: str) -> str:
        """Without the backend, and without the build that a user's file is named after."""
        return super().find_stem(name).split(".HIP")[0].split(".OpenCL")[0]

    def find(self, found: Iterable[FoundProblem], options: FindOptions) -> Contents:
        """A record for each key, as MIOpen's own files have them."""
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
        """Text, SQLite or one file: all are possible."""

    def perf(self, tuned: Iterable[TunedProblem], options: PerfOptions) -> Contents:
        """A record for each key with the parameters of its solvers."""
        gathered = gather(tuned)
        if options.one_file:
            return one_perf_file(gathered, options.one_file, options.aliases)
        files = tuple(
            perf_file(name, device, sqlite=options.sqlite)
            for name, device in gathered.devices.items()
        )
        return Contents(PERF_DB, self.name, files, gathered.counts, gathered.remarks)

    def kernel(self, shipments: Mapping[str, Shipment], fetch: Fetch) -> Contents:
        """A ``.kdb`` for each device, with the kernels that MIOpen compiled itself."""
        files = tuple(_kdb_file(name, one, fetch) for name, one in sorted(shipments.items()))
        remarks = tuple(outdated_remarks(shipments))
        return Contents(KERNEL_DB, self.name, files, {"not_in_this_format": 0}, remarks)

    def one_kernel_file(self, path: Path, shipments: Mapping[str, Shipment], fetch: Fetch) -> int:
        """A ``.kdb`` is for one device."""
        if len(shipments) > 1:
            names = " or ".join(f"{base_name(device)}.kdb" for device in sorted(shipments))
            raise UsageError(
                f"a .kdb is for one device and there are {len(shipments)}; choose one with "
                f"--device, or name a directory for {names}"
            )
        return sum(write_kernel_db(path, kernel_rows(one, fetch)) for one in shipments.values())

    def other_names(self, name: str) -> tuple[str, ...]:
        """A perf-db stays text or SQLite, whichever is there."""
        return (name.removesuffix(".txt"),) if name.endswith(".db.txt") else ()

    def remarks_beside(self, directory: Path, name: str) -> list[str]:
        """What to say of a find-db that is new beside one of another backend."""
        ending = ".fdb.txt"
        if not name.endswith(ending):
            return []
        others = sorted(each.name for each in directory.glob(f"{name.partition('.')[0]}.*{ending}"))
        return [
            f"{name} is new beside {other}, which stays as it is; --backend chooses"
            for other in others
        ]


def kernel_rows(shipment: Shipment, fetch: Fetch) -> Iterator[KernelRow]:
    """As MIOpen keeps them, by name."""
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
    """The config and what it was compiled for: ``rows~6,vectors~4 -mcpu=znver4``."""
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


def _write_records(path: Path, device: str, records: list[Record]) -> None:
    write_text_db(path, records)


def _find_name(device: str, backend: str) -> str:
    arch, units = parse_device_name(device)
    return db_name(DbName("find", arch, units, backend))
