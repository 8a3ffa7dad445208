"""Reports on loop nests as a game: tables, CSV, plots and graphs of searches."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report import rate_text
    from skipjack.report.loops.drawing import PlotsMissingError
    from skipjack.report.loops.graph import graph_text, search_graphs, write_graphs
    from skipjack.report.loops.plots import search_plots, write_search_plots, write_search_report
    from skipjack.report.loops.tables import (
        COLUMNS,
        LibraryComparison,
        SearchSummary,
        comparison_fields,
        print_comparisons,
        print_searches,
        run_line,
        run_record,
        steps_text,
        summarize_searches,
        write_comparisons,
        write_steps,
    )
    from skipjack.report.loops.training import sparkline, training_line, training_progress

__all__ = [
    "COLUMNS",
    "LibraryComparison",
    "PlotsMissingError",
    "SearchSummary",
    "comparison_fields",
    "graph_text",
    "print_comparisons",
    "print_searches",
    "rate_text",
    "run_line",
    "run_record",
    "search_graphs",
    "search_plots",
    "sparkline",
    "steps_text",
    "summarize_searches",
    "training_line",
    "training_progress",
    "write_comparisons",
    "write_graphs",
    "write_search_plots",
    "write_search_report",
    "write_steps",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.report": "rate_text",
        "graph": "graph_text search_graphs write_graphs",
        "drawing": "PlotsMissingError",
        "plots": "search_plots write_search_plots write_search_report",
        "tables": (
            "COLUMNS LibraryComparison SearchSummary comparison_fields print_comparisons "
            "print_searches run_line run_record steps_text summarize_searches write_comparisons "
            "write_steps"
        ),
        "training": "sparkline training_line training_progress",
    },
)
