"""What commands show of work while it goes on, and of its results."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.views.program import render_program_result
    from skipjack.report.views.sweeping import (
        make_report_directory,
        print_sweep_json,
        render_foreseen,
        render_sweep,
        write_files,
    )
    from skipjack.report.views.working import BuildView, FindView, TuneView

__all__ = [
    "BuildView",
    "FindView",
    "TuneView",
    "make_report_directory",
    "print_sweep_json",
    "render_foreseen",
    "render_program_result",
    "render_sweep",
    "write_files",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "program": ("render_program_result",),
        "sweeping": (
            "make_report_directory",
            "print_sweep_json",
            "render_foreseen",
            "render_sweep",
            "write_files",
        ),
        "working": ("BuildView", "FindView", "TuneView"),
    },
)
"""A sweep needs no tuner."""
