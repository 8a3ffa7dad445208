"""``tune``, ``tune --build-only`` and ``bank verify``: search, build, or time again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.app.bank_entries import known_entries
from skipjack.app.configuration import configured
from skipjack.app.dumps import DumpRequest, read_dumps
from skipjack.app.events import (
    BatchBegun,
    WorkObserver,
    applicable,
    each_of,
    finished,
    ignore,
    notices,
)
from skipjack.app.problems import (
    Placement,
    ProblemList,
    Say,
    check_problem,
    check_trace,
    choose_device,
    regrouped,
    without_missing_gpus,
)
from skipjack.bank import PERF, Bank, BankEntry
from skipjack.core import Budget, Device, Problem, TimingProtocol, deployed_protocol
from skipjack.errors import SkipjackError, UsageError
from skipjack.interop import Entry, NotApplicable
from skipjack.operations import parse
from skipjack.reading import numbered
from skipjack.runtime import select_device
from skipjack.runtime.local_kernels import why_stale
from skipjack.search import check_name
from skipjack.settings import Settings
from skipjack.solvers import pinned_solvers, solver_for
from skipjack.storage import output_directory
from skipjack.tuning import Builder, BuildOptions, BuildResult, Tuner, write_objects
from skipjack.tuning.study import TuneOptions, TuneOutcome, TuneResult

# ``tune``: the fastest config of problems, on this machine.


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What to tune, where, and how."""

    problems: ProblemList
    place: Placement = field(default_factory=Placement)
    """Takes precedence over what a list says."""
    options: TuneOptions = field(default_factory=TuneOptions)
    """Its observer is not used: events go to the observer of `tune`."""
    trace: Path | None = None
    """The file for a Chrome trace of where the time went."""


