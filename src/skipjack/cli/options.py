"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DtypeOption = Annotated[
    str | None,
    typer.Option(
        help="Element type where a key does not say it: f32 or f64; on GPUs f16, bf16, tf32, "
        "f8e4m3 or f8e5m2, too."
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(help="Layout where a key does not say it: NCHW or NHWC, NCDHW or NDHWC."),
]
DirectionOption = Annotated[
    str | None,
    typer.Option(help="Direction where a key does not say it: fwd, bwd, wrw, or all of them."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON lines for machines.")]
PlotsOption = Annotated[
    Path | None,
    typer.Option(help="Write plots of the result here, as SVG; they need skipjack[plots]."),
]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(help="A module or .py file that registers operations, solvers or searchers."),
]
SearcherOption = Annotated[
    str,
    typer.Option(
        help="Who decides what to try: auto, exhaustive, random, hill_climbing, "
        "simulated_annealing, genetic, policy or a plug-in's; genetic:population=30 sets a "
        "parameter."
    ),
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option("--shapes", help="Of a kernel of your own, as 4096x1024; repeat for more."),
]
ProblemArgument = Annotated[str, typer.Argument(help="A problem key, as matmul:192x192x192.")]


def examples(*lines: str) -> str:
    """The end of a command's help: one example a line."""
    # The control character keeps the help formatter from folding the lines into a paragraph.
    head = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", head, *(f"  {line}" for line in lines)])


def device_name(text: str | None) -> str | None:
    """The name of the device that was given, if one was: ``cpu`` and ``gpu`` are this machine's."""
    if text is None:
        return None
    from skipjack.devices import name_of  # it loads the drivers

    return name_of(text)
