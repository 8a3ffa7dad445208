"""Upkeep of the bank and the ledger: entries are removed or timed again, rows are dropped."""

from skipjack.cli.upkeep.entries import (
    CachesOption,
    DeployedOption,
    DeviceOption,
    clean,
    entries_known_of,
    entries_on,
    remove,
    settings_with,
)
from skipjack.cli.upkeep.rows import collect_rows

__all__ = [
    "CachesOption",
    "DeployedOption",
    "DeviceOption",
    "clean",
    "collect_rows",
    "entries_known_of",
    "entries_on",
    "remove",
    "settings_with",
]
