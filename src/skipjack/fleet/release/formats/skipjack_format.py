"""Skipjack's own files: a line of JSON for each problem, and kernels that `skipjack.load` loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from skipjack.bank import KernelDb, KernelRecord, write_kernel_db
from skipjack.errors import CorruptFileError, UsageError
from skipjack.fleet.release.formats.export_format import (
    FIND_DB,
    KERNEL_DB,
    MIOPEN,
    PERF_DB,
    SKIPJACK,
    Contents,
    ExportFormat,
    FindOptions,
    GatheredConfigs,
    GatheredRankings,
    KeyedFile,
    PerfOptions,
    ReleaseFile,
    base_name,
)
from skipjack.fleet.release.results import (
    Fetch,
    FoundProblem,
    Shipment,
    TunedProblem,
    outdated_remarks,
    write_lines,
)
from skipjack.interop.miopen import ENTRIES, FIND, PERF, line_of, numbered_lines, object_of
from skipjack.reading import numbered, parse_json
from skipjack.storage import atomic_write

# Skipjack's databases as keyed records: JSON lines, and kernels (``.skk``).


def read_lines(path: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """The lines of a file by problem and device."""
    for number, text in numbered_lines(path):
        where = f"{path}:{number}"
        key = _key(text, where)
        yield key, text.decode()


def _key(line: bytes | str, where: str) -> tuple[str, ...]:
    record = object_of(line, where)
    try:
        return str(record["problem"]), str(record["device"])
    except KeyError as error:
        raise CorruptFileError(
            f"{where} is not a line of a database: it has no {error}; repair or remove it"
        ) from None


def write_merged_lines(path: Path, lines: Iterable[str], like: Path | None) -> None:
    """Write lines sorted by problem, as in exports."""
    ordered = sorted(lines, key=lambda line: _key(line, "a line"))
    atomic_write(path, "".join(f"{line}\n" for line in ordered).encode())


def same_line(old: str, new: str) -> bool:
    """Whether the lines are identical."""
    return old == new


def joined_line(old: str, new: str) -> str:
    """The new line, with entries of other solvers from the old one."""
    before, after = _parsed(old), _parsed(new)
    for field, rank in ((ENTRIES[FIND], _by_time), (ENTRIES[PERF], _by_name)):
        named = {entry["solver"] for entry in after.get(field, ())}
        kept = [entry for entry in before.get(field, ()) if entry["solver"] not in named]
        if kept:
            after[field] = sorted([*after.get(field, ()), *kept], key=rank)
    return new if after == _parsed(new) else line_of(after)


def _parsed(line: str) -> Any:
    return parse_json(line, surrogates=True)


def _by_time(entry: dict[str, Any]) -> tuple[float, str]:
    return entry["time_ns"], entry["solver"]


def _by_name(entry: dict[str, Any]) -> str:
    return str(entry["solver"])


@dataclass(frozen=True, slots=True)
class Packed:
    """A kernel, and the file with its code."""

    record: KernelRecord
    file: Path


def read_packed(path: Path) -> Iterator[tuple[tuple[str, str], Packed]]:
    """Kernels by problem and device; their code is read only when it is written."""
    with KernelDb.open(path) as database:
        for record in database.records():
            yield (record.problem, record.device), Packed(record, path)


def write_packed(path: Path, kernels: Iterable[Packed], like: Path | None) -> None:
    """Write kernels with their code."""
    open_files: dict[Path, KernelDb] = {}

    def coded() -> Iterator[tuple[KernelRecord, bytes]]:
        for kernel in kernels:
            if kernel.file not in open_files:
                open_files[kernel.file] = KernelDb.open(kernel.file)
            yield kernel.record, open_files[kernel.file].code(kernel.record)

    try:
        write_kernel_db(path, coded())
    finally:
        for database in open_files.values():
            database.close()


def same_packed(old: Packed, new: Packed) -> bool:
    """Whether kernels and their evidence are the same."""
    return old.record == new.record


# The format.

P = TypeVar("P", FoundProblem, TunedProblem)


class SkipjackFormat(ExportFormat):
    """``x.find.jsonl``, ``x.perf.jsonl`` and ``x.skk``, which support every problem."""

    name = SKIPJACK
    kernel_ending = ".skk"
    keyed = (
        KeyedFile(
            (".jsonl",),
            read_lines,
            write_merged_lines,
            same_line,
            joined_line,
            by_line=True,
        ),
        KeyedFile((".skk",), read_packed, write_packed, same_packed),
    )

    def find_endings(self, backend: str = "HIP") -> tuple[str, ...]:
        return (".find.jsonl",)

    def find(self, found: Iterable[FoundProblem], options: FindOptions) -> Contents:
        """A line for each problem with its ranking."""
        gathered = GatheredRankings()
        devices = _by_device(gathered.of(found))
        for problems in devices.values():
            problems[:] = [_shortened(problem, options.top) for problem in problems]
        files = _line_files(devices, ".find.jsonl", lambda one: len(one.ranking))
        counts, remarks = gathered.counts(), tuple(gathered.remarks())
        return Contents(FIND_DB, self.name, files, counts, remarks)

    def check_perf(self, options: PerfOptions) -> None:
        """`UsageError` for SQLite and for one file."""
        if options.sqlite:
            raise UsageError(
                "--sqlite requires --format miopen; the format skipjack consists of JSON lines"
            )
        super().check_perf(options)

    def perf(self, tuned: Iterable[TunedProblem], options: PerfOptions) -> Contents:
        """A line for each problem with its configs."""
        gathered = GatheredConfigs()
        devices = _by_device(gathered.of(tuned))
        files = _line_files(devices, ".perf.jsonl", lambda one: len(one.configs))
        counts, remarks = gathered.counts(), tuple(gathered.remarks())
        return Contents(PERF_DB, self.name, files, counts, remarks)

    def kernel(self, shipments: Mapping[str, Shipment], fetch: Fetch) -> Contents:
        """A ``.skk`` for each device, without kernels of MIOpen."""
        files = tuple(
            _skk_file(name, shipment, fetch)
            for name, shipment in sorted(shipments.items())
            if shipment.kernels
        )
        left = sum(len(shipment.harvested) for shipment in shipments.values())
        remarks = list(outdated_remarks(shipments))
        if left:
            remarks.append(
                f"{numbered(left, 'kernel')} of MIOpen left out, which only its own format can "
                f"contain; --format {MIOPEN} writes them"
            )
        counts = {"not_in_this_format": left}
        return Contents(KERNEL_DB, self.name, files, counts, tuple(remarks))

    def one_kernel_file(self, path: Path, shipments: Mapping[str, Shipment], fetch: Fetch) -> int:
        kernels = [kernel for _, one in sorted(shipments.items()) for kernel in one.kernels]
        if not kernels:
            raise UsageError("there are only kernels of MIOpen; name a .kdb file for them")
        return write_kernel_db(path, _with_code(kernels, fetch))


def _by_device(problems: Iterable[P]) -> dict[str, list[P]]:
    devices: dict[str, list[P]] = {}
    for problem in problems:
        devices.setdefault(problem.device, []).append(problem)
    return dict(sorted(devices.items()))


def _shortened(problem: FoundProblem, top: int | None) -> FoundProblem:
    return replace(problem, ranking=problem.ranking[:top])


def _line_files(
    devices: Mapping[str, Sequence[P]], ending: str, entries: Callable[[P], int]
) -> tuple[ReleaseFile, ...]:
    return tuple(
        ReleaseFile(
            name,
            lambda device: f"{base_name(device)}{ending}",
            partial(write_lines, problems=problems),
            {"problems": len(problems), "entries": sum(map(entries, problems))},
            tuple(sorted({one.toolchain for one in problems if one.toolchain})),
        )
        for name, problems in devices.items()
    )


def _skk_file(name: str, shipment: Shipment, fetch: Fetch) -> ReleaseFile:
    def write(path: Path, _: str) -> None:
        write_kernel_db(path, _with_code(shipment.kernels, fetch))

    return ReleaseFile(
        name,
        lambda device: f"{base_name(device)}.skk",
        write,
        {"kernels": len(shipment.kernels)},
        tuple(sorted(shipment.toolchains)),
        is_code=True,
    )


def _with_code(
    kernels: Iterable[KernelRecord], fetch: Fetch
) -> Iterator[tuple[KernelRecord, bytes]]:
    return ((kernel, fetch(kernel.artifact, kernel.problem)) for kernel in kernels)
