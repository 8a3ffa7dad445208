"""What records look like: tables for people, and one envelope of JSON for machines."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.report.render import TableColumn, envelope, print_json, print_rows, say, warn
    from skipjack.report.screen import print_fields

__all__ = ["TableColumn", "envelope", "print_fields", "print_json", "print_rows", "say", "warn"]


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is first used: who shows nothing needs no tables."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skipjack.report import render, screen

    return getattr(screen if name == "print_fields" else render, name)
