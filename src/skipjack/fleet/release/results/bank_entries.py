"""Entries of a bank for files that are named after a device, as ``znver4/1``.

CPUs of one name may differ in the width of their vectors, and a config for one width is none for
another. A file is for one of them.
"""

from __future__ import annotations

import logging
from collections import Counter

from skipjack.bank import Bank, BankEntry
from skipjack.bank.evidence import entry_device_names
from skipjack.devices import here

log = logging.getLogger(__name__)


def entries_of(bank: Bank, device: str | None = None) -> list[BankEntry]:
    """The entries of all devices or one, of each name those of one width, deployed as is usual.

    That is the width of the device of this name on this machine, or else the largest. What is left
    out is named in a warning, but for entries of pinned settings: files have the best of all.
    """
    usual = (one for one in bank.entries() if one.usual and not one.evidence.pinned)
    entries = [one for one in usual if device in (None, one.device_name)]
    names = entry_device_names(entries)
    chosen = _chosen_widths([one for one in entries if names[one.device] != one.device_name])
    kept, left = [], Counter[str]()
    for entry in entries:
        apart = names[entry.device] != entry.device_name
        if apart and entry.evidence.vector_bytes != chosen[entry.device_name]:
            left[names[entry.device]] += 1
        else:
            kept.append(entry)
    for name, count in sorted(left.items()):
        log.warning(
            "%d entries of %s are left out: the file is for the %d-bit one of this name",
            *(count, name, 8 * chosen[name.partition(" ")[0]]),
        )
    return kept


def _chosen_widths(entries: list[BankEntry]) -> dict[str, int]:
    """By name."""
    if not entries:
        return {}
    present = {one.name: one.vector_bytes for one in here()}
    widths: dict[str, set[int]] = {}
    for entry in entries:
        widths.setdefault(entry.device_name, set()).add(entry.evidence.vector_bytes)
    return {
        name: present[name] if present.get(name) in known else max(known)
        for name, known in widths.items()
    }
