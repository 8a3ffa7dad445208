"""``find``: all solvers of problems, ranked."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.app.configuring import configured
from skipjack.app.events import BatchBegun, ProblemBegun, WorkObserver, ignore, notices
from skipjack.app.one_by_one import finished
from skipjack.app.placing import check_trace, choose_device
from skipjack.app.problem_lists import ProblemList
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.devices import find_device
from skipjack.errors import ProblemError
from skipjack.interop import Entry, NotApplicable
from skipjack.runtime import NoGpuError
from skipjack.search import check_name
from skipjack.settings import Settings
from skipjack.solvers import find_solver
from skipjack.tuning import FindResult, FindStatus, TuneOptions, Tuner, check_memory


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Whose solvers are ranked, where, and how."""

    problems: ProblemList
    solvers: tuple[str, ...] = ()
    """Only these are ranked; empty: all."""
    device: str | None = None
    threads: int | None = None
    options: TuneOptions = field(default_factory=TuneOptions)
    """Its observer is not used: events go to that of `find`."""
    trace: Path | None = None
    """Where a Chrome trace is written of where the time went."""


@dataclass(frozen=True, slots=True)
class FindRun:
    """The rankings, one problem after the other."""

    device: Device
    results: tuple[FindResult, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    """Entries of a list that this machine cannot compute."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it before all was done."""
        return any(result.interrupted for result in self.results)

    @property
    def failed(self) -> bool:
        """Whether no solver of a problem ran."""
        return any(result.status is FindStatus.FAILED for result in self.results)

    @property
    def in_vain(self) -> bool:
        """Whether there are results, and all say that no solver applies."""
        return {result.status for result in self.results} == {FindStatus.NOT_APPLICABLE}


def find(
    request: FindRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
    plugins: tuple[str, ...] = (),
) -> FindRun:
    """Rank all solvers of each problem, each with its best config.

    `observe` is told of each problem before and after, and of how far it is. Ctrl-C ends it with
    what is known.
    """
    chosen = configured(settings, plugins)
    say = notices(observe)
    entries = request.problems.entries(say)
    tuner = Tuner(chosen, _device(request, entries), say)
    options = replace(request.options, searcher=check_name(request.options.searcher))
    only = tuple(find_solver(name).name for name in request.solvers)
    check_trace(request.trace)
    observe(BatchBegun(tuner.context.device, len(entries)))
    try:
        return _find_each(tuner, entries, options, only, observe)
    finally:
        if request.trace:
            tuner.context.tracer.write(request.trace)


def _device(request: FindRequest, entries: list[Entry]) -> Device:
    """Without a GPU it is a CPU, unless the one problem that is asked for needs a GPU."""
    try:
        return choose_device(request.device, request.threads, entries)
    except NoGpuError:
        if len(entries) == 1:
            raise
        return find_device(request.device, request.threads)


def _find_each(
    tuner: Tuner,
    entries: list[Entry],
    options: TuneOptions,
    only: tuple[str, ...],
    observe: WorkObserver,
) -> FindRun:
    results: list[FindResult] = []
    others: list[NotApplicable] = []
    watched = replace(options, observer=observe)
    with ExitStack() as running:
        for number, entry in enumerate(entries, 1):
            problem = _fitting(entry, tuner, alone=len(entries) == 1)
            if not isinstance(problem, Problem):
                others.append(problem)
                observe(problem)
                continue
            if not results:
                running.enter_context(tuner)  # workers start where something is to be run
            observe(ProblemBegun(problem, number, len(entries)))
            results.append(finished(tuner.find, problem, watched, only))
            observe(results[-1])
            if results[-1].interrupted:
                break
    return FindRun(tuner.context.device, tuple(results), tuple(others))


def _fitting(entry: Entry, tuner: Tuner, *, alone: bool) -> Entry:
    """The entry; in a list, a problem that is too large for this machine is not applicable."""
    if isinstance(entry, Problem):
        try:
            check_memory(entry, tuner.context.device.memory_bytes, tuner.limits.memory_share)
        except ProblemError as error:
            if alone:
                raise
            return NotApplicable(entry.key, str(error))
    return entry
