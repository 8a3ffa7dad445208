"""What pages and reports read: tables page by page, counts over time, and searches."""

__all__ = [
    "errors",
    "job_rows",
    "problem_rows",
    "progress",
    "repository",
    "row_page",
    "searches",
    "totals",
    "use",
]
