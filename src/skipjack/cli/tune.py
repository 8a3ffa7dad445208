"""``skipjack tune``: find the fastest config of problems, here and now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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

if TYPE_CHECKING:
    from skipjack.cli.problems import Placement
    from skipjack.core.device import Device
    from skipjack.core.problem import Problem
    from skipjack.interop import Entry
    from skipjack.tuning import Limits, TuneOptions, Tuner, TuneResult

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
) -> None:
    """Find the fastest way to compute problems, and remember it.

    They are run on this machine; the bank remembers what is confirmed.
    """
    from skipjack import plugins
    from skipjack.cli.dumps import DumpRequest, are_dumps, read_dumps, use_autotune_variables
    from skipjack.cli.problems import Placement, applicable, make_defaults, read_placed
    from skipjack.core.protocol import deployed_protocol
    from skipjack.errors import UsageError
    from skipjack.search import check_name
    from skipjack.settings import load_settings
    from skipjack.solvers import read_pins
    from skipjack.tuning import Builder, BuildOptions, Limits, TuneOptions, Tuner, make_budget
    from skipjack.tuning.build_only import DEFAULT_CONFIGS

    is_dump = are_dumps(problems or [], file, shapes, dtype, layout, direction)
    if is_dump and use_autotune_variables(say) and not build_only:
        retune = True
    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    left_out, named = False, make_defaults(dtype, layout, direction)
    if is_dump:
        at_once = DumpRequest(Placement(device, threads, deployed, caches), solver, retune)
        placed, left_out = read_dumps(problems or [], settings, at_once, build_only, say)
    else:
        placed = read_placed(problems or [], file, named, shapes)
    # What is given here outranks what a file says.
    if device is not None or threads is not None:
        placed = _regrouped(placed, lambda one: one._replace(device=device, threads=threads))
    if deployed is not None:
        placed = _regrouped(placed, lambda one: one._replace(deployed=deployed))
    if caches is not None:
        placed = _regrouped(placed, lambda one: one._replace(caches=caches))
    if build_only:
        from skipjack.cli.build_only import build_problems

        unused: dict[str, object] = {"--seconds": seconds, "--searcher": searcher != "auto"}
        unused |= {"--retune": retune, "--trace": trace, "--plots": plots}
        unused |= {"--set": pinned or None, "--deployed": deployed, "--caches": caches}
        _refuse(unused, "with --build-only, which times nothing")
        chosen = BuildOptions(DEFAULT_CONFIGS if budget is None else budget, solver, seed)
        placed = _regrouped(placed, lambda one: Placement(one.device, one.threads))
        for at, entries in placed.items():
            target = choose_device(at.device, at.threads, entries, build_only=True)
            builder = Builder(target, settings)
            asked = applicable(entries, json)
            if asked:
                build_problems(builder, asked, chosen, output, json)
        finish([], left_out)
        return
    _refuse({"--output": output}, "without --build-only, which alone writes object files")
    if trace and len(placed) > 1:
        raise UsageError(
            "--trace is of one device and deployment, and the file names several; name one"
        )
    tuners = []
    placed = _without_stranded(placed)
    for at, entries in placed.items():
        here = choose_device(at.device, at.threads, entries)
        protocol = deployed_protocol(here, at.deployed, at.caches)
        tuners.append((Tuner(settings, here, say, protocol), entries))
    options = TuneOptions(
        budget=make_budget(budget, seconds, Limits.of(settings).tune_seconds),
        searcher=check_name(searcher),
        seed=seed,
        solver=solver,
        retune=retune,
        pinned=read_pins(pinned or ()),
    )
    for tuner, entries in tuners:
        _check(tuner, entries, options, trace)
    if plots:
        from skipjack.report.plots import check_plots, write_tune_plots

        check_plots(plots)
    work = [(tuner, asked) for tuner, entries in tuners if (asked := applicable(entries, json))]
    results: list[TuneResult] = []
    try:
        for tuner, asked in work:
            with tuner:
                each(tuner.tune, asked, options, results, json)
            if results and results[-1].interrupted:
                break
    finally:
        # What is known is shown, also if the next problem was one too many.
        show_results(results, json)
        if trace and work:
            tuners[0][0].context.tracer.write(trace)
        if plots:
            for result in results:
                write_tune_plots(result, plots)
    finish(results, left_out)


def _without_stranded(placed: Mapping[Placement, list[Entry]]) -> dict[Placement, list[Entry]]:
    """Of a list, a problem that is for GPUs alone is not applicable where there is none."""
    from skipjack.core.problem import Problem
    from skipjack.errors import UsageError
    from skipjack.interop import NotApplicable
    from skipjack.runtime import NoGpuError, place

    if sum(map(len, placed.values())) < 2:
        return dict(placed)
    found: dict[Placement, list[Entry]] = {}
    for at, entries in placed.items():
        kept = found.setdefault(at, [])
        for entry in entries:
            try:
                if isinstance(entry, Problem):
                    place([entry], at.device, at.threads)
                kept.append(entry)
            except NoGpuError as error:
                kept.append(NotApplicable(str(entry), str(error)))
            except UsageError:
                kept.append(entry)  # whoever chooses the device says what is wrong
    return found


def _regrouped(
    placed: Mapping[Placement, Iterable[Entry]], change: Callable[[Placement], Placement]
) -> dict[Placement, list[Entry]]:
    """The same entries by changed placements, each once."""
    found: dict[Placement, dict[Entry, None]] = {}
    for at, entries in placed.items():
        found.setdefault(change(at), {}).update(dict.fromkeys(entries))
    return {at: list(entries) for at, entries in found.items()}


def show_results(results: Sequence[TuneResult], json: bool) -> None:
    if results and not json:
        from skipjack.report.table import print_results

        print_results(results)


def finish(results: Sequence[TuneResult], left_out: bool = False) -> None:
    if any(result.interrupted for result in results):
        raise KeyboardInterrupt
    if left_out or any(result.status == "failed" for result in results):
        raise typer.Exit(1)


def _check(tuner: Tuner, entries: list[Entry], options: TuneOptions, trace: Path | None) -> None:
    """Refuse what cannot work before anything is started."""
    from skipjack.core.problem import Problem
    from skipjack.solvers import pinned_solvers

    for problem in entries:
        if isinstance(problem, Problem):
            check_problem(problem, tuner.context.device, tuner.limits, options.solver)
            pinned_solvers(problem, tuner.context.device, options.pins, options.solver)
    check_trace(trace)


def check_problem(problem: Problem, device: Device, limits: Limits, solver: str | None) -> None:
    """Refuse a problem that a device cannot compute, or whose arrays it has no room for."""
    from skipjack.solvers import solver_for
    from skipjack.tuning.study_run import check_memory

    check_memory(problem, device.memory_bytes, limits.memory_share)
    solver_for(problem, device, solver)


def check_trace(trace: Path | None) -> None:
    """Refuse a trace that could not be written in the end."""
    from skipjack.errors import UsageError

    if trace and not trace.absolute().parent.is_dir():
        raise UsageError(f"cannot write {trace}: there is no directory {trace.absolute().parent}")


def _refuse(options: Mapping[str, object], why: str) -> None:
    """One sentence about an option that was given in vain."""
    from skipjack.errors import UsageError

    for name, value in options.items():
        if value not in (None, False):
            raise UsageError(f"{name} says nothing {why}; leave it out")


def choose_device(
    text: str | None, threads: int | None, entries: Iterable[Entry], *, build_only: bool = False
) -> Device:
    """A device that is here; where nothing runs, any that can be built for."""
    from dataclasses import replace

    from skipjack.core.problem import Problem
    from skipjack.devices import NotHereError, check_threads, describe
    from skipjack.native import cpu
    from skipjack.runtime import NoGpuError, place

    problems = [entry for entry in entries if isinstance(entry, Problem)]
    if not build_only or text == "gpu":
        try:
            return place(problems, text, threads)
        except NoGpuError as error:
            raise NoGpuError(f"{error}; {_elsewhere()}") from None
        except NotHereError as error:
            how = "skipjack tune --build-only builds for it without running"
            raise NotHereError(f"{error}; {how}") from None
    if text is None or text == "cpu":
        device = replace(cpu.detect(), units=threads or 1)
        _check_buildable(problems, device)
        return device
    check_threads(text, threads)
    return describe(text)


def _elsewhere() -> str:
    """What to do where the right GPU is missing."""
    from skipjack.gpu.opening import find_gpus
    from skipjack.solvers import EXAMPLE_GPUS

    if find_gpus():
        return "leave --threads out, and add --device gpu"
    return (
        f"tune --build-only with --device {' or '.join(EXAMPLE_GPUS)} builds it without running; "
        "skipjack doctor says why no GPU is found"
    )


def _check_buildable(problems: Sequence[Problem], device: Device) -> None:
    from skipjack.errors import UsageError
    from skipjack.solvers import EXAMPLE_GPUS, for_gpus_alone, refusal_of_all

    for problem in problems:
        if for_gpus_alone(problem, device):
            raise UsageError(
                f"{refusal_of_all(problem, device)}; name one with --device, as "
                f"{' or '.join(EXAMPLE_GPUS)}"
            )


def each(
    work: Callable[[Problem, TuneOptions], TuneResult],
    problems: list[Problem],
    options: TuneOptions,
    results: list[TuneResult],
    json: bool,
) -> None:
    """One after the other; each result is in `results`, and printed for machines, at once."""
    from skipjack.interrupt import Interrupted
    from skipjack.report.progress import progress_bars

    with progress_bars(len(problems), enabled=not json) as observe:
        from dataclasses import replace

        watched = replace(options, observer=observe)
        for problem in problems:
            try:
                result = work(problem, watched)
            except Interrupted as stopped:
                result = stopped.result
            results.append(result)
            if json:
                from json import dumps

                typer.echo(dumps(result.to_json()))
            if result.interrupted:
                break


def say(sentence: str) -> None:
    """Tell a person what there is to wait for."""
    typer.echo(f"skipjack: {sentence}", err=True)
