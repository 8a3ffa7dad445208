"""`tune` and `find` for Python programs, and the tuner that stays open for many problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TypeVar

from skipjack import plugins
from skipjack.bank import BankEntry
from skipjack.core import (
    Budget,
    Candidate,
    Device,
    Problem,
    TimingProtocol,
    Value,
    deployed_protocol,
    type_checked,
)
from skipjack.errors import SkipjackError, UsageError
from skipjack.interrupt import Interrupt, Interrupted, deferred_interrupt
from skipjack.runtime import select_device
from skipjack.runtime.local_kernels import requested_problem
from skipjack.settings import Settings, load_settings
from skipjack.solvers import (
    BuildingSolver,
    find_solver,
    named_pins,
    pinned_solvers,
    solvers_for,
    vendors_for,
)
from skipjack.tuning.find_result import FindResult
from skipjack.tuning.find_run import run_find
from skipjack.tuning.study import (
    LIMITS,
    DeviceContext,
    KnownStrategy,
    Limits,
    StudyRun,
    TuneOptions,
    TuneResult,
    TuneStrategy,
    TuningContext,
    applicable_solvers,
    conclude,
    incumbent_of,
)

R = TypeVar("R", TuneResult, FindResult)


class Tuner:
    """Holds the device and warm workers: ``with Tuner() as tuner: tuner.tune(problem)``.

    `say` is called with a message before the user may have to wait. `protocol` says how kernels are
    timed; by default as usual on the device: see `skipjack.core.timing.deployed_protocol`.
    """

    @type_checked
    def __init__(
        self,
        settings: Settings | None = None,
        device: Device | None = None,
        say: Callable[[str], None] | None = None,
        protocol: TimingProtocol | None = None,
    ) -> None:
        self.settings = settings or load_settings()
        plugins.load(self.settings.plugins)
        self.limits = Limits.of(self.settings)
        self.context = DeviceContext(self.settings, device, protocol, say)

    @type_checked
    def tune(self, problem: str | Problem, options: TuneOptions | None = None) -> TuneResult:
        """Search for the fastest config and keep it; continues an earlier study of the problem.

        Ctrl-C ends the search. What is known by then is decided on and written, then `Interrupted`
        is raised, a `KeyboardInterrupt` with the result; a second Ctrl-C stops at once.
        """
        asked = requested_problem(problem) if isinstance(problem, str) else problem
        chosen = (options or TuneOptions()).completed(self.limits)
        return self._interruptible(partial(run_tune, self.context, asked, chosen))

    @type_checked
    def verify(self, problem: str | Problem, options: TuneOptions | None = None) -> TuneResult:
        """Time the bank's entries of a problem again, without a search.

        The entry and the next best few are built, checked and timed next to the default and the
        libraries. The entry is confirmed, and renewed if it was stale or claimed a larger gain; or
        it is replaced by a better one, or by a default that is not slower. Ctrl-C works as in
        `tune`.
        """
        asked = requested_problem(problem) if isinstance(problem, str) else problem
        chosen = (options or TuneOptions()).completed(self.limits)
        return self._interruptible(partial(run_verify, self.context, asked, chosen))

    @type_checked
    def find(
        self,
        problem: str | Problem,
        options: TuneOptions | None = None,
        only: Sequence[str] = (),
    ) -> FindResult:
        """Rank the solvers of a problem, or `only` those named; continues their studies.

        Ctrl-C works as in `tune`.
        """
        asked = requested_problem(problem) if isinstance(problem, str) else problem
        chosen = (options or TuneOptions()).completed(self.limits, finding=True)
        return self._interruptible(partial(run_find, self.context, asked, chosen, only))

    def _interruptible(self, run: Callable[[Interrupt], R]) -> R:
        if not self.context.opened:
            raise UsageError(
                "this Tuner is not open; use it inside `with Tuner() as tuner:`, which starts and "
                "ends its workers"
            )
        with deferred_interrupt() as interrupt:
            result = run(interrupt)
        if interrupt.requested:
            raise Interrupted(replace(result, interrupted=True))
        return result

    def __enter__(self) -> Tuner:
        self.context.__enter__()
        try:
            self.context.warm_up()
        except BaseException:
            self.context.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.context.close()


def make_budget(
    trials: int | None, seconds: float | None, default_s: float = LIMITS.tune_seconds
) -> Budget:
    """A budget of trials, seconds or both; of `default_s` seconds if neither is given."""
    if trials is None and seconds is None:
        seconds = default_s
    return Budget(trials, seconds)


def run_tune(
    context: TuningContext,
    problem: Problem,
    options: TuneOptions,
    interrupt: Interrupt | None = None,
) -> TuneResult:
    """Search within the budget, decide on the best config, and keep what is known."""
    if options.pinned:
        pins = named_pins(problem, context.target, options.pins, options.solver)
        options = replace(options, pinned=pins)
    strategy = TuneStrategy(options.solver, options.chosen_limits, options.pins)
    return _finished(StudyRun(context, problem, options, interrupt or Interrupt(), strategy))


def _finished(run: StudyRun) -> TuneResult:
    with closing(run):
        run.prepare()
        run.import_libraries(vendors_for(run.problem, run.context.device))
        run.search()
        return conclude(run)


def run_verify(
    context: TuningContext,
    problem: Problem,
    options: TuneOptions,
    interrupt: Interrupt | None = None,
) -> TuneResult:
    """Time the bank's entry and the next best few; confirm or replace the entry.

    Nothing is searched. The decision is made as after a search.
    """
    device, deployed = context.device, context.protocol.deployed
    entry = context.bank.lookup(problem.key, device.class_key, protocol=deployed)
    if entry is None:
        raise SkipjackError(
            f"the bank has no entry of {problem.key} for {device.name} ({deployed}); to make one, "
            f"run skipjack tune {problem.key}"
        )
    priors = context.bank.priors(problem.key, device.class_key, deployed)
    others = _buildable(priors, problem, device)
    few = others[: options.chosen_limits.retimed_leaders]
    own = _buildable([entry], problem, device)
    names = dict.fromkeys(candidate.solver for candidate in (*own, *few))
    solvers = [find_solver(name) for name in names] or solvers_for(problem, context.target)[:1]
    buildable_solvers = tuple(one for one in solvers if isinstance(one, BuildingSolver))
    run = StudyRun(
        context, problem, options, interrupt or Interrupt(), KnownStrategy(buildable_solvers)
    )
    run.also_timed = tuple(few)
    return _finished(run)


def _buildable(entries: Sequence[BankEntry], problem: Problem, device: Device) -> list[Candidate]:
    """The distinct configs of entries that can be built here."""
    found = []
    for entry in entries:
        try:
            found.append(incumbent_of(entry, problem, device))
        except SkipjackError:
            continue  # a solver that raises an error counts as one that refuses
    return list(dict.fromkeys(filter(None, found)))


@type_checked
def tune(
    problem: str,
    *,
    seconds: float | None = None,
    budget: int | None = None,
    dtype: str | None = None,
    layout: str | None = None,
    direction: str | None = None,
    searcher: str = "auto",
    seed: int = 0,
    solver: str | None = None,
    retune: bool = False,
    threads: int | None = None,
    device: str | None = None,
    plugins: str | Sequence[str] = (),
    deployed: str | None = None,
    caches: str | None = None,
    pinned: Mapping[str, Value] | None = None,
) -> TuneResult:
    """Find the fastest way to compute a problem on this machine, bank it, and return it.

    `seconds` and `budget` (trials) limit the search, whichever runs out first. Running again
    continues the study; `retune` starts it over. A kernel may use up to `threads` threads of the
    CPU (1 by default). `device` names another device of this machine, as ``sm_90/132`` or ``gpu``;
    element types for which CPUs have no kernels go to a GPU automatically.

    `deployed` and `caches` say how programs will call the kernel (`skipjack.core.timing`):
    ``native`` on a CPU and ``graph`` on a GPU without the cost of the host, ``eager`` with it;
    ``hot`` or ``cold``. The result answers lookups of that deployment.

    `pinned` has settings that all configs must have, as ``{"program": "two_pass"}``. The result
    answers lookups with the same `pinned`, and no others.

    After Ctrl-C, what is known is written, and `KeyboardInterrupt` is raised.
    """
    settings = _settings(plugins)
    options = TuneOptions(
        budget=make_budget(budget, seconds, Limits.of(settings).tune_seconds),
        searcher=searcher,
        seed=seed,
        solver=solver,
        retune=retune,
        pinned=pinned or {},
    )
    # A wrong key should fail before workers start.
    asked = requested_problem(problem, dtype, layout=layout, direction=direction)
    here = select_device([asked], device, threads)
    pinned_solvers(asked, here, options.pins, solver)
    with Tuner(settings, here, protocol=deployed_protocol(here, deployed, caches)) as tuner:
        return tuner.tune(asked, options)


@type_checked
def find(
    problem: str,
    *,
    seconds: float | None = None,
    budget: int | None = None,
    dtype: str | None = None,
    layout: str | None = None,
    direction: str | None = None,
    searcher: str = "auto",
    seed: int = 0,
    solvers: str | Sequence[str] = (),
    retune: bool = False,
    threads: int | None = None,
    device: str | None = None,
    plugins: str | Sequence[str] = (),
) -> FindResult:
    """Rank all solvers of a problem, including libraries, each with its best config.

    `solvers` names the only ones to rank. The other arguments are those of `tune`, whose studies
    are continued; `budget` and `seconds` are for all solvers together, and each solver gets at
    least one trial.
    """
    settings = _settings(plugins)
    options = TuneOptions(
        budget=make_budget(budget, seconds, Limits.of(settings).find_seconds),
        searcher=searcher,
        seed=seed,
        retune=retune,
    )
    asked = requested_problem(problem, dtype, layout=layout, direction=direction)
    tuner = Tuner(settings, select_device([asked], device, threads))
    only = (solvers,) if isinstance(solvers, str) else tuple(solvers)
    # A wrong name should fail before workers start.
    applicable_solvers(asked, tuner.context.device, only)
    with tuner:
        return tuner.find(asked, options, only)


def _settings(named: str | Sequence[str]) -> Settings:
    """The settings, with the plug-ins loaded: one may define the operation of a problem."""
    given = (named,) if isinstance(named, str) else tuple(named)
    settings = load_settings(plugins=given or None)
    plugins.load(settings.plugins)
    return settings
