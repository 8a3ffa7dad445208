"""``skipjack loops compare``: a policy beside libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.loops.game import check_outputs
from skipjack.cli.loops.judging import PolicyOption, judged_policy, judged_problems
from skipjack.cli.options import JsonOption, PluginOption, examples

if TYPE_CHECKING:
    from skipjack.cli.loops.tvm import TvmRival
    from skipjack.core.device import Device
    from skipjack.core.problem import Problem
    from skipjack.learn.loops import LoopGame
    from skipjack.learn.policy import Policy
    from skipjack.report.loops import LibraryComparison
    from skipjack.tuning import ConfigTimer

EXAMPLES = examples(
    "skipjack loops compare --policy RUN --against numpy,mkl,tvm --size 25",
    "skipjack loops compare matmul:160x224x192 --policy shipped --against numpy --csv out.csv",
)
TVM = "tvm"


def compare(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Problems, as matmul:128x128x128 (the 25 test shapes of LoopTune)."),
    ] = None,
    policy: PolicyOption = "shipped",
    against: Annotated[
        str, typer.Option(help="Libraries, joined by commas: numpy, cblas, mkl, tvm.")
    ] = "numpy,mkl,tvm",
    dataset: Annotated[str | None, typer.Option(help="A dataset to take problems from.")] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="How many of the problems, the first ones (all).")
    ] = None,
    split: Annotated[str, typer.Option(help="Which part of a dataset: test, train or all.")] = (
        "test"
    ),
    tvm_trials: Annotated[
        int, typer.Option(min=1, help="What TVM's MetaSchedule may measure for each problem.")
    ] = 32,
    tvm_python: Annotated[
        Path | None,
        typer.Option(help="A Python that has TVM (SKIPJACK_TVM_PYTHON, or this one)."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads, of libraries as well.")] = 1,
    csv: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Time what a policy makes of problems, without a measurement, beside libraries.

    Beside it are the untuned nest and the first schedule of the analytic order. All is timed in
    turns in the same process. TVM tunes a problem first, which takes it half a minute or more; what
    it made is kept in the user directory. Ctrl-C ends with what was timed until then.
    """
    from skipjack import plugins
    from skipjack.cli.loops.tvm import TvmRival
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.learn.loops import loop_game
    from skipjack.native import cpu
    from skipjack.report import print_json
    from skipjack.report.loops import comparison_fields, print_comparisons, write_comparisons
    from skipjack.settings import load_settings
    from skipjack.tuning import ConfigTimer

    settings = load_settings(plugins=tuple(plugin) if plugin else None, tvm_python=tvm_python)
    plugins.load(settings.plugins)
    judged = judged_policy(policy)
    libraries = _libraries(against)
    chosen = judged_problems(problems or [], dataset, size, split)
    device = cpu.detect(threads)
    games = {problem: loop_game(problem, device, judged.preset) for problem in chosen}
    check_outputs(csv)
    tvm = TvmRival(settings, device, tvm_trials) if TVM in libraries else None
    found: list[LibraryComparison] = []
    with (
        tvm or contextlib.nullcontext(),
        watch_for_interrupt() as interrupt,
        ConfigTimer(device, settings) as timer,
    ):
        stand = _Stand(timer, device, libraries, tvm, lambda: interrupt.requested)
        for number, (problem, game) in enumerate(games.items(), 1):
            if interrupt.requested:
                break
            one = _compared(problem, game, judged, stand)
            found.append(one)
            if json:
                print_json("loops compare", comparison_fields(one))
            else:
                typer.echo(f"{number}/{len(chosen)} {problem.key}", err=True)
    if not json:
        print_comparisons(found)
    if csv is not None:
        write_comparisons(found, csv)
    if interrupt.requested:
        raise KeyboardInterrupt


def _libraries(text: str) -> list[str]:
    from skipjack.errors import UsageError

    known = ("numpy", "cblas", "mkl", TVM)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise UsageError(f"--against: no library {name!r}; choose from {', '.join(known)}")
    return names


@dataclass(frozen=True, slots=True)
class _Stand:
    """Whom a policy is timed beside, and how."""

    timer: ConfigTimer
    device: Device
    libraries: list[str]
    tvm: TvmRival | None
    stopped: Callable[[], bool]


def _compared(problem: Problem, game: LoopGame, policy: Policy, stand: _Stand) -> LibraryComparison:
    from skipjack.learn.loops import loop_solver, loop_space
    from skipjack.learn.policy import planned
    from skipjack.report.loops import LibraryComparison

    notes, missing = {}, {}
    if stand.tvm is not None:  # first: what is timed here is timed in one go
        given, reason = stand.tvm.tuned(problem, stand.timer, stand.stopped)
        if reason:
            missing[TVM] = reason
        else:
            notes[TVM] = given
    space = loop_space(problem, stand.device)
    (played,) = planned(policy, game)
    configs = {
        "policy": space.config(played.schedule),
        "first proposal": space.promising(1)[0],
        "untuned": space.config(game.built(game.start())),
    }
    times = stand.timer.evaluate(problem, list(configs.values()), loop_solver(problem).name)
    times_ns = {name: ns for name, ns in zip(configs, times, strict=True) if ns < float("inf")}
    missing |= {name: "it could not be run" for name in configs if name not in times_ns}
    there = [name for name in stand.libraries if name not in missing]
    for name, took in stand.timer.libraries(problem, there).items():
        if isinstance(took, str):
            missing[name] = took
        else:
            times_ns[name] = took
    names = tuple(game.actions[action] for action in played.actions)
    return LibraryComparison(problem.key, times_ns, missing, played.schedule.text(), names, notes)
