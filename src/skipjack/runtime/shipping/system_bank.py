"""Making a system bank from user directories: what was confirmed with today's toolchain."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skipjack.bank import (
    MASKED,
    PERF,
    SOURCE,
    Bank,
    BankEntry,
    is_library,
    merge_entries,
    short_entry,
    write_shipped,
)
from skipjack.core.config import Config
from skipjack.core.cpu_levels import vector_bytes
from skipjack.core.device import Device, parse_device_name
from skipjack.devices import describe
from skipjack.errors import SkipjackError, StorageError, UsageError
from skipjack.native.named_cpu import named_level
from skipjack.operations import comes_with_skipjack, parse
from skipjack.runtime.checks import solver_of
from skipjack.runtime.toolchains import why_stale
from skipjack.settings import load_settings
from skipjack.storage import KernelStore

_CPU = "cpu:"
"""How the class keys of CPUs begin."""


@dataclass(frozen=True, slots=True)
class SystemBank:
    """What was written."""

    directory: Path
    entries: int
    kernels: int
    bytes: int
    devices: tuple[str, ...]
    """Class keys."""
    left_out: tuple[str, ...]
    """Why an entry is not in it, a sentence for each."""


def ship(user_dirs: Sequence[Path], output: Path) -> SystemBank:
    """Write the best entry of each key that these user directories know as a bank to ship.

    What is unconfirmed, stale, of a solver's other version or of a plug-in is left out, and so is
    an entry for a GPU whose kernel is missing. `UsageError` if nothing is left.
    """
    known: list[BankEntry] = []
    for directory in user_dirs:
        entries = Bank.open(directory).entries()
        if not entries:
            raise UsageError(f"{directory} has no bank with entries; tune some first")
        known += entries
    left_out, shipped, kernels = [], [], {}
    for best, *_ in merge_entries(known).values():
        try:
            _check(best)
            more = _facts(best)
            if best.launch and not best.device.startswith(_CPU):
                kernels[best.launch.artifact] = _kernel(best, user_dirs)
        except SkipjackError as error:
            left_out.append(f"{best.problem} on {best.device_name} is left out: {error}")
            continue
        shipped.append(short_entry(best, more))
    if not shipped:
        raise UsageError(f"there is nothing to ship: {left_out[0]}")
    size = write_shipped(output, shipped, kernels)
    devices = tuple(sorted({one.device for one in shipped}))
    return SystemBank(output, len(shipped), len(kernels), size, devices, tuple(left_out))


def _check(entry: BankEntry) -> None:
    """`SkipjackError` says why an entry is not shipped."""
    if entry.kind != PERF:
        raise SkipjackError("it is a ranking of solvers, which no lookup asks for")
    if not entry.evidence.samples or not entry.protocol or not entry.evidence.get("outcome"):
        raise SkipjackError("nothing says that it was confirmed; tune it again")
    if reason := why_stale(entry):
        raise SkipjackError(f"it is stale, having been {reason}; skipjack bank verify times it")
    if not comes_with_skipjack(parse(entry.problem).operation):
        raise SkipjackError("its operation is of a plug-in")
    solver_of(entry)


def _facts(entry: BankEntry) -> dict[str, Any]:
    """What a reader must know who was not there; `SkipjackError` if nothing can be learned."""
    if entry.device.startswith(_CPU):
        arch, _ = parse_device_name(entry.device_name)
        level, width = named_level(arch), entry.evidence.vector_bytes
        if not width or width >= vector_bytes(level):
            return {}
        if is_library(entry):
            raise SkipjackError(
                f"{arch} has {level}, which kernels did without, but {entry.solver}, which won, "
                "did not"
            )
        wider = f"{arch} has {level}: its vectors of more than {8 * width} bits were masked"
        return {MASKED: f"{wider}, except for libraries"}
    solver = solver_of(entry)
    if solver is None:
        return {}
    device = _described(entry.device_name)
    source = solver.lower(parse(entry.problem), device, Config(dict(entry.config)))
    return {SOURCE: replace(source, compiler=entry.toolchain).digest}


@functools.cache
def _described(name: str) -> Device:
    return describe(name)


def _kernel(entry: BankEntry, user_dirs: Sequence[Path]) -> bytes:
    assert entry.launch is not None, "told from libraries before"
    for directory in user_dirs:
        store = KernelStore(load_settings(user_dir=directory))
        if entry.launch.artifact in store:
            return store.get(entry.launch.artifact)
    raise StorageError(f"its kernel {entry.launch.artifact[:12]} is in none of the directories")
