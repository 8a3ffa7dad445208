"""``skipjack report``: a result file of a program as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skipjack.cli.options import examples

EXAMPLES = examples(
    "skipjack report tune_result_20261116_101500_pid4242.json",
    "skipjack report tune_result_20261116_101500_pid4242.json --all",
)
_ROWS = 30


def show_report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="What programs wrote: tune_result_TIME_pidPID.json."
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help=f"All operations, not the first {_ROWS}.")
    ] = False,
) -> None:
    """Show what became of a program's operations.

    Those whose calls take longest come first.
    """
    from skipjack.errors import StorageError
    from skipjack.integrations.torch import read_result
    from skipjack.report.views import render_program_result

    for file in files:
        try:
            result = read_result(file)
        except OSError as error:
            raise StorageError(f"cannot read {file}: {error.strerror or error}") from None
        render_program_result(result, None if every else _ROWS)
