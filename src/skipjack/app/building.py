"""``tune --build-only``: object files for a device that may be elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.app.configuring import configured
from skipjack.app.dumps import DumpRequest
from skipjack.app.events import BatchBegun, WorkObserver, applicable, ignore, notices
from skipjack.app.one_by_one import each_of, finished
from skipjack.app.placing import choose_device
from skipjack.app.problem_lists import Placement, ProblemList, regrouped
from skipjack.app.tuning import place_problems
from skipjack.core.problem import Problem
from skipjack.interop import NotApplicable
from skipjack.settings import Settings
from skipjack.solvers import solver_for
from skipjack.storage import output_directory
from skipjack.tuning import Builder, BuildOptions, BuildResult, write_objects


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What is built, and for which device."""

    problems: ProblemList
    device: str | None = None
    """As ``haswell/1``; None: this machine's."""
    threads: int | None = None
    options: BuildOptions = field(default_factory=BuildOptions)
    """Its observer is not used: events go to that of `build`."""
    output: Path | None = None
    """Where object files are written besides the user directory."""


@dataclass(frozen=True, slots=True)
class BuildRun:
    """What was built, one problem after the other."""

    results: tuple[BuildResult, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    left_out: bool = False
    """Whether something of a dump could not be built."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it before all was done."""
        return any(result.interrupted for result in self.results)

    @property
    def incomplete(self) -> bool:
        """Whether nothing was built of a problem, or one was left out."""
        return self.left_out or not all(result.built for result in self.results)


def build(
    request: BuildRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
    plugins: tuple[str, ...] = (),
) -> BuildRun:
    """Build the most promising configs of each problem and run nothing.

    `observe` is told as that of `tune` is.
    """
    chosen = configured(settings, plugins)
    asked_for = DumpRequest(Placement(request.device, request.threads), request.options.solver)
    placed, left_out = place_problems(
        request.problems, asked_for, chosen, notices(observe), build_only=True
    )
    work: list[tuple[Builder, list[Problem]]] = []
    others: list[NotApplicable] = []
    # How it would be timed does not matter to a build.
    for at, entries in regrouped(placed, lambda one: Placement(one.device, one.threads)).items():
        target = choose_device(at.device, at.threads, entries, build_only=True)
        problems, not_applicable = applicable(entries, observe)
        others += not_applicable
        for problem in problems:  # what cannot work is refused before anything is started
            solver_for(problem, target, request.options.solver)
        if problems:
            work.append((Builder(target, chosen), problems))
    if request.output is not None and work:
        output_directory(request.output)
    results: list[BuildResult] = []
    for builder, problems in work:
        with builder:
            results += _build_each(builder, problems, request, observe)
        if results[-1].interrupted:
            break
    return BuildRun(tuple(results), tuple(others), left_out)


def _build_each(
    builder: Builder, problems: list[Problem], request: BuildRequest, observe: WorkObserver
) -> list[BuildResult]:
    observe(BatchBegun(builder.device, len(problems)))
    watched = replace(request.options, observer=observe)

    def built(problem: Problem) -> BuildResult:
        result = finished(builder.build, problem, watched)
        return result if request.output is None else write_objects(result, request.output)

    return each_of(built, problems, observe)
