"""What the speed of a schedule is: measured now, replayed from a table, or estimated."""

from skipjack.learn.rates.table import (
    LoopTable,
    TableHeader,
    join_tables,
    problem_line,
    read_table,
    table_files,
    write_table,
)

__all__ = [
    "LoopTable",
    "TableHeader",
    "join_tables",
    "problem_line",
    "read_table",
    "table_files",
    "write_table",
]
