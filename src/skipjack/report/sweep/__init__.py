"""Reports on sweeps: progress, tables, files, plots and a page."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.sweep.best_so_far import BestSoFar, draw_search
    from skipjack.report.sweep.drawing import (
        BEST,
        FAILED,
        QUIET,
        PlotsMissingError,
        figure,
        picture,
        plot_style,
        scale,
    )
    from skipjack.report.sweep.files import (
        make_report_directory,
        print_sweep_json,
        render_forecast,
        render_sweep,
        write_csv,
        write_files,
    )
    from skipjack.report.sweep.page import write_html
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
    "BEST",
    "FAILED",
    "QUIET",
    "BestSoFar",
    "FailedPoint",
    "FailureGroup",
    "PlotsMissingError",
    "best_settings",
    "draw_search",
    "facts",
    "failures",
    "figure",
    "gain_sentences",
    "headline",
    "make_report_directory",
    "metric_name",
    "overlay_text",
    "picture",
    "plot_style",
    "print_sweep",
    "print_sweep_json",
    "read_json",
    "remarks",
    "render_forecast",
    "render_sweep",
    "scale",
    "sweep_progress",
    "write_csv",
    "write_files",
    "write_html",
    "write_json",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "best_so_far": "BestSoFar draw_search",
        "drawing": "BEST FAILED PlotsMissingError QUIET figure picture plot_style scale",
        "files": (
            "make_report_directory print_sweep_json render_forecast render_sweep write_csv "
            "write_files"
        ),
        "page": "write_html",
        "summary": (
            "FailedPoint FailureGroup best_settings facts failures gain_sentences headline "
            "metric_name overlay_text remarks"
        ),
        "terminal": "print_sweep sweep_progress",
        "skipjack.sweep.results": "read_json write_json",
    },
)
