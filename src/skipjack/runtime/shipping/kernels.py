"""From this user's bank to the kernels that ship: winners with their machine code."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.bank import PERF, Bank, BankEntry, KernelRecord
from skipjack.core.device import Device
from skipjack.devices import here
from skipjack.errors import ProblemError, UsageError
from skipjack.operations import parse
from skipjack.reading import quoted
from skipjack.runtime.checks import UselessEntryError, usable
from skipjack.runtime.kernel_code import KernelCode
from skipjack.settings import Settings
from skipjack.solvers import definition_digest


@dataclass(frozen=True, slots=True)
class Banked:
    """The kernels of a bank for this machine's devices."""

    kernels: tuple[tuple[KernelRecord, bytes], ...]
    """Each with its code."""
    left_out: tuple[str, ...]
    """Why an entry for one of these devices has none, or another kernel, a sentence for each."""


def banked(settings: Settings) -> Banked:
    """Those that are verified on this machine, before or now; `UsageError` if there are none."""
    devices = {device.class_key: device for device in here()}
    kernels, left_out = [], []
    bank = Bank.open(settings.user_dir)
    for entry in bank.entries():
        device = devices.get(entry.device)
        if device is None or entry.kind != PERF or not entry.usual:
            continue
        try:
            known = bank.ranked(*entry.key)
            found = usable(known, parse(entry.problem), device, settings)
        except (UselessEntryError, ProblemError, UsageError) as error:
            left_out.append(f"{quoted(entry.problem)} left out: {error}")
            continue
        if found.passed_over:
            left_out.append(f"{quoted(entry.problem)}: {found.passed_over}")
        if found.code is not None:
            kernels.append((_record(found.entry, device, found.code), found.code.data))
    if not kernels:
        why = f": {left_out[0]}" if left_out else "; tune some first"
        raise UsageError(f"the bank has no kernels for this machine's devices{why}")
    return Banked(tuple(kernels), tuple(left_out))


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
