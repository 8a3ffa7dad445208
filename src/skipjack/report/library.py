"""How tables name the library that a problem is compared with: NumPy as a rule, but not always."""

from __future__ import annotations

from collections.abc import Iterable

_NAMES = {"numpy": "NumPy", "": "NumPy"}
_SEVERAL = "library"


def library_column(vendors: Iterable[str]) -> str:
    """A heading for the times of these libraries; an empty name is none."""
    names = {vendor for vendor in vendors if vendor}
    if len(names) > 1:
        return _SEVERAL
    return library_name(names.pop() if names else "")


def library_name(vendor: str) -> str:
    """As people write it."""
    return _NAMES.get(vendor, vendor)


def library_cell(text: str, vendor: str, column: str) -> str:
    """The text, with the library's name where the heading does not say it."""
    return f"{text} {library_name(vendor)}" if column == _SEVERAL and vendor else text
