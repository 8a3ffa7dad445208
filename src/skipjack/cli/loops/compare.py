"""``skipjack loops compare``: a policy compared with libraries and with TVM."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, PluginOption, check_outputs, examples
from skipjack.cli.loops.evaluate import PolicyOption, evaluation_problems, policy_to_evaluate
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.core import Device, Problem
    from skipjack.learn.loops import LoopGame
    from skipjack.learn.policy import Policy
    from skipjack.report.loops import LibraryComparison
    from skipjack.settings import Settings
    from skipjack.solvers.vendor.tvm import Metaschedule
    from skipjack.tuning import ConfigTimer


# ``skipjack loops compare``: a policy compared with libraries.

EXAMPLES = examples(
    "skipjack loops compare --policy RUN --against numpy,mkl,tvm --size 25",
    "skipjack loops compare matmul:160x224x192 --policy shipped --against numpy --csv out.csv",
)
TVM = "tvm"


def compare(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            help="Problems, such as matmul:128x128x128 (the 25 test shapes of LoopTune)."
        ),
    ] = None,
    policy: PolicyOption = "shipped",
    against: Annotated[
        str, typer.Option(help="Libraries, separated by commas: numpy, cblas, mkl, tvm.")
    ] = "numpy,mkl,tvm",
    dataset: Annotated[str | None, typer.Option(help="A dataset to take problems from.")] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="Use only the first SIZE problems (all).")
    ] = None,
    split: Annotated[str, typer.Option(help="Which part of a dataset: test, train or all.")] = (
        "test"
    ),
    tvm_trials: Annotated[
        int, typer.Option(min=1, help="Number of trials of TVM's MetaSchedule for each problem.")
    ] = 32,
    tvm_python: Annotated[
        Path | None,
        typer.Option(help="A Python that has TVM (SKIPJACK_TVM_PYTHON, or this one)."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Number of threads, also of libraries.")] = 1,
    csv: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Time the schedules that a policy chooses without measuring, against libraries.

    The untuned nest and the first schedule of the analytic order are timed as well. All are timed
    in turns in the same process. TVM tunes each problem first, which takes half a minute or more;
    its kernels are kept in the user directory. Ctrl-C ends with the results so far.
    """
    from skipjack import plugins

    pass
    from skipjack.interrupt import deferred_interrupt
    from skipjack.learn.loops import loop_game
    from skipjack.native import cpu
    from skipjack.report import print_json
    from skipjack.report.loops import comparison_fields, print_comparisons, write_comparisons
    from skipjack.settings import load_settings
    from skipjack.tuning import ConfigTimer

    settings = load_settings(plugins=tuple(plugin) if plugin else None, tvm_python=tvm_python)
    plugins.load(settings.plugins)
    judged = policy_to_evaluate(policy)
    libraries = _libraries(against)
    chosen = evaluation_problems(problems or [], dataset, size, split)
    device = cpu.detect(threads)
    games = {problem: loop_game(problem, device, judged.preset) for problem in chosen}
    check_outputs(csv)
    tvm = TvmLibrary(settings, device, tvm_trials) if TVM in libraries else None
    found: list[LibraryComparison] = []
    with (
        tvm or contextlib.nullcontext(),
        deferred_interrupt() as interrupt,
        ConfigTimer(device, settings) as timer,
    ):
        stand = _ComparisonSetup(timer, device, libraries, tvm, lambda: interrupt.requested)
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
            raise UsageError(f"--against: unknown library {name!r}; choose from {', '.join(known)}")
    return names


@dataclass(frozen=True, slots=True)
class _ComparisonSetup:
    """What a policy is compared with, and how."""

    timer: ConfigTimer
    device: Device
    libraries: list[str]
    tvm: TvmLibrary | None
    stopped: Callable[[], bool]


def _compared(
    problem: Problem, game: LoopGame, policy: Policy, stand: _ComparisonSetup
) -> LibraryComparison:
    from skipjack.learn.loops import loop_solver, loop_space
    from skipjack.learn.policy import planned
    from skipjack.report.loops import LibraryComparison

    notes, missing = {}, {}
    if stand.tvm is not None:  # first, so that all timings follow each other
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


# TVM as a library to compare with: it tunes in its own Python and is then timed here.


class TvmLibrary:
    """Lets TVM tune problems, once for each CPU and number of trials; the kernels are kept.

    Enter it before workers start: they find the kernels through the environment.
    """

    def __init__(self, settings: Settings, device: Device, trials: int) -> None:
        """`UsageError` if a Python is named that has no TVM."""
        from skipjack.solvers.vendor.tvm import find_python

        self._python = find_python(settings.tvm_python)
        self._folder = settings.user_dir / "tvm" / f"{device.arch}-{trials}"
        self._device, self._trials = device, trials
        self._exits = contextlib.ExitStack()
        self._process: Metaschedule | None = None

    def __enter__(self) -> TvmLibrary:
        self._exits.enter_context(_kernels_in(self._folder))
        return self

    def tuned(
        self, problem: Problem, timer: ConfigTimer, stopped: Callable[[], bool]
    ) -> tuple[str, str]:
        """TVM's configuration, and why it has no kernel; one of the two is empty."""
        from skipjack.solvers.vendor.tvm import INSTALL_HINT, TvmSolver

        if reason := TvmSolver().outside(problem, self._device):
            return "", reason
        if self._python is None:
            return "", INSTALL_HINT
        with timer.held_cores() as cores:
            process = self._process = self._process or self._started(self._python, cores[0])
            if process.known(problem) is None:
                typer.echo(f"TVM tunes {problem.key}: {numbered(self._trials, 'trial')}", err=True)
            record = process.tuned(problem, stopped)
        if isinstance(record, str):
            return "", record
        return ("", f"TVM failed on it: {record.error}") if record.error else (record.given, "")

    def _started(self, python: Path, core: int) -> Metaschedule:
        from skipjack.solvers.vendor.tvm import Metaschedule, TuningPlan

        plan = TuningPlan(python, self._folder, self._trials, core)
        return self._exits.enter_context(Metaschedule(plan))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exits.close()


@contextlib.contextmanager
def _kernels_in(folder: Path) -> Iterator[None]:
    """Workers that start within find TVM's kernels in this folder."""
    from skipjack.settings import TVM_KERNELS

    before = TVM_KERNELS.text()
    os.environ[TVM_KERNELS.name] = str(folder)
    try:
        yield
    finally:
        del os.environ[TVM_KERNELS.name]
        if before:
            os.environ[TVM_KERNELS.name] = before
