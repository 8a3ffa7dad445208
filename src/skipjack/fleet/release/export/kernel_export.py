"""Kernel-dbs: the winners' machine code, for MIOpen's loader (``.kdb``) or our own (``.skk``).

MIOpen asks for a kernel by the name of its source and by what it was compiled with. Ours are called
by their solver and a digest of the problem's key, and the arguments are the config as `params_of`
writes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from skipjack.bank.kernel_db import KernelRecord
from skipjack.bank.kernel_db import write_kernel_db as write_skk
from skipjack.core.device import parse_device_name
from skipjack.errors import UsageError
from skipjack.fleet.release.export.contents import (
    MIOPEN,
    SKIPJACK,
    Contents,
    ReleaseFile,
    base_name,
)
from skipjack.fleet.release.results.config_text import params_of
from skipjack.fleet.shipping import Shelves, artifact, winning
from skipjack.interop.miopen import DbName, KernelRow, db_name
from skipjack.interop.miopen import write_kernel_db as write_kdb
from skipjack.reading import numbered

KIND = "kernel-db"
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Harvested:
    """A kernel that MIOpen compiled."""

    name: str
    args: str
    digest: str


@dataclass(slots=True)
class Shipment:
    """The kernels of a device; code is fetched when it is written."""

    kernels: list[KernelRecord] = field(default_factory=list)
    harvested: dict[tuple[str, str], Harvested] = field(default_factory=dict)
    toolchains: set[str] = field(default_factory=set)
    outdated: list[str] = field(default_factory=list)
    """Problems of which another kernel was packed than the one that wins now."""


Fetch = Callable[[str, str], bytes]
"""The code with a digest, and of what it is."""


def kernels_in_label(store: Shelves, label: str, device: str | None = None) -> dict[str, Shipment]:
    """What a label ships, by device."""
    shipments: dict[str, Shipment] = {}
    for verdict in store.verdicts(label, device):
        for kernel in verdict.result.get("miopen", {}).get("kernels", ()):
            shipment = shipments.setdefault(verdict.device, Shipment())
            one = _harvested(kernel)
            shipment.harvested[one.name, one.args] = one
            shipment.toolchains.update(filter(None, [verdict.toolchain]))
    try:
        found = winning(store, label, device)
    except UsageError:
        if not shipments:
            raise
        found = []
    for winner in found:
        shipment = shipments.setdefault(winner.record.device, Shipment())
        shipment.kernels.append(winner.record)
        shipment.toolchains.update(filter(None, [winner.toolchain]))
        if winner.outdated:
            shipment.outdated.append(winner.record.problem)
    return shipments


def _harvested(kernel: Mapping[str, Any]) -> Harvested:
    return Harvested(str(kernel["name"]), str(kernel["args"]), str(kernel["digest"]))


def fetching(store: Shelves, label: str) -> Fetch:
    """Code of a label's store."""
    return partial(artifact, store, label)


def kernel_files(shipments: Mapping[str, Shipment], form: str, fetch: Fetch) -> Contents:
    """A file for each device."""
    make = _kdb_file if form == MIOPEN else _skk_file
    files = tuple(
        make(name, shipment, fetch)
        for name, shipment in sorted(shipments.items())
        if shipment.kernels or form == MIOPEN
    )
    foreign = sum(len(shipment.harvested) for shipment in shipments.values())
    left = foreign if form == SKIPJACK else 0
    remarks = list(outdated_remarks(shipments))
    if left:
        remarks.append(
            f"{numbered(left, 'kernel')} of MIOpen left out, which only its own format holds; "
            f"--format {MIOPEN} writes them"
        )
    return Contents(KIND, form, files, {"not_in_this_format": left}, tuple(remarks))


def outdated_remarks(shipments: Mapping[str, Shipment]) -> Iterator[str]:
    """What to say of kernels that were packed before another one won."""
    outdated = [problem for one in shipments.values() for problem in one.outdated]
    if outdated:
        yield (
            f"{numbered(len(outdated), 'packed kernel')} not taken, as another one wins by now "
            f"(first: {outdated[0]}); the build that its job left ships if there is one, and "
            "skipjack run --kernel-cache packs it"
        )


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
        write_kdb(path, kernel_rows(shipment, fetch))

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


def _skk_file(name: str, shipment: Shipment, fetch: Fetch) -> ReleaseFile:
    def write(path: Path, _: str) -> None:
        write_skk(path, with_code(shipment.kernels, fetch))

    return ReleaseFile(
        name,
        lambda device: f"{base_name(device)}.skk",
        write,
        {"kernels": len(shipment.kernels)},
        tuple(sorted(shipment.toolchains)),
        is_code=True,
    )


def with_code(
    kernels: Iterable[KernelRecord], fetch: Fetch
) -> Iterator[tuple[KernelRecord, bytes]]:
    """Kernels as a ``.skk`` takes them."""
    return ((kernel, fetch(kernel.artifact, kernel.problem)) for kernel in kernels)
