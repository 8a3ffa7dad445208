"""``skipjack find``: all solvers of problems, ranked."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import (
    DirectionOption,
    DtypeOption,
    JsonOption,
    LayoutOption,
    PlotsOption,
    PluginOption,
    SearcherOption,
    ShapesOption,
    examples,
)
from skipjack.cli.parsing import Work, in_two_steps

if TYPE_CHECKING:
    from skipjack.app import FindRequest

EXAMPLES = examples(
    "skipjack find matmul:256x256x256",
    "skipjack find softmax:4096x1024 --seconds 3 --solver rows --solver numpy",
    "skipjack find conv2d:n16c128h28w28k128y3x3p1q1 --direction wrw",
    "skipjack find -f list.txt --json",
    "skipjack find matmul:256x256x256 --plots pictures --verbose",
)


@in_two_steps
def find(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Problem keys, as matmul:192x192x192, or quoted driver commands."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="A list of keys and driver commands, one a line; - is stdin."
        ),
    ] = None,
    shapes: ShapesOption = None,
    dtype: DtypeOption = None,
    layout: LayoutOption = None,
    direction: DirectionOption = None,
    solver: Annotated[
        list[str] | None, typer.Option(help="Rank these solvers only; may be repeated.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Most configs to try for each problem; every solver gets one."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Most seconds for each problem (10 without --budget).")
    ] = None,
    searcher: SearcherOption = "auto",
    seed: Annotated[
        int, typer.Option(min=0, help="Makes a search repeatable given the same results.")
    ] = 0,
    retune: Annotated[
        bool, typer.Option("--retune", help="Start over instead of continuing.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="The device, as arch/units, or cpu, or gpu.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many threads a kernel may use (1).")
    ] = None,
    json: JsonOption = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Say why each solver that is not ranked is not."),
    ] = False,
    plots: PlotsOption = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a Chrome trace of where the time went.")
    ] = None,
    plugin: PluginOption = None,
) -> Work:
    """Rank all solvers of problems, each with its best config."""
    from skipjack.app import FindRequest, ProblemList
    from skipjack.cli.tune import asked_budget
    from skipjack.tuning import TuneOptions

    given = ProblemList(tuple(problems or ()), file, tuple(shapes or ()), dtype, layout, direction)
    options = TuneOptions(
        budget=asked_budget(budget, seconds), searcher=searcher, seed=seed, retune=retune
    )
    request = FindRequest(given, tuple(solver or ()), device, threads, options, trace)
    return partial(_find, request, tuple(plugin or ()), verbose, plots, json)


def _find(
    request: FindRequest,
    plugins: tuple[str, ...],
    verbose: bool,
    plots: Path | None,
    json: bool,
) -> None:
    from skipjack import app
    from skipjack.report.views import FindView

    if plots:
        from skipjack.report.plots import check_plots

        check_plots(plots)
    with FindView(json, verbose, plots) as view:
        run = app.find(request, view, plugins=plugins)
    if run.interrupted:
        raise KeyboardInterrupt
    if run.failed:
        raise typer.Exit(1)
    if run.in_vain:
        raise typer.Exit(2)
