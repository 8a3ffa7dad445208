"""``skipjack tune`` and ``skipjack find``: the best config, and all solvers ranked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    DirectionOption,
    DtypeOption,
    JsonOption,
    LayoutOption,
    PlotsOption,
    PluginOption,
    SearcherOption,
    ShapesOption,
    Work,
    examples,
    in_two_steps,
)

if TYPE_CHECKING:
    from skipjack.app import BuildRequest, BuildRun, FindRequest, TuneRequest, TuneRun
    from skipjack.core import Budget


# ``skipjack tune``: find the fastest config of problems on this machine.

TUNE_EXAMPLES = examples(
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
            help="Problem keys, such as matmul:192x192x192; quoted driver commands; kernels of "
            "your own, such as file.py::softmax; or directories that ENABLE_TUNE_DUMP=True wrote."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help="A file with a key, a driver command or a command of Skipjack on each line; "
            "- for stdin.",
        ),
    ] = None,
    shapes: ShapesOption = None,
    dtype: DtypeOption = None,
    layout: LayoutOption = None,
    direction: DirectionOption = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Maximum number of configs for each problem (16 with --build-only)."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Time limit for each problem, in seconds (5 without --budget)."),
    ] = None,
    searcher: SearcherOption = "auto",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed: with the same results, the search is the same.")
    ] = 0,
    solver: Annotated[
        str | None, typer.Option(help="The solver to use: nest, packed, rows, triton_matmul ...")
    ] = None,
    pinned: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Try only configs with this setting, such as program=two_pass; repeatable.",
        ),
    ] = None,
    retune: Annotated[
        bool, typer.Option("--retune", help="Start over instead of continuing.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            help="The device: arch/units, cpu or gpu; with --build-only, any known device."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many threads a kernel may use (1).")
    ] = None,
    deployed: Annotated[
        str | None,
        typer.Option(
            help="How programs call the kernel: native (CPUs) or graph (GPUs), which exclude the "
            "host's overhead, or eager, which includes it."
        ),
    ] = None,
    caches: Annotated[
        str | None,
        typer.Option(
            help="Whether the arrays are in the caches: hot (default on CPUs) or cold (on GPUs)."
        ),
    ] = None,
    build_only: Annotated[
        bool,
        typer.Option("--build-only", help="Build the most promising configs, and run nothing."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="With --build-only: also write object files to this folder."
        ),
    ] = None,
    json: JsonOption = False,
    plots: PlotsOption = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a Chrome trace of where the time went.")
    ] = None,
    plugin: PluginOption = None,
) -> Work:
    """Find the fastest way to compute problems, and remember it.

    Kernels are timed on this machine; confirmed results are kept in the bank.
    """
    from skipjack.app import BuildRequest, Placement, ProblemList, TuneRequest
    from skipjack.solvers import read_pins
    from skipjack.tuning import BuildOptions
    from skipjack.tuning.study import TuneOptions

    given, more = tuple(problems or ()), tuple(plugin or ())
    requested = ProblemList(given, file, tuple(shapes or ()), dtype, layout, direction)
    if build_only:
        unused: dict[str, object] = {"--seconds": seconds, "--searcher": searcher != "auto"}
        unused |= {"--retune": retune, "--trace": trace, "--plots": plots}
        unused |= {"--set": pinned or None, "--deployed": deployed, "--caches": caches}
        _refuse_options(unused, "with --build-only, which times nothing")
        build_options = BuildOptions(solver=solver, seed=seed)
        if budget is not None:
            build_options = replace(build_options, configs=budget)
        to_build = BuildRequest(requested, device, threads, build_options, output)
        return partial(_build, to_build, more, json)
    _refuse_options({"--output": output}, "without --build-only, which alone writes object files")
    options = TuneOptions(
        budget=requested_budget(budget, seconds),
        searcher=searcher,
        seed=seed,
        solver=solver,
        retune=retune,
        pinned=read_pins(pinned or ()),
    )
    request = TuneRequest(requested, Placement(device, threads, deployed, caches), options, trace)
    return partial(_tune, request, more, plots, json)


def _build(request: BuildRequest, plugins: tuple[str, ...], json: bool) -> None:
    from skipjack.app import build

    pass
    from skipjack.report import warn
    from skipjack.report.tuning import BuildView

    if request.problems.are_dumps:
        use_autotune_variables(warn)
    with BuildView(json) as view:
        run = build(request, view, plugins=plugins)
    finish(run)


def _tune(request: TuneRequest, plugins: tuple[str, ...], plots: Path | None, json: bool) -> None:
    from skipjack import app

    pass
    from skipjack.report import warn
    from skipjack.report.tuning import TuneView

    if request.problems.are_dumps and use_autotune_variables(warn):
        request = replace(request, options=replace(request.options, retune=True))
    if plots:
        from skipjack.report.tuning import check_plots

        check_plots(plots)
    with TuneView(json, plots) as view:
        run = app.tune(request, view, plugins=plugins)
    finish(run)


def requested_budget(trials: int | None, seconds: float | None) -> Budget | None:
    """None if neither is given: the settings then limit the search."""
    from skipjack.core import Budget

    return None if trials is None and seconds is None else Budget(trials, seconds)


def finish(run: TuneRun | BuildRun) -> None:
    """Set the exit code: 1 if something was left undone."""
    if run.interrupted:
        raise KeyboardInterrupt
    if run.incomplete:
        raise typer.Exit(1)


def _refuse_options(options: Mapping[str, object], why: str) -> None:
    """`UsageError` for an option that has no effect here."""
    from skipjack.errors import UsageError

    for name, value in options.items():
        if value not in (None, False):
            raise UsageError(f"{name} has no effect {why}; leave it out")


# ``skipjack find``: all solvers of problems, ranked.

FIND_EXAMPLES = examples(
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
        typer.Argument(help="Problem keys, such as matmul:192x192x192, or quoted driver commands."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="A file with a key or driver command on each line; - for stdin."
        ),
    ] = None,
    shapes: ShapesOption = None,
    dtype: DtypeOption = None,
    layout: LayoutOption = None,
    direction: DirectionOption = None,
    solver: Annotated[
        list[str] | None, typer.Option(help="Rank only this solver; repeatable.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of configs for each problem; each solver tries at least one."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Time limit for each problem, in seconds (10 without --budget)."),
    ] = None,
    searcher: SearcherOption = "auto",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed: with the same results, the search is the same.")
    ] = 0,
    retune: Annotated[
        bool, typer.Option("--retune", help="Start over instead of continuing.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="The device: arch/units, cpu or gpu.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many threads a kernel may use (1).")
    ] = None,
    json: JsonOption = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Say why each of the other solvers is not ranked."),
    ] = False,
    plots: PlotsOption = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a Chrome trace of where the time went.")
    ] = None,
    plugin: PluginOption = None,
) -> Work:
    """Rank all solvers of problems, each with its best config."""
    from skipjack.app import FindRequest, ProblemList

    pass
    from skipjack.tuning.study import TuneOptions

    given = ProblemList(tuple(problems or ()), file, tuple(shapes or ()), dtype, layout, direction)
    options = TuneOptions(
        budget=requested_budget(budget, seconds), searcher=searcher, seed=seed, retune=retune
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
    from skipjack.report.tuning import FindView

    if plots:
        from skipjack.report.tuning import check_plots

        check_plots(plots)
    with FindView(json, verbose, plots) as view:
        run = app.find(request, view, plugins=plugins)
    if run.interrupted:
        raise KeyboardInterrupt
    if run.failed:
        raise typer.Exit(1)
    if run.none_applicable:
        raise typer.Exit(2)


# Variables of MindSpore's AutoTune, which apply to ``skipjack tune DIR`` as to the program.


def use_autotune_variables(say: Callable[[str], None]) -> bool:
    """Apply AutoTune's variables to this command, as they applied to the program.

    Returns whether they ask to tune problems again that banks know.
    """
    from skipjack.integrations.mindspore import read_variables

    theirs = read_variables(os.environ)
    theirs.put_into(os.environ, say)
    return theirs.policy("incremental") == "exhaustive"
