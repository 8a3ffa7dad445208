"""``skipjack tune``: find the fastest config of problems, here and now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    from skipjack.app import BuildRequest, BuildRun, TuneRequest, TuneRun
    from skipjack.core.study import Budget

EXAMPLES = examples(
    "skipjack tune matmul:192x192x192",
    "skipjack tune add:1024x1024 sum:4096x1024/axis=1 --seconds 5",
    "skipjack tune matmul:256x256x256 --budget 64 --searcher genetic --seed 7 --json",
    "skipjack tune -f problems.txt --retune",
    "skipjack tune conv2d:n1c64h56w56k64y3x3p1q1 --layout NHWC --direction all",
    "skipjack tune 'MIOpenDriver conv -n 1 -c 64 -H 56 -W 56 -k 64 -p 1 -q 1 -F 1'",
    "skipjack tune matmul:4096x4096x4096 --dtype f16",
    "skipjack tune add:4096 --deployed eager --caches cold",
    "skipjack tune layernorm:4096x1024 --set program=two_pass",
    "skipjack tune matmul:512x512x512 --device haswell/1 --build-only -o objects",
    "skipjack tune matmul:512x512x512 --dtype f16 --device sm_90/132 --build-only --json",
    "skipjack tune examples/triton/my_softmax.py::softmax --shapes 4096x1024",
    "skipjack tune ./dump --seconds 10",
    "skipjack tune softmax:4096x1024 --plots pictures",
)


@in_two_steps
def tune(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            help="Problem keys, as matmul:192x192x192; quoted driver commands; kernels of your "
            "own, as file.py::softmax; or directories that ENABLE_TUNE_DUMP=True wrote."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help="A list of keys and of commands of drivers or of ours, one a line; - is stdin.",
        ),
    ] = None,
    shapes: ShapesOption = None,
    dtype: DtypeOption = None,
    layout: LayoutOption = None,
    direction: DirectionOption = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Most configs to try for each problem (16 with --build-only)."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Most seconds for each problem (5 without --budget).")
    ] = None,
    searcher: SearcherOption = "auto",
    seed: Annotated[
        int, typer.Option(min=0, help="Makes a search repeatable given the same results.")
    ] = 0,
    solver: Annotated[
        str | None, typer.Option(help="How to build: nest, packed, rows, triton_matmul ...")
    ] = None,
    pinned: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Try only configs with this setting, as program=two_pass; may be repeated.",
        ),
    ] = None,
    retune: Annotated[
        bool, typer.Option("--retune", help="Start over instead of continuing.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            help="The device, as arch/units, or cpu, or gpu; with --build-only it need not be here."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many threads a kernel may use (1).")
    ] = None,
    deployed: Annotated[
        str | None,
        typer.Option(
            help="How programs call it: native (CPUs) or graph (GPUs), without the host's cost, "
            "or eager, with it."
        ),
    ] = None,
    caches: Annotated[
        str | None,
        typer.Option(help="Whether caches hold its arrays: hot (as CPUs have it) or cold (GPUs)."),
    ] = None,
    build_only: Annotated[
        bool,
        typer.Option("--build-only", help="Build the most promising configs and run nothing."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where --build-only writes object files, too."),
    ] = None,
    json: JsonOption = False,
    plots: PlotsOption = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a Chrome trace of where the time went.")
    ] = None,
    plugin: PluginOption = None,
) -> Work:
    """Find the fastest way to compute problems, and remember it.

    They are run on this machine; the bank remembers what is confirmed.
    """
    from skipjack.app import BuildRequest, Placement, ProblemList, TuneRequest
    from skipjack.solvers import read_pins
    from skipjack.tuning import BuildOptions, TuneOptions

    given, more = tuple(problems or ()), tuple(plugin or ())
    asked = ProblemList(given, file, tuple(shapes or ()), dtype, layout, direction)
    if build_only:
        unused: dict[str, object] = {"--seconds": seconds, "--searcher": searcher != "auto"}
        unused |= {"--retune": retune, "--trace": trace, "--plots": plots}
        unused |= {"--set": pinned or None, "--deployed": deployed, "--caches": caches}
        _refuse(unused, "with --build-only, which times nothing")
        build_options = BuildOptions(solver=solver, seed=seed)
        if budget is not None:
            build_options = replace(build_options, configs=budget)
        to_build = BuildRequest(asked, device, threads, build_options, output)
        return partial(_build, to_build, more, json)
    _refuse({"--output": output}, "without --build-only, which alone writes object files")
    options = TuneOptions(
        budget=asked_budget(budget, seconds),
        searcher=searcher,
        seed=seed,
        solver=solver,
        retune=retune,
        pinned=read_pins(pinned or ()),
    )
    request = TuneRequest(asked, Placement(device, threads, deployed, caches), options, trace)
    return partial(_tune, request, more, plots, json)


def _build(request: BuildRequest, plugins: tuple[str, ...], json: bool) -> None:
    from skipjack.app import build
    from skipjack.cli.dumps import use_autotune_variables
    from skipjack.report import warn
    from skipjack.report.views import BuildView

    if request.problems.are_dumps:
        use_autotune_variables(warn)
    with BuildView(json) as view:
        run = build(request, view, plugins=plugins)
    finish(run)


def _tune(request: TuneRequest, plugins: tuple[str, ...], plots: Path | None, json: bool) -> None:
    from skipjack import app
    from skipjack.cli.dumps import use_autotune_variables
    from skipjack.report import warn
    from skipjack.report.views import TuneView

    if request.problems.are_dumps and use_autotune_variables(warn):
        request = replace(request, options=replace(request.options, retune=True))
    if plots:
        from skipjack.report.plots import check_plots

        check_plots(plots)
    with TuneView(json, plots) as view:
        run = app.tune(request, view, plugins=plugins)
    finish(run)


def asked_budget(trials: int | None, seconds: float | None) -> Budget | None:
    """None if neither was given: the settings say how long a search is then."""
    from skipjack.core.study import Budget

    return None if trials is None and seconds is None else Budget(trials, seconds)


def finish(run: TuneRun | BuildRun) -> None:
    """Say by the exit code whether all was done."""
    if run.interrupted:
        raise KeyboardInterrupt
    if run.incomplete:
        raise typer.Exit(1)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """One sentence about an option that was given in vain."""
    from skipjack.errors import UsageError

    for name, value in options.items():
        if value not in (None, False):
            raise UsageError(f"{name} says nothing {why}; leave it out")
