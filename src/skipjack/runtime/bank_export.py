"""From what was tuned to what ships: kernels of a bank with their machine code, system banks."""

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
    KernelRecord,
    is_library,
    merge_entries,
    short_entry,
    write_shipped,
)
from skipjack.core import Config, Device, parse_device_name, vector_bytes
from skipjack.devices import describe, local_devices
from skipjack.errors import ProblemError, SkipjackError, StorageError, UsageError
from skipjack.native import named_level
from skipjack.operations import comes_with_skipjack, parse
from skipjack.reading import quoted
from skipjack.runtime.checks import UnusableEntryError, solver_of, usable_entry
from skipjack.runtime.local_kernels import KernelCode, why_stale
from skipjack.settings import Settings, load_settings
from skipjack.solvers import definition_digest
from skipjack.storage import KernelStore

# The kernels of this user's bank with their machine code, for export.


@dataclass(frozen=True, slots=True)
class BankedKernels:
    """The kernels of a bank for this machine's devices."""

    kernels: tuple[tuple[KernelRecord, bytes], ...]
    """Each kernel with its code."""
    left_out: tuple[str, ...]
    """For each entry without a kernel, or with another one, a sentence that says why."""


def banked_kernels(settings: Settings) -> BankedKernels:
    """The kernels that are verified on this machine, earlier or now; `UsageError` if none is."""
    devices = {device.class_key: device for device in local_devices()}
    kernels, left_out = [], []
    bank = Bank.open(settings.user_dir)
    for entry in bank.entries():
        device = devices.get(entry.device)
        if device is None or entry.kind != PERF or not entry.usual:
            continue
        try:
            known = bank.ranked(*entry.key)
            found = usable_entry(known, parse(entry.problem), device, settings)
        except (UnusableEntryError, ProblemError, UsageError) as error:
            left_out.append(f"{quoted(entry.problem)} is left out: {error}")
            continue
        if found.passed_over:
            left_out.append(f"{quoted(entry.problem)}: {found.passed_over}")
        if found.code is not None:
            kernels.append((_record(found.entry, device, found.code), found.code.data))
    if not kernels:
        why = f": {left_out[0]}" if left_out else "; tune some first"
        raise UsageError(f"the bank has no kernels for this machine's devices{why}")
    return BankedKernels(tuple(kernels), tuple(left_out))


def _record(entry: BankEntry, device: Device, code: KernelCode) -> KernelRecord:
    called = entry.evidence.as_called
    return KernelRecord(
        entry.problem,
        device.name,
        device.compat_key,
        entry.solver,
        entry.solver_version,
        entry.config,
        code.digest,
        code.symbol,
        code.abi,
        code.slots,
        entry.time_ns,
        entry.vendor,
        entry.vendor_ns,
        definition_digest(parse(entry.problem)),
        called.record() if called and called.ratio is not None else None,
    )


# Making a system bank from user directories: entries confirmed with the current toolchain.

_CPU = "cpu:"
"""The prefix of CPUs' class keys."""


@dataclass(frozen=True, slots=True)
class SystemBank:
    """A system bank that was written."""

    directory: Path
    entries: int
    kernels: int
    bytes: int
    devices: tuple[str, ...]
    """Class keys of its devices."""
    left_out: tuple[str, ...]
    """For each entry that is not in it, a sentence that says why."""


def ship(user_dirs: Sequence[Path], output: Path) -> SystemBank:
    """Write the best entry of each key in these user directories as a system bank.

    Entries that are unconfirmed, stale, by another version of a solver or of a plug-in are left
    out, and so are entries for a GPU without their kernel. `UsageError` if no entry is left.
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
        raise UsageError(f"no entry can be shipped: {left_out[0]}")
    size = write_shipped(output, shipped, kernels)
    devices = tuple(sorted({one.device for one in shipped}))
    return SystemBank(output, len(shipped), len(kernels), size, devices, tuple(left_out))


def _check(entry: BankEntry) -> None:
    """Raise `SkipjackError` if an entry cannot be shipped."""
    if entry.kind != PERF:
        raise SkipjackError("it is a ranking of solvers, which lookups do not use")
    if not entry.evidence.samples or not entry.protocol or not entry.evidence.get("outcome"):
        raise SkipjackError("no record shows that it was confirmed; tune it again")
    if reason := why_stale(entry):
        raise SkipjackError(f"it is stale: it was {reason}; skipjack bank verify times it again")
    if not comes_with_skipjack(parse(entry.problem).operation):
        raise SkipjackError("its operation is from a plug-in")
    solver_of(entry)


def _facts(entry: BankEntry) -> dict[str, Any]:
    """Further facts that users of the bank need; `SkipjackError` if they cannot be determined."""
    if entry.device.startswith(_CPU):
        arch, _ = parse_device_name(entry.device_name)
        level, width = named_level(arch), entry.evidence.vector_bytes
        if not width or width >= vector_bytes(level):
            return {}
        if is_library(entry):
            raise SkipjackError(
                f"{arch} has {level}; kernels were timed without it, but the winner, "
                f"{entry.solver}, was not"
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
    assert entry.launch is not None, "libraries were handled before"
    for directory in user_dirs:
        store = KernelStore(load_settings(user_dir=directory))
        if entry.launch.artifact in store:
            return store.get(entry.launch.artifact)
    raise StorageError(f"its kernel {entry.launch.artifact[:12]} is in none of the directories")
