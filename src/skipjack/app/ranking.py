"""``find``: all solvers of problems, ranked."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.app.configuration import configured
from skipjack.app.events import BatchBegun, ProblemBegun, WorkObserver, finished, ignore, notices
from skipjack.app.problems import ProblemList, check_trace, choose_device
from skipjack.core import Device, Problem
from skipjack.devices import find_device
from skipjack.errors import ProblemError
from skipjack.interop import Entry, NotApplicable
from skipjack.runtime import NoGpuError
from skipjack.search import check_name
from skipjack.settings import Settings
from skipjack.solvers import find_solver
from skipjack.tuning import FindResult, FindStatus, Tuner
from skipjack.tuning.study import TuneOptions, check_memory


@dataclass(frozen=True, slots=True)
class FindRequest:
    """Problems whose solvers to rank, where, and how."""

    problems: ProblemList
    solvers: tuple[str, ...] = ()
    """Rank only these; empty for all."""
    device: str | None = None
    threads: int | None = None
    options: TuneOptions = field(default_factory=TuneOptions)
    """Its observer is not used: events go to the observer of `find`."""
    trace: Path | None = None
    """The file for a Chrome trace of where the time went."""


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
    def none_applicable(self) -> bool:
        """Whether there are results, all of which found no applicable solver."""
        return {result.status for result in self.results} == {FindStatus.NOT_APPLICABLE}


def find(
    request: FindRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
    plugins: tuple[str, ...] = (),
) -> FindRun:
    """Rank all solvers of each problem, each with its best config.

    `observe` gets an event before and after each problem, and progress in between. Ctrl-C ends the
    work with the results so far.
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
    """The device; a CPU if there is no GPU, unless a single problem is given that needs one."""
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
                running.enter_context(tuner)  # workers start when the first problem is to be run
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
