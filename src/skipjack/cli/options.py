"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

DtypeOption = Annotated[
    str | None, typer.Option(help="Element type where a key does not say it: f32 or f64.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines for machines.")]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(help="A module or .py file that registers operations, solvers or searchers."),
]
ProblemArgument = Annotated[str, typer.Argument(help="A problem key, as matmul:192x192x192.")]
