"""Skipjack's own files: a line of JSON for each problem, and kernels that `skipjack.load` loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from skipjack.bank.kernel_db import KernelRecord, write_kernel_db
from skipjack.errors import UsageError
from skipjack.fleet.release.formats import skipjack_merging as merging
from skipjack.fleet.release.formats.contents import (
    FIND_DB,
    KERNEL_DB,
    MIOPEN,
    PERF_DB,
    SKIPJACK,
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
from skipjack.fleet.release.formats.gathered import GatheredConfigs, GatheredRankings
from skipjack.fleet.release.results import (
    Fetch,
    FoundProblem,
    Shipment,
    TunedProblem,
    outdated_remarks,
    write_lines,
)
from skipjack.reading import numbered

P = TypeVar("P", FoundProblem, TunedProblem)


class SkipjackFormat(ExportFormat):
    """``x.find.jsonl``, ``x.perf.jsonl`` and ``x.skk``, which hold every problem."""

    name = SKIPJACK
    kernel_ending = ".skk"
    keyed = (
        KeyedFile(
            (".jsonl",),
            merging.read_lines,
            merging.write_lines,
            merging.same_line,
            merging.joined_line,
            by_line=True,
        ),
        KeyedFile((".skk",), merging.read_packed, merging.write_packed, merging.same_packed),
    )

    def find_endings(self, backend: str = "HIP") -> tuple[str, ...]:
        """One."""
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
        """Lines of JSON are neither SQLite nor one file."""
        if options.sqlite:
            raise UsageError("--sqlite is for --format miopen; ours are lines of JSON")
        super().check_perf(options)

    def perf(self, tuned: Iterable[TunedProblem], options: PerfOptions) -> Contents:
        """A line for each problem with its configs."""
        gathered = GatheredConfigs()
        devices = _by_device(gathered.of(tuned))
        files = _line_files(devices, ".perf.jsonl", lambda one: len(one.configs))
        counts, remarks = gathered.counts(), tuple(gathered.remarks())
        return Contents(PERF_DB, self.name, files, counts, remarks)

    def kernel(self, shipments: Mapping[str, Shipment], fetch: Fetch) -> Contents:
        """A ``.skk`` for each device; kernels of MIOpen's own are left out."""
        files = tuple(
            _skk_file(name, shipment, fetch)
            for name, shipment in sorted(shipments.items())
            if shipment.kernels
        )
        left = sum(len(shipment.harvested) for shipment in shipments.values())
        remarks = list(outdated_remarks(shipments))
        if left:
            remarks.append(
                f"{numbered(left, 'kernel')} of MIOpen left out, which only its own format holds; "
                f"--format {MIOPEN} writes them"
            )
        counts = {"not_in_this_format": left}
        return Contents(KERNEL_DB, self.name, files, counts, tuple(remarks))

    def one_kernel_file(self, path: Path, shipments: Mapping[str, Shipment], fetch: Fetch) -> int:
        """Kernels of several devices fit into one."""
        kernels = [kernel for _, one in sorted(shipments.items()) for kernel in one.kernels]
        if not kernels:
            raise UsageError("only MIOpen's own kernels are there, which a .kdb holds")
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
