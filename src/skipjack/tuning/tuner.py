"""`tune`: the front door for Python programs, and the tuner that stays open for many problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TypeVar

from skipjack import plugins
from skipjack.bank import BankEntry
from skipjack.core.annotations import checked
from skipjack.core.config import Value
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.protocol import TimingProtocol, deployed_protocol
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate
from skipjack.errors import SkipjackError, UsageError
from skipjack.interrupt import Interrupt, Interrupted, watch_for_interrupt
from skipjack.runtime import asked_problem, place
from skipjack.settings import Settings, load_settings
from skipjack.solvers import (
    BuildingSolver,
    find_solver,
    named_pins,
    pinned_solvers,
    solvers_for,
    vendors_for,
)
from skipjack.tuning.applicable_solvers import applicable_solvers
from skipjack.tuning.context import DeviceContext, TuningContext
from skipjack.tuning.finding import FindResult, run_find
from skipjack.tuning.limits import LIMITS, Limits
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.result import TuneResult
from skipjack.tuning.starting_points import incumbent_of
from skipjack.tuning.strategy import KnownStrategy, TuneStrategy
from skipjack.tuning.study_run import StudyRun
from skipjack.tuning.verdict import conclude

R = TypeVar("R", TuneResult, FindResult)


class Tuner:
    """Holds the device and warm workers: ``with Tuner() as tuner: tuner.tune(problem)``.

    `say` is told what a person may have to wait for. `protocol` says how kernels are timed, by
    default as is usual on the device: see `skipjack.core.protocol.deployed_protocol`.
    """

    @checked
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

    @checked
    def tune(self, problem: str | Problem, options: TuneOptions | None = None) -> TuneResult:
        """Search for a while, and keep the best; goes on with the study of before.

        Ctrl-C ends the search. What is known by then is judged and written, then `Interrupted`
        is raised, a `KeyboardInterrupt` with the result; a second Ctrl-C stops at once.
        """
        asked = asked_problem(problem) if isinstance(problem, str) else problem
        chosen = (options or TuneOptions()).completed(self.limits)
        return self._interruptible(partial(run_tune, self.context, asked, chosen))

    @checked
    def verify(self, problem: str | Problem, options: TuneOptions | None = None) -> TuneResult:
        """Time what the bank holds of a problem once more, and search nothing.

        The entry and the next best few are built, checked and timed beside the default and the
        libraries. The entry is confirmed, and renewed if it was stale or claimed a larger gain, or
        gives way to a better one, or to a default that is no slower. Ctrl-C is as for `tune`.
        """
        asked = asked_problem(problem) if isinstance(problem, str) else problem
        chosen = (options or TuneOptions()).completed(self.limits)
        return self._interruptible(partial(run_verify, self.context, asked, chosen))

    @checked
    def find(
        self,
        problem: str | Problem,
        options: TuneOptions | None = None,
        only: Sequence[str] = (),
    ) -> FindResult:
        """Rank the solvers of a problem, or `only` those named; continues their studies.

        Ctrl-C is as for `tune`.
        """
        asked = asked_problem(problem) if isinstance(problem, str) else problem
        chosen = (options or TuneOptions()).completed(self.limits, finding=True)
        return self._interruptible(partial(run_find, self.context, asked, chosen, only))

    def _interruptible(self, run: Callable[[Interrupt], R]) -> R:
        if not self.context.opened:
            raise UsageError(
                "this Tuner is not open: use it inside of `with Tuner() as tuner:`, which starts "
                "its workers and ends them"
            )
        with watch_for_interrupt() as interrupt:
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
    """A budget from what was given; a default number of seconds if nothing was."""
    if trials is None and seconds is None:
        seconds = default_s
    return Budget(trials, seconds)


def run_tune(
    context: TuningContext,
    problem: Problem,
    options: TuneOptions,
    interrupt: Interrupt | None = None,
) -> TuneResult:
    """Search for a while, judge the best, and keep what is known."""
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
    """Time the bank's entry and the next best few; confirm it, or let it give way.

    Nothing is searched. The verdict is made as after a search.
    """
    device, deployed = context.device, context.protocol.deployed
    entry = context.bank.lookup(problem.key, device.class_key, protocol=deployed)
    if entry is None:
        raise SkipjackError(
            f"the bank has no entry of {problem.key} for {device.name} ({deployed}); try skipjack "
            f"tune {problem.key}"
        )
    priors = context.bank.priors(problem.key, device.class_key, deployed)
    others = _buildable(priors, problem, device)
    few = others[: options.chosen_limits.retimed_leaders]
    own = _buildable([entry], problem, device)
    names = dict.fromkeys(candidate.solver for candidate in (*own, *few))
    solvers = [find_solver(name) for name in names] or solvers_for(problem, context.target)[:1]
    entrants = tuple(one for one in solvers if isinstance(one, BuildingSolver))
    run = StudyRun(context, problem, options, interrupt or Interrupt(), KnownStrategy(entrants))
    run.also_timed = tuple(few)
    return _finished(run)


def _buildable(entries: Sequence[BankEntry], problem: Problem, device: Device) -> list[Candidate]:
    """The configs of entries that can be built here, each once."""
    found = []
    for entry in entries:
        try:
            found.append(incumbent_of(entry, problem, device))
        except SkipjackError:
            continue  # a solver that raises something says as much as one that refuses
    return list(dict.fromkeys(filter(None, found)))


@checked
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
    """Find the fastest way to compute a problem here, remember it, and give it back.

    `seconds` and `budget` (trials) limit the search, whichever runs out first. Running again
    continues the study; `retune` starts it over. A kernel may use as many `threads` of the CPU
    (1). `device` names another one that is here, as ``sm_90/132`` or ``gpu``; element types that
    CPUs have no kernels for go to a GPU by themselves.

    `deployed` and `caches` say how programs will call the kernel, as `skipjack.core.protocol` has
    it: ``native`` on a CPU and ``graph`` on a GPU without the cost of the host, ``eager`` with it;
    ``hot`` or ``cold``. What is found is the answer to lookups of that deployment.

    `pinned` has settings that all configs must have, as ``{"program": "two_pass"}``. What is found
    is the answer to lookups with the same `pinned`, and to no others.

    After Ctrl-C what is known is written, and `KeyboardInterrupt` is raised.
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
    # Before workers start: a wrong key should fail at once.
    asked = asked_problem(problem, dtype, layout=layout, direction=direction)
    here = place([asked], device, threads)
    pinned_solvers(asked, here, options.pins, solver)
    with Tuner(settings, here, protocol=deployed_protocol(here, deployed, caches)) as tuner:
        return tuner.tune(asked, options)


@checked
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
    """Rank all solvers of a problem, each with its best config, libraries among them.

    `solvers` names the only ones to rank. Everything else is as for `tune`, whose studies are
    continued; `budget` and `seconds` are for all solvers together, and each gets one trial at
    least.
    """
    settings = _settings(plugins)
    options = TuneOptions(
        budget=make_budget(budget, seconds, Limits.of(settings).find_seconds),
        searcher=searcher,
        seed=seed,
        retune=retune,
    )
    asked = asked_problem(problem, dtype, layout=layout, direction=direction)
    tuner = Tuner(settings, place([asked], device, threads))
    only = (solvers,) if isinstance(solvers, str) else tuple(solvers)
    # Before workers start: a wrong name should fail at once.
    applicable_solvers(asked, tuner.context.device, only)
    with tuner:
        return tuner.find(asked, options, only)


def _settings(named: str | Sequence[str]) -> Settings:
    """With the plug-ins loaded: a problem may be of an operation that one of them brings."""
    given = (named,) if isinstance(named, str) else tuple(named)
    settings = load_settings(plugins=given or None)
    plugins.load(settings.plugins)
    return settings
