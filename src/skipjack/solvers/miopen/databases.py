"""The user databases of a worker: put there what is known, and take out what a run has found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from skipjack.interop.miopen import (
    DbName,
    KernelRow,
    Record,
    db_name,
    find_results,
    parse_db_name,
    read_kernel_db,
    read_perf_sqlite,
    read_text_db,
    write_text_db,
)
from skipjack.interop.miopen.file_names import Kind
from skipjack.solvers.miopen.environment import Place
from skipjack.solvers.miopen.output import believable


@dataclass(frozen=True, slots=True)
class Installation:
    """Which MIOpen a program belongs to and what it runs on, as its databases are named."""

    arch: str
    units: int
    version: str
    """With the build, as ``3_2_0_a1b2c3d``: user databases of others are not read."""
    features: str = ""
    """Of the device, where they are not the usual ones: ``nosramecc``, ``xnack``."""

    @property
    def device(self) -> str:
        """As ``gfx908/120``."""
        return f"{self.arch}/{self.units}"

    def file_name(self, kind: Kind) -> str:
        """That of a user's database."""
        version = self.version if kind != "user_kernel" else ""
        name = DbName(kind, self.arch, self.units, user_version=version, features=self.features)
        return db_name(name)


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel in a database, and its code by digest."""

    name: str
    args: str
    digest: str


@dataclass(frozen=True, slots=True)
class Harvest:
    """What databases hold about one problem: its records, whole, and kernels."""

    find: Record | None = None
    perf: Record | None = None
    kernels: tuple[KernelName, ...] = ()


def installation_of(place: Place) -> Installation | None:
    """As the find-db says that a run has left; None without one."""
    for _, name in _files(place.user_db, "find"):
        if name.user_version:
            return Installation(name.arch, name.units, name.user_version, name.features)
    return None


def put(place: Place, installation: Installation, known: Harvest) -> None:
    """Let the next run know records that were found before, perhaps on another machine."""
    if known.find is not None:
        write_text_db(place.user_db / installation.file_name("find"), [known.find])
    if known.perf is not None:
        write_text_db(place.user_db / installation.file_name("perf"), [known.perf])


def take(place: Place, find_key: str, perf_key: str) -> tuple[Harvest, int]:
    """The records of a problem, and how many other find-db records are there."""
    found = [record for path, _ in _files(place.user_db, "find") for record in read_text_db(path)]
    tuned = [record for record in _perf_records(place.user_db) if record.key == perf_key]
    mine = [record for record in found if record.key == find_key]
    harvest = Harvest(mine[0] if mine else None, tuned[0] if tuned else None)
    return harvest, len(found) - len(mine)


def without(harvest: Harvest, solver: str) -> Harvest:
    """A harvest that says nothing of a solver: its result is wrong, and nobody is to run it."""
    return replace(harvest, find=_less(harvest.find, solver), perf=_less(harvest.perf, solver))


def _less(record: Record | None, solver: str) -> Record | None:
    items = [item for item in record.items if item.id != solver] if record else []
    return Record(record.key, items) if record and items else None


def believed(record: Record | None) -> Record | None:
    """What of a find-db record can be: MIOpen would take a time of zero for the fastest."""
    if record is None:
        return None
    pairs = zip(record.items, find_results(record), strict=True)
    items = [item for item, line in pairs if believable(line.time_ms)]
    return Record(record.key, items) if items else None


def kernels_in(folder: Path) -> Iterator[KernelRow]:
    """All that were compiled into a cache."""
    for path, _ in _files(folder, "user_kernel"):
        yield from read_kernel_db(path)


def named(rows: Iterable[KernelRow]) -> Iterator[tuple[KernelName, bytes]]:
    """Kernels by what they are, with their code."""
    for row in rows:
        digest = hashlib.sha256(row.code).hexdigest()
        yield KernelName(row.name, row.args, digest), row.code


def _perf_records(folder: Path) -> Iterator[Record]:
    for path, _ in _files(folder, "perf"):
        yield from read_text_db(path)
    for path, _ in _files(folder, "perf_sqlite"):
        yield from read_perf_sqlite(path)


def _files(folder: Path, kind: Kind) -> list[tuple[Path, DbName]]:
    if not folder.is_dir():
        return []
    named = [(path, parse_db_name(path.name)) for path in sorted(folder.rglob("*"))]
    return [(path, name) for path, name in named if name is not None and name.kind == kind]
