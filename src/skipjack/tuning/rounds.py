"""A search in rounds: configs are asked for and built at one place, timed and told at another.

What passes between the ranking is in the ledger: a study's searcher is where the replayed tells put
it, and configs that were asked for and not yet told are those of the round under way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ForeignError, StorageError, WorkerError, blaming
from skipjack.execute.build_pool import Build
from skipjack.interrupt import Interrupt
from skipjack.ledger import CandidateKey, Ledger
from skipjack.solvers.solver import Solver
from skipjack.tuning.applicable_solvers import DefaultProposal, default_proposal
from skipjack.tuning.build_queue import BuildQueue, build_record, identity_of, keep_artifact
from skipjack.tuning.context import TuningContext
from skipjack.tuning.ledger_buffer import LedgerBuffer
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.solver_search import TURN, SolverSearch, make_search
from skipjack.tuning.strategy import SearchStrategy, led_before
from skipjack.tuning.study_run import StudyRun

log = logging.getLogger(__name__)

R = TypeVar("R")


class MissingCodeError(StorageError):
    """Machine code of a config that was asked for is not there; build the round again."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """What the rounds of one search have in common, wherever each of them is done."""

    problem: Problem
    options: TuneOptions
    strategy: SearchStrategy
    epoch: int = 0
    first: tuple[Candidate, ...] = ()
    """What is tried before any searcher is asked: it did well elsewhere."""


@dataclass(frozen=True, slots=True)
class BuiltRound:
    """What came of asking and building."""

    asked: int
    failed: tuple[tuple[Candidate, Trial], ...]
    """Those that did not build; they are told already."""
    digests: tuple[str, ...]
    """The machine code of the others, and of what runs beside them."""


@dataclass(frozen=True, slots=True)
class ToldRound(Generic[R]):
    """What came of timing."""

    trials: tuple[tuple[str, Trial], ...]
    """With the names of their solvers."""
    result: R | None
    """The verdict, if the budget is spent or there is nothing left to try."""
    best_ns: float | None


def build_round(context: TuningContext, sitting: Sitting, count: int) -> BuiltRound:
    """Ask for up to `count` configs and build them, and the leaders so far, which run again."""
    searches = _open_arms(context, sitting)
    queue = BuildQueue(context)
    buffer = LedgerBuffer(context.ledger, context.tracer)
    for search in searches:
        queue.add_solver(search.solver, search.space)
    asked = _first(searches, sitting)
    room = max(count - len(asked), sum(not search.asked for search in searches) if asked else 0)
    asked += _ask(context, searches, sitting, room, tuple(asked))
    for candidate in asked:
        buffer.ask(_arm_of(searches, candidate).study.id, candidate.config)
    versions = {search.name: search.solver.version for search in searches}
    default = _default(context, sitting)
    if default is not None and default.solver.name not in versions:
        queue.add_solver(default.solver, default.space)
        versions[default.solver.name] = default.solver.version
    beside = [default.candidate] if default else []
    again = led_before(searches, sitting.strategy, default.candidate if default else None)
    for candidate in dict.fromkeys([*asked, *again, *beside]):
        queue.submit(candidate)
    failed, digests = [], []
    try:
        while queue.pending:
            for build in queue.collect(1.0, count):
                digest = _record(context, buffer, build, versions[build.candidate.solver])
                if build.status.failed and build.candidate in asked:
                    search = _arm_of(searches, build.candidate)
                    trial = Trial(build.candidate.config, build.status, reason=build.reason)
                    buffer.tell(search.study.id, [trial])
                    failed.append((build.candidate, trial))
                elif not build.status.failed:
                    digests.append(digest)
    finally:
        queue.cancel()
    buffer.flush()
    return BuiltRound(len(asked), tuple(failed), tuple(dict.fromkeys(digests)))


def evaluate_round(
    context: TuningContext,
    sitting: Sitting,
    interrupt: Interrupt,
    finish: Callable[[StudyRun], R],
    libraries: Sequence[Solver] = (),
) -> ToldRound[R]:
    """Time what was asked for and built beside the leaders of before, and tell it.

    `finish` speaks the verdict once there is nothing left to try. It may take libraries in; those
    that are given here run from the start, so that nobody waits for what is far behind them.
    """
    run = StudyRun(context, sitting.problem, sitting.options, interrupt, sitting.strategy)
    try:
        for search in run.searches:
            _open_study(context.ledger, search, sitting.epoch)
        _check_known(context.ledger, run.searches)
        run.trials += [
            trial for search in run.searches for trial in search.known
        ]  # the verdict is on all
        run.open_contest()
        run.limit.prepared()
        run.add_vendors(libraries)
        waiting = [build for search in run.searches for build in _recalled(run, search)]
        again = [build for leader in run.leaders() if (build := run.queue.cached_build(leader))]
        if again:
            run.enter_again(again)
        while waiting and not interrupt.requested:
            batch, waiting = waiting[: run.batch()], waiting[run.batch() :]
            run.take(batch)
        trials = tuple((search.name, trial) for search in run.searches for trial in search.trials)
        finished = not waiting and _spent(context, sitting)
        result = _finished(run, sitting, finish) if finished else None
        best = run.evaluator.best
        return ToldRound(trials, result, best.time_ns if best else None)
    finally:
        run.close()


def _finished(run: StudyRun, sitting: Sitting, finish: Callable[[StudyRun], R]) -> R:
    default = run.default
    if default is not None and run.default_runner is None:
        build = run.queue.cached_build(default)
        run.enter_again([build] if build else [])
    for search in run.searches:
        search.trials[:0] = search.known  # what counts are the trials of all rounds
    return finish(run)


def _default(context: TuningContext, sitting: Sitting) -> DefaultProposal | None:
    """What gains are over: it is built beside every round, also if no searcher asks for it."""
    if sitting.strategy.compares:
        with _skipping_failures(sitting.strategy):
            return default_proposal(sitting.problem, context.target)
    return None


def _open_arms(context: TuningContext, sitting: Sitting) -> list[SolverSearch]:
    """The solvers that race, their searchers where the tells so far put them."""
    with blaming(f"a solver asked about {sitting.problem.key}"):
        solvers = sitting.strategy.solvers(sitting.problem, context.target)
    searches: list[SolverSearch] = []
    for solver in solvers:
        with _skipping_failures(sitting.strategy):
            searches.append(
                make_search(context, sitting.problem, solver, sitting.options, leads=not searches)
            )
    for search in searches:
        _open_study(context.ledger, search, sitting.epoch)
        search.asked = len(search.known)
    left = _left(searches, sitting)
    if left:
        _start(context, searches, sitting, left)
    return searches


def _start(
    context: TuningContext, searches: Sequence[SolverSearch], sitting: Sitting, left: int
) -> None:
    options = replace(sitting.options, budget=Budget(trials=left))
    for search in searches:
        with _skipping_failures(sitting.strategy, search):
            search.start(context, options)


@contextmanager
def _skipping_failures(
    strategy: SearchStrategy, search: SolverSearch | None = None
) -> Iterator[None]:
    """Go on without a solver or a searcher that raises something, if the strategy are so."""
    try:
        yield
    except ForeignError as error:
        if not strategy.skip_failing_solvers:
            raise
        log.warning("%s", error)
        if search is not None:
            search.broken = str(error)


def _open_study(ledger: Ledger, search: SolverSearch, epoch: int) -> None:
    record = ledger.start_study(search.study, search.solver.version)
    for _ in range(record.epoch, epoch):
        ledger.forget_study(search.study.id)
    search.known = tuple(ledger.trials(search.study.id))
    search.note(search.known)


def _check_known(ledger: Ledger, searches: Sequence[SolverSearch]) -> None:
    """Whoever built the round has asked for something, by studies that are known here too."""
    if not any(ledger.log(search.study.id) for search in searches):
        what = f"the round of {searches[0].problem.key}" if searches else "a round"
        raise WorkerError(
            f"{what} was asked for by other solvers or spaces than "
            "those here; builders and evaluators need the same version of Skipjack and of plug-ins"
        )


def _open_asks(context: TuningContext, search: SolverSearch) -> list[Candidate]:
    entries = context.ledger.log(search.study.id)
    told = {entry.config for entry in entries if entry.trial is not None}
    asked = [entry.config for entry in entries if entry.kind == "ask" and entry.config not in told]
    return [search.candidate(config) for config in dict.fromkeys(asked)]


def _left(searches: Sequence[SolverSearch], sitting: Sitting) -> int:
    most = sitting.strategy.most_trials(sitting.options.budget, searches)
    assert most is not None, "rounds have a budget of trials"
    return max(0, most - sum(search.asked for search in searches))


def _first(searches: Sequence[SolverSearch], sitting: Sitting) -> list[Candidate]:
    """What is to be tried before searchers are asked, if it can be built and was not yet tried."""
    found = []
    by_name = {search.name: search for search in searches}
    for candidate in dict.fromkeys(sitting.first):
        search = by_name.get(candidate.solver)
        if search is None or any(trial.config == candidate.config for trial in search.known):
            continue
        with _skipping_failures(sitting.strategy, search), blaming(f"the space of {search.name}"):
            if search.space.contains(candidate.config):
                search.asked += 1
                found.append(candidate)
    return found


def _ask(
    context: TuningContext,
    searches: Sequence[SolverSearch],
    sitting: Sitting,
    count: int,
    first: Sequence[Candidate],
) -> Iterator[Candidate]:
    """Up to so many configs, besides those that come first in any case."""
    room = min(count, _left(searches, sitting))
    with context.tracer.span("ask", "search"):
        while room > 0:
            asked = _ask_one_arm(searches, sitting.strategy, min(room, TURN))
            if not asked:
                return
            for candidate in asked:
                if candidate in first:
                    _arm_of(searches, candidate).asked -= 1  # it was counted before
                else:
                    room -= 1
                    yield candidate


def _ask_one_arm(
    searches: Sequence[SolverSearch], strategy: SearchStrategy, most: int
) -> list[Candidate]:
    for search, limit in strategy.round_turns([search for search in searches if not search.broken]):
        with _skipping_failures(strategy, search):
            configs = search.ask(min(most, limit)) if limit else []
            if configs:
                return [search.candidate(config) for config in configs]
    return []


def _arm_of(searches: Sequence[SolverSearch], candidate: Candidate) -> SolverSearch:
    return next(search for search in searches if search.name == candidate.solver)


def _record(context: TuningContext, buffer: LedgerBuffer, build: Build, version: int) -> str:
    digest = keep_artifact(context, build) if not build.status.failed else ""
    if build.source_digest:
        key = CandidateKey.of(build.candidate, version)
        buffer.build(
            build_record(context, build, digest), key, identity_of(context, build.candidate)
        )
    return digest


def _recalled(run: StudyRun, search: SolverSearch) -> Iterator[Build]:
    for candidate in _open_asks(run.context, search):
        build = run.queue.cached_build(candidate)
        if build is None:
            raise MissingCodeError(f"the machine code of {candidate.key} is missing")
        yield build


def _spent(context: TuningContext, sitting: Sitting) -> bool:
    """Whether nothing more is to be asked: the budget is gone, or the searchers have no more."""
    searches = _open_arms(context, sitting)
    if (
        sitting.strategy.skip_failing_solvers
    ):  # whom the builder does not have would be waited for for ever
        searches = [search for search in searches if context.ledger.log(search.study.id)]
    return not _left(searches, sitting) or not _ask_one_arm(searches, sitting.strategy, 1)
