"""What records look like: tables for people, and one envelope of JSON for machines."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.render import TableColumn, envelope, print_json, print_rows, say, warn
    from skipjack.report.screen import print_fields

__all__ = ["TableColumn", "envelope", "print_fields", "print_json", "print_rows", "say", "warn"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "render": ("TableColumn", "envelope", "print_json", "print_rows", "say", "warn"),
        "screen": ("print_fields",),
    },
)
"""A command that shows nothing needs no tables."""
