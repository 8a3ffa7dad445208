"""Tuning inside of a program: who searches, when, and how much of the program's time it takes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.runtime.online.turns import is_recording, one_at_a_time

__all__ = [
    "is_recording",
    "one_at_a_time",
]
_HOMES = {
    "is_recording": "turns",
    "one_at_a_time": "turns",
}
"""Where each name is, loaded when it is first asked for: a program that reads banks needs none."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"skipjack.runtime.online.{_HOMES[name]}")
    found = globals()[name] = getattr(home, name)
    return found
