"""Reports on the game of loops: tables, CSV, plots and graphs of searches."""

from skipjack.report.loops.comparisons import (
    LibraryComparison,
    comparison_fields,
    print_comparisons,
    write_comparisons,
)
from skipjack.report.loops.search_graph import graph_text, search_graphs, write_graphs
from skipjack.report.loops.search_plots import search_plots, write_search_plots, write_search_report
from skipjack.report.loops.search_steps import COLUMNS, steps_text, write_steps
from skipjack.report.loops.search_summary import SearchSummary, summarize_searches
from skipjack.report.loops.search_table import print_searches, run_line, run_record
from skipjack.report.loops.training import sparkline, training_line, training_progress
from skipjack.report.numbers import rate_text

__all__ = [
    "COLUMNS",
    "LibraryComparison",
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
