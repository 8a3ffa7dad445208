"""Searches whose results differ by noise alone."""

import random
from dataclasses import replace

from numpy_entry import entry

from skipjack.bank import BankEntry

SCHEDULES = ("i/v", "i:24 i/u", "i:16 i/u")


def noisy(problem: str) -> BankEntry:
    """What a search finds here: one of several that differ by noise alone."""
    ratio = random.gauss(2.0, 0.2)
    gains = {"default": {"ratio": ratio, "low": ratio - 0.1, "high": ratio + 0.1}}
    found = replace(entry(problem), time_ns=200 / ratio, speedup=gains)
    if schedule := random.choice((*SCHEDULES, "")):
        return replace(found, solver="nest", config={"schedule": schedule})
    return found