@dataclass(frozen=True, slots=True)
class TuneRun:
    """The results of the problems, one after the other."""

    results: tuple[TuneResult, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    left_out: bool = False
    """Whether some problem of a dump could not be tuned here."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it before all was done."""
        return any(result.interrupted for result in self.results)

    @property
    def incomplete(self) -> bool:
        """Whether a problem failed or was left out."""
        return self.left_out or any(result.status is TuneOutcome.FAILED for result in self.results)


def tune(
    request: TuneRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
    plugins: tuple[str, ...] = (),
) -> TuneRun:
    """Find the fastest config of each problem, and remember it.

    `observe` gets each batch, the progress of each search, and each result at once, so that results
    are reported even if a later problem raises. Ctrl-C ends the search with the results so far.
    """
    chosen = configured(settings, plugins)
    options = replace(request.options, searcher=check_name(request.options.searcher))
    say = notices(observe)
    dumped = DumpRequest(request.place, options.solver, options.retune)
    placed, left_out = place_problems(request.problems, dumped, chosen, say)
    if request.trace and len(placed) > 1:
        raise UsageError(
            "--trace supports one device and deployment, but the list names several; choose one "
            "with --device and --deployed"
        )
    tuners = []
    for at, entries in without_missing_gpus(placed).items():
        here = choose_device(at.device, at.threads, entries)
        protocol = deployed_protocol(here, at.deployed, at.caches)
        tuners.append((Tuner(chosen, here, say, protocol), entries))
    for tuner, entries in tuners:
        _check(tuner, entries, options)
    check_trace(request.trace)
    work = [(tuner, *applicable(entries, observe)) for tuner, entries in tuners]
    results: list[TuneResult] = []
    try:
        for tuner, requested, _ in work:
            if requested and not (results and results[-1].interrupted):
                with tuner:
                    results += tune_each(tuner, tuner.tune, requested, options, observe)
    finally:
        if request.trace and any(requested for _, requested, _ in work):
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
    """The requested problems by device and deployment, and whether some were left out."""
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


# ``tune --build-only``: object files for a device that need not be on this machine.


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build, and for which device."""

    problems: ProblemList
    device: str | None = None
    """Such as ``haswell/1``; None is that of this machine."""
    threads: int | None = None
    options: BuildOptions = field(default_factory=BuildOptions)
    """Its observer is not used: events go to the observer of `build`."""
    output: Path | None = None
    """The folder for object files, in addition to the user directory."""


@dataclass(frozen=True, slots=True)
class BuildRun:
    """The builds, one problem after the other."""

    results: tuple[BuildResult, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    left_out: bool = False
    """Whether some problem of a dump could not be built."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it before all was done."""
        return any(result.interrupted for result in self.results)

    @property
    def incomplete(self) -> bool:
        """Whether a problem has no successful build, or one was left out."""
        return self.left_out or not all(result.built for result in self.results)


def build(
    request: BuildRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
    plugins: tuple[str, ...] = (),
) -> BuildRun:
    """Build the most promising configs of each problem, and run nothing.

    `observe` gets the same events as that of `tune`.
    """
    chosen = configured(settings, plugins)
    asked_for = DumpRequest(Placement(request.device, request.threads), request.options.solver)
    placed, left_out = place_problems(
        request.problems, asked_for, chosen, notices(observe), build_only=True
    )
    work: list[tuple[Builder, list[Problem]]] = []
    others: list[NotApplicable] = []
    # Builds do not depend on how kernels are timed.
    for at, entries in regrouped(placed, lambda one: Placement(one.device, one.threads)).items():
        target = choose_device(at.device, at.threads, entries, build_only=True)
        problems, not_applicable = applicable(entries, observe)
        others += not_applicable
        for problem in problems:  # refuses what cannot work before anything is started
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


# ``bank verify``: times the bank's entries again.


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Which entries of the bank to time again."""

    problem: str | None = None
    """Its key; None for all stale entries."""
    device: str | None = None
    seconds: float | None = None
    """Time limit for each problem."""


def verify(
    request: VerifyRequest,
    observe: WorkObserver = ignore,
    *,
    settings: Settings | None = None,
) -> TuneRun:
    """Time the bank's entries of a problem on this machine again, or all stale entries."""
    chosen = configured(settings)
    bank = Bank.open(chosen.user_dir)
    if request.problem:
        known_entries(bank, request.problem, request.device)

    say = notices(observe)
    here, elsewhere = _wanted(request, bank)
    if elsewhere:
        count = numbered(elsewhere, "entry")
        say(f"skipped {count} of rankings, pinned settings or devices of other machines")
    if not here:
        what = f"entry of {request.problem}" if request.problem else "stale entry"
        say(f"nothing to verify: the bank has no {what} for a device of this machine")
    budget = None if request.seconds is None else Budget(seconds=request.seconds)
    results: list[TuneResult] = []
    for (device, protocol), entries in here.items():
        requested = [parse(one.problem) for one in entries]
        with Tuner(chosen, device, say, protocol) as tuner:
            results += tune_each(
                tuner, tuner.verify, requested, TuneOptions(budget=budget), observe
            )
        if results[-1].interrupted:
            break
    return TuneRun(tuple(results))


def _wanted(
    request: VerifyRequest, bank: Bank
) -> tuple[dict[tuple[Device, TimingProtocol], list[BankEntry]], int]:
    """The entries that can be timed here, and the number of the others."""
    held = [one for one in bank.entries() if request.device in (None, one.device_name)]
    problem = request.problem
    wanted = [one for one in held if (one.problem == problem if problem else why_stale(one))]
    here = _by_protocol(wanted)
    return here, len(wanted) - sum(map(len, here.values()))


def _by_protocol(
    entries: Sequence[BankEntry],
) -> dict[tuple[Device, TimingProtocol], list[BankEntry]]:
    """The best configs for devices that are here, by device and how they are timed."""
    found: dict[tuple[Device, TimingProtocol], list[BankEntry]] = {}
    for entry in entries:
        try:
            here = select_device([parse(entry.problem)], entry.device_name, None)
            ways = entry.deployed.split("/")
            protocol = deployed_protocol(here, *ways)
        except SkipjackError:
            continue
        if entry.kind == PERF and here.class_key == entry.device:
            found.setdefault((here, protocol), []).append(entry)
    return found
