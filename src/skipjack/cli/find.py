"""``skipjack find``: all solvers of problems, ranked."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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

if TYPE_CHECKING:
    from skipjack.core.device import Device
    from skipjack.interop import Entry, NotApplicable
    from skipjack.tuning import FindResult, TuneOptions, Tuner
    from skipjack.tuning.options import Observer

EXAMPLES = examples(
    "skipjack find matmul:256x256x256",
    "skipjack find softmax:4096x1024 --seconds 3 --solver rows --solver numpy",
    "skipjack find conv2d:n16c128h28w28k128y3x3p1q1 --direction wrw",
    "skipjack find -f list.txt --json",
    "skipjack find matmul:256x256x256 --plots pictures --verbose",
)


class _Output(NamedTuple):
    """How results are told."""

    json: bool
    verbose: bool
    plots: Path | None


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
) -> None:
    """Rank all solvers of problems, each with its best config."""
    from skipjack import plugins
    from skipjack.cli.problems import make_defaults, read_problems
    from skipjack.cli.tune import check_trace, say
    from skipjack.search import check_name
    from skipjack.settings import load_settings
    from skipjack.solvers import find_solver
    from skipjack.tuning import TuneOptions, Tuner, make_budget

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    entries = read_problems(problems or [], file, make_defaults(dtype, layout, direction), shapes)
    tuner = Tuner(settings, _device(device, threads, entries), say=say)
    options = TuneOptions(
        budget=make_budget(budget, seconds, tuner.limits.find_seconds),
        searcher=check_name(searcher),
        seed=seed,
        retune=retune,
    )
    only = tuple(find_solver(name).name for name in solver or [])
    check_trace(trace)
    if plots:
        from skipjack.report.plots import check_plots

        check_plots(plots)
    try:
        results = _find_all(tuner, entries, options, only, _Output(json, verbose, plots))
    finally:
        if trace:
            tuner.context.tracer.write(trace)
    if any(result.interrupted for result in results):
        raise KeyboardInterrupt
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)
    if results and all(result.status == "not_applicable" for result in results):
        raise typer.Exit(2)


def _device(text: str | None, threads: int | None, entries: list[Entry]) -> Device:
    """Of a list, what is for GPUs alone is not applicable on a CPU; others go on."""
    from skipjack.cli.tune import choose_device
    from skipjack.devices import find_device
    from skipjack.runtime import NoGpuError

    try:
        return choose_device(text, threads, entries)
    except NoGpuError:
        if len(entries) == 1:
            raise
        return find_device(text, threads)


def _find_all(
    tuner: Tuner,
    entries: list[Entry],
    options: TuneOptions,
    only: tuple[str, ...],
    output: _Output,
) -> list[FindResult]:
    """One problem after the other; each is printed as soon as it is done."""
    from contextlib import ExitStack
    from dataclasses import replace

    from skipjack.core.problem import Problem
    from skipjack.interrupt import Interrupted
    from skipjack.report.progress import progress_bars

    results: list[FindResult] = []
    with ExitStack() as running:
        for number, entry in enumerate(entries, 1):
            problem = _fitting(entry, tuner, alone=len(entries) == 1)
            if not isinstance(problem, Problem):
                _print_not_applicable(problem, tuner, output.json)
                continue
            if not results:
                running.enter_context(tuner)  # workers start where something is to be run
            label = f"[{number}/{len(entries)}] {problem.key}" if len(entries) > 1 else problem.key
            with progress_bars(1, enabled=not output.json) as observe:
                watched = replace(options, observer=_labelled(observe, label))
                try:
                    results.append(tuner.find(problem, watched, only))
                except Interrupted as stopped:
                    results.append(stopped.result)
            _print(results[-1], output)
            if results[-1].interrupted:
                break
    return results


def _labelled(observe: Observer, label: str) -> Observer:
    """An observer that calls the problem so."""
    from dataclasses import replace

    return lambda standing: observe(replace(standing, problem=label))


def _fitting(entry: Entry, tuner: Tuner, *, alone: bool) -> Entry:
    """Of a list, a problem that is too large for this machine is not applicable; others go on."""
    from skipjack.core.problem import Problem
    from skipjack.errors import ProblemError
    from skipjack.interop import NotApplicable
    from skipjack.tuning.study_run import check_memory

    if isinstance(entry, Problem):
        try:
            memory_bytes = tuner.context.device.memory_bytes
            check_memory(entry, memory_bytes, tuner.limits.memory_share)
        except ProblemError as error:
            if alone:
                raise
            return NotApplicable(entry.key, str(error))
    return entry


def _print(result: FindResult, output: _Output) -> None:
    if output.json:
        typer.echo(dumps(result.to_json()))
    else:
        from skipjack.report.find import print_find

        print_find(result, verbose=output.verbose)
    if output.plots:
        from skipjack.report.plots import write_find_plots

        write_find_plots(result, output.plots)


def _print_not_applicable(entry: NotApplicable, tuner: Tuner, json: bool) -> None:
    if json:
        typer.echo(dumps({**entry.to_json(), "device": tuner.context.device.name, "solvers": []}))
        return
    from skipjack.report.find import print_not_applicable

    print_not_applicable(entry.text, entry.reason)
