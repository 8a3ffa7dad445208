"""Reports on sweeps: progress, tables, files, plots and a page."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.sweep.files import (
        make_report_directory,
        print_sweep_json,
        render_forecast,
        render_sweep,
        write_csv,
        write_files,
    )
    from skipjack.report.sweep.page import write_html, write_plots
    from skipjack.report.sweep.summary import (
        FailedPoint,
        FailureGroup,
        best_settings,
        facts,
        failures,
        gain_sentences,
        headline,
        metric_name,
        overlay_text,
        remarks,
    )
    from skipjack.report.sweep.terminal import print_sweep, sweep_progress
    from skipjack.sweep.results import read_json, write_json

__all__ = [
    "FailedPoint",
    "FailureGroup",
    "best_settings",
    "facts",
    "failures",
    "gain_sentences",
    "headline",
    "make_report_directory",
    "metric_name",
    "overlay_text",
    "print_sweep",
    "print_sweep_json",
    "read_json",
    "remarks",
    "render_forecast",
    "render_sweep",
    "sweep_progress",
    "write_csv",
    "write_files",
    "write_html",
    "write_json",
    "write_plots",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "files": (
            "make_report_directory print_sweep_json render_forecast render_sweep write_csv "
            "write_files"
        ),
        "page": "write_html write_plots",
        "summary": (
            "FailedPoint FailureGroup best_settings facts failures gain_sentences headline "
            "metric_name overlay_text remarks"
        ),
        "terminal": "print_sweep sweep_progress",
        "skipjack.sweep.results": "read_json write_json",
    },
)
