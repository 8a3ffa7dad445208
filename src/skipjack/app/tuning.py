"""``tune``: the fastest config of problems, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.app.configuring import configured
from skipjack.app.dumps import DumpRequest, read_dumps
from skipjack.app.events import BatchBegun, WorkObserver, applicable, ignore, notices
from skipjack.app.one_by_one import each_of, finished
from skipjack.app.placing import check_problem, check_trace, choose_device, without_stranded
from skipjack.app.problem_lists import Placement, ProblemList, Say, regrouped
from skipjack.core.problem import Problem
from skipjack.core.protocol import deployed_protocol
from skipjack.errors import UsageError
from skipjack.interop import Entry, NotApplicable
from skipjack.search import check_name
from skipjack.settings import Settings
from skipjack.solvers import pinned_solvers
from skipjack.tuning import Outcome, TuneOptions, Tuner, TuneResult


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What is tuned, where, and how."""

    problems: ProblemList
    place: Placement = field(default_factory=Placement)
    """What is named here outranks what a list says."""
    options: TuneOptions = field(default_factory=TuneOptions)
    """Its observer is not used: events go to that of `tune`."""
    trace: Path | None = None
    """Where a Chrome trace is written of where the time went."""


@dataclass(frozen=True, slots=True)
class TuneRun:
    """What came of the problems, one after the other."""

    results: tuple[TuneResult, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    left_out: bool = False
    """Whether something of a dump could not be tuned here."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it before all was done."""
        return any(result.interrupted for result in self.results)

    @property
    def incomplete(self) -> bool:
        """Whether a problem failed or was left out."""
        return self.left_out or any(result.status is Outcome.FAILED for result in self.results)


def tune(
    request: TuneRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
    plugins: tuple[str, ...] = (),
) -> TuneRun:
    """Find the fastest config of each problem, and remember it.

    `observe` is told of each batch, of how far a search is, and of each result at once: what was
    found is told even if a later problem raises. Ctrl-C ends the search with what is known.
    """
    chosen = configured(settings, plugins)
    options = replace(request.options, searcher=check_name(request.options.searcher))
    say = notices(observe)
    dumped = DumpRequest(request.place, options.solver, options.retune)
    placed, left_out = place_problems(request.problems, dumped, chosen, say)
    if request.trace and len(placed) > 1:
        raise UsageError(
            "--trace is for one device and deployment, but the list names several; choose one with "
            "--device and --deployed"
        )
    tuners = []
    for at, entries in without_stranded(placed).items():
        here = choose_device(at.device, at.threads, entries)
        protocol = deployed_protocol(here, at.deployed, at.caches)
        tuners.append((Tuner(chosen, here, say, protocol), entries))
    for tuner, entries in tuners:
        _check(tuner, entries, options)
    check_trace(request.trace)
    work = [(tuner, *applicable(entries, observe)) for tuner, entries in tuners]
    results: list[TuneResult] = []
    try:
        for tuner, asked, _ in work:
            if asked and not (results and results[-1].interrupted):
                with tuner:
                    results += tune_each(tuner, tuner.tune, asked, options, observe)
    finally:
        if request.trace and any(asked for _, asked, _ in work):
            tuners[0][0].context.tracer.write(request.trace)
    others = tuple(other for _, _, several in work for other in several)
    return TuneRun(tuple(results), others, left_out)


def place_problems(
    problems: ProblemList,
    request: DumpRequest,
    settings: Settings,
    say: Say,
    *,
    build_only: bool = False,
) -> tuple[dict[Placement, list[Entry]], bool]:
    """What is asked for by device and deployment, and whether something of it was left out."""
    left_out = False
    if problems.are_dumps:
        placed, left_out = read_dumps(problems.texts, settings, request, build_only, say)
    else:
        placed = problems.placed(say)
    named = request.place
    if named.device is not None or named.threads is not None:
        placed = regrouped(
            placed, lambda one: one._replace(device=named.device, threads=named.threads)
        )
    if named.deployed is not None:
        placed = regrouped(placed, lambda one: one._replace(deployed=named.deployed))
    if named.caches is not None:
        placed = regrouped(placed, lambda one: one._replace(caches=named.caches))
    return placed, left_out


def _check(tuner: Tuner, entries: Iterable[Entry], options: TuneOptions) -> None:
    """Refuse what cannot work before anything is started."""
    device = tuner.context.device
    for problem in entries:
        if isinstance(problem, Problem):
            check_problem(problem, device, tuner.limits, options.solver)
            pinned_solvers(problem, device, options.pins, options.solver)


def tune_each(
    tuner: Tuner,
    work: Callable[[Problem, TuneOptions], TuneResult],
    problems: list[Problem],
    options: TuneOptions,
    observe: WorkObserver,
) -> list[TuneResult]:
    """The results of a method of the tuner, up to the one that was interrupted."""
    observe(BatchBegun(tuner.context.device, len(problems)))
    watched = replace(options, observer=observe)
    return each_of(lambda problem: finished(work, problem, watched), problems, observe)
