"""``bank verify``: what the bank holds is timed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.app.bank_entries import known_entries
from skipjack.app.configuring import configured
from skipjack.app.events import WorkObserver, ignore, notices
from skipjack.app.tuning import TuneRun, tune_each
from skipjack.bank import PERF, Bank, BankEntry
from skipjack.core.device import Device
from skipjack.core.protocol import TimingProtocol, deployed_protocol
from skipjack.core.study import Budget
from skipjack.errors import SkipjackError
from skipjack.operations import parse
from skipjack.reading import numbered
from skipjack.runtime import place, why_stale
from skipjack.settings import Settings
from skipjack.tuning import TuneOptions, Tuner, TuneResult


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Which entries of the bank are timed again."""

    problem: str | None = None
    """Its key; None: all entries that are stale."""
    device: str | None = None
    seconds: float | None = None
    """For each problem."""


def verify(
    request: VerifyRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
) -> TuneRun:
    """Time again what the bank holds of a problem on this machine, or all that is stale."""
    chosen = configured(settings)
    bank = Bank.open(chosen.user_dir)
    if request.problem:
        known_entries(bank, request.problem, request.device)

    say = notices(observe)
    here, elsewhere = _wanted(request, bank)
    if elsewhere:
        count = numbered(elsewhere, "entry")
        say(f"left alone: {count} of rankings, of pinned settings or of devices that are not here")
    if not here:
        what = f"entry of {request.problem}" if request.problem else "stale entry"
        say(f"nothing to verify: the bank has no {what} for a device of this machine")
    budget = None if request.seconds is None else Budget(seconds=request.seconds)
    results: list[TuneResult] = []
    for (device, protocol), entries in here.items():
        asked = [parse(one.problem) for one in entries]
        with Tuner(chosen, device, say, protocol) as tuner:
            results += tune_each(tuner, tuner.verify, asked, TuneOptions(budget=budget), observe)
        if results[-1].interrupted:
            break
    return TuneRun(tuple(results))


def _wanted(
    request: VerifyRequest, bank: Bank
) -> tuple[dict[tuple[Device, TimingProtocol], list[BankEntry]], int]:
    """The entries that can be timed here, and the number of the others."""
    held = [one for one in bank.entries() if request.device in (None, one.device_name)]
    problem = request.problem
    wanted = [one for one in held if (one.problem == problem if problem else why_stale(one))]
    here = _by_protocol(wanted)
    return here, len(wanted) - sum(map(len, here.values()))


def _by_protocol(
    entries: Sequence[BankEntry],
) -> dict[tuple[Device, TimingProtocol], list[BankEntry]]:
    """The best configs for devices that are here, by device and how they are timed."""
    found: dict[tuple[Device, TimingProtocol], list[BankEntry]] = {}
    for entry in entries:
        try:
            here = place([parse(entry.problem)], entry.device_name, None)
            ways = entry.deployed.split("/")
            protocol = deployed_protocol(here, *ways)
        except SkipjackError:
            continue
        if entry.kind == PERF and here.class_key == entry.device:
            found.setdefault((here, protocol), []).append(entry)
    return found
