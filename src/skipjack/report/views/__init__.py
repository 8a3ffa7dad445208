"""What commands show of work while it goes on, and of its results."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.report.views.program import render_program_result
    from skipjack.report.views.sweeping import (
        print_sweep_json,
        render_foreseen,
        render_sweep,
        write_files,
    )
    from skipjack.report.views.working import BuildView, FindView, TuneView

_HOMES = {
    "program": ("render_program_result",),
    "sweeping": ("print_sweep_json", "render_foreseen", "render_sweep", "write_files"),
    "working": ("BuildView", "FindView", "TuneView"),
}
__all__ = [
    "BuildView",
    "FindView",
    "TuneView",
    "print_sweep_json",
    "render_foreseen",
    "render_program_result",
    "render_sweep",
    "write_files",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is first used: a sweep needs no tuner."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
