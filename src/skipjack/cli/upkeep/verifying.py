"""``skipjack bank verify``: what the bank holds is timed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipjack.cli.tune import each, finish, say, show_results

if TYPE_CHECKING:
    from skipjack.bank import BankEntry
    from skipjack.core.device import Device
    from skipjack.core.protocol import TimingProtocol
    from skipjack.settings import Settings
    from skipjack.tuning import TuneResult


def verify_all(
    settings: Settings, problem: str | None, device: str | None, seconds: float | None, json: bool
) -> None:
    """Time again what the bank holds of a problem on this machine, or all that is stale."""
    from skipjack.bank import Bank
    from skipjack.operations import parse
    from skipjack.reading import numbered
    from skipjack.runtime import why_stale
    from skipjack.tuning import TuneOptions, Tuner, make_budget

    bank = Bank.open(settings.user_dir)
    held = [one for one in bank.entries() if device in (None, one.device_name)]
    wanted = [one for one in held if (one.problem == problem if problem else why_stale(one))]
    here = _by_protocol(wanted)
    elsewhere = len(wanted) - sum(len(entries) for entries in here.values())
    if elsewhere:
        count = numbered(elsewhere, "entry")
        say(f"left alone: {count} of rankings, of pinned settings or of devices that are not here")
    if not here:
        what = f"entry of {problem}" if problem else "stale entry"
        say(f"nothing to verify: the bank has no {what} for a device of this machine")
        return
    results: list[TuneResult] = []
    try:
        for (place, protocol), entries in here.items():
            tuner = Tuner(settings, place, say, protocol)
            budget = make_budget(None, seconds, tuner.limits.tune_seconds)
            with tuner:
                asked = [parse(one.problem) for one in entries]
                each(tuner.verify, asked, TuneOptions(budget=budget), results, json)
    finally:
        show_results(results, json)
    finish(results)


def _by_protocol(
    entries: Sequence[BankEntry],
) -> dict[tuple[Device, TimingProtocol], list[BankEntry]]:
    """The best configs for devices that are here, by device and how they are timed."""
    from skipjack.bank import PERF
    from skipjack.core.protocol import deployed_protocol
    from skipjack.errors import SkipjackError
    from skipjack.operations import parse
    from skipjack.runtime import place

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
