"""A search in rounds: configs are asked for and built at one place, timed and told at another.

What passes between the places is in the ledger: a study's searcher is where the replayed tells put
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
from skipjack.tuning.arm import TURN, Arm, make_arm
from skipjack.tuning.build_desk import BuildDesk, build_record, identity_of, keep_artifact
from skipjack.tuning.context import TuningContext
from skipjack.tuning.journal import Journal
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.proposal import Proposal, first_proposal
from skipjack.tuning.rules import Rules, led_before
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
    rules: Rules
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


def build_round(shop: TuningContext, sitting: Sitting, count: int) -> BuiltRound:
    """Ask for up to `count` configs and build them, and the leaders so far, which run again."""
    arms = _open_arms(shop, sitting)
    desk = BuildDesk(shop)
    journal = Journal(shop.ledger, shop.tracer)
    for arm in arms:
        desk.offer(arm.solver, arm.space)
    asked = _first(arms, sitting)
    room = max(count - len(asked), sum(not arm.asked for arm in arms) if asked else 0)
    asked += _ask(shop, arms, sitting, room, tuple(asked))
    for candidate in asked:
        journal.ask(_arm_of(arms, candidate).study.id, candidate.config)
    versions = {arm.name: arm.solver.version for arm in arms}
    default = _default(shop, sitting)
    if default is not None and default.solver.name not in versions:
        desk.offer(default.solver, default.space)
        versions[default.solver.name] = default.solver.version
    beside = [default.candidate] if default else []
    again = led_before(arms, sitting.rules, default.candidate if default else None)
    for candidate in dict.fromkeys([*asked, *again, *beside]):
        desk.order(candidate)
    failed, digests = [], []
    try:
        while desk.pending:
            for build in desk.collect(1.0, count):
                digest = _record(shop, journal, build, versions[build.candidate.solver])
                if build.status.failed and build.candidate in asked:
                    arm = _arm_of(arms, build.candidate)
                    trial = Trial(build.candidate.config, build.status, reason=build.reason)
                    journal.tell(arm.study.id, [trial])
                    failed.append((build.candidate, trial))
                elif not build.status.failed:
                    digests.append(digest)
    finally:
        desk.cancel()
    journal.flush()
    return BuiltRound(len(asked), tuple(failed), tuple(dict.fromkeys(digests)))


def evaluate_round(
    shop: TuningContext,
    sitting: Sitting,
    interrupt: Interrupt,
    finish: Callable[[StudyRun], R],
    libraries: Sequence[Solver] = (),
) -> ToldRound[R]:
    """Time what was asked for and built beside the leaders of before, and tell it.

    `finish` speaks the verdict once there is nothing left to try. It may take libraries in; those
    that are given here run from the start, so that nobody waits for what is far behind them.
    """
    run = StudyRun(shop, sitting.problem, sitting.options, interrupt, sitting.rules)
    try:
        for arm in run.arms:
            _open_study(shop.ledger, arm, sitting.epoch)
        _check_known(shop.ledger, run.arms)
        run.trials += [trial for arm in run.arms for trial in arm.known]  # the verdict is on all
        run.open_contest()
        run.limit.prepared()
        run.add_vendors(libraries)
        waiting = [build for arm in run.arms for build in _recalled(run, arm)]
        again = [build for leader in run.leaders() if (build := run.desk.recall(leader))]
        if again:
            run.enter_again(again)
        while waiting and not interrupt.requested:
            batch, waiting = waiting[: run.batch()], waiting[run.batch() :]
            run.take(batch)
        trials = tuple((arm.name, trial) for arm in run.arms for trial in arm.trials)
        finished = not waiting and _spent(shop, sitting)
        result = _finished(run, sitting, finish) if finished else None
        best = run.contest.best
        return ToldRound(trials, result, best.time_ns if best else None)
    finally:
        run.close()


def _finished(run: StudyRun, sitting: Sitting, finish: Callable[[StudyRun], R]) -> R:
    default = run.default
    if default is not None and run.default_runner is None:
        build = run.desk.recall(default)
        run.enter_again([build] if build else [])
    for arm in run.arms:
        arm.trials[:0] = arm.known  # what counts are the trials of all rounds
    return finish(run)


def _default(shop: TuningContext, sitting: Sitting) -> Proposal | None:
    """What gains are over: it is built beside every round, also if no searcher asks for it."""
    if sitting.rules.compares:
        with _forgiving(sitting.rules):
            return first_proposal(sitting.problem, shop.target)
    return None


def _open_arms(shop: TuningContext, sitting: Sitting) -> list[Arm]:
    """The solvers that race, their searchers where the tells so far put them."""
    with blaming(f"a solver asked about {sitting.problem.key}"):
        solvers = sitting.rules.solvers(sitting.problem, shop.target)
    arms: list[Arm] = []
    for solver in solvers:
        with _forgiving(sitting.rules):
            arms.append(make_arm(shop, sitting.problem, solver, sitting.options, leads=not arms))
    for arm in arms:
        _open_study(shop.ledger, arm, sitting.epoch)
        arm.asked = len(arm.known)
    left = _left(arms, sitting)
    if left:
        _start(shop, arms, sitting, left)
    return arms


def _start(shop: TuningContext, arms: Sequence[Arm], sitting: Sitting, left: int) -> None:
    options = replace(sitting.options, budget=Budget(trials=left))
    for arm in arms:
        with _forgiving(sitting.rules, arm):
            arm.start(shop, options)


@contextmanager
def _forgiving(rules: Rules, arm: Arm | None = None) -> Iterator[None]:
    """Go on without a solver or a searcher that raises something, if the rules are so."""
    try:
        yield
    except ForeignError as error:
        if not rules.forgiving:
            raise
        log.warning("%s", error)
        if arm is not None:
            arm.broken = str(error)


def _open_study(ledger: Ledger, arm: Arm, epoch: int) -> None:
    record = ledger.start_study(arm.study, arm.solver.version)
    for _ in range(record.epoch, epoch):
        ledger.forget_study(arm.study.id)
    arm.known = tuple(ledger.trials(arm.study.id))
    arm.note(arm.known)


def _check_known(ledger: Ledger, arms: Sequence[Arm]) -> None:
    """Whoever built the round has asked for something, by studies that are known here too."""
    if not any(ledger.log(arm.study.id) for arm in arms):
        what = f"the round of {arms[0].problem.key}" if arms else "a round"
        raise WorkerError(
            f"{what} was asked for by other solvers or spaces than "
            "those here; builders and evaluators need the same version of Skipjack and of plug-ins"
        )


def _open_asks(shop: TuningContext, arm: Arm) -> list[Candidate]:
    entries = shop.ledger.log(arm.study.id)
    told = {entry.config for entry in entries if entry.trial is not None}
    asked = [entry.config for entry in entries if entry.kind == "ask" and entry.config not in told]
    return [arm.candidate(config) for config in dict.fromkeys(asked)]


def _left(arms: Sequence[Arm], sitting: Sitting) -> int:
    most = sitting.rules.most_trials(sitting.options.budget, arms)
    assert most is not None, "rounds have a budget of trials"
    return max(0, most - sum(arm.asked for arm in arms))


def _first(arms: Sequence[Arm], sitting: Sitting) -> list[Candidate]:
    """What is to be tried before searchers are asked, if it can be built and was not yet tried."""
    found = []
    by_name = {arm.name: arm for arm in arms}
    for candidate in dict.fromkeys(sitting.first):
        arm = by_name.get(candidate.solver)
        if arm is None or any(trial.config == candidate.config for trial in arm.known):
            continue
        with _forgiving(sitting.rules, arm), blaming(f"the space of {arm.name}"):
            if arm.space.contains(candidate.config):
                arm.asked += 1
                found.append(candidate)
    return found


def _ask(
    shop: TuningContext,
    arms: Sequence[Arm],
    sitting: Sitting,
    count: int,
    first: Sequence[Candidate],
) -> Iterator[Candidate]:
    """Up to so many configs, besides those that come first in any case."""
    room = min(count, _left(arms, sitting))
    with shop.tracer.span("ask", "search"):
        while room > 0:
            asked = _ask_one_arm(arms, sitting.rules, min(room, TURN))
            if not asked:
                return
            for candidate in asked:
                if candidate in first:
                    _arm_of(arms, candidate).asked -= 1  # it was counted before
                else:
                    room -= 1
                    yield candidate


def _ask_one_arm(arms: Sequence[Arm], rules: Rules, most: int) -> list[Candidate]:
    for arm, limit in rules.round_turns([arm for arm in arms if not arm.broken]):
        with _forgiving(rules, arm):
            configs = arm.ask(min(most, limit)) if limit else []
            if configs:
                return [arm.candidate(config) for config in configs]
    return []


def _arm_of(arms: Sequence[Arm], candidate: Candidate) -> Arm:
    return next(arm for arm in arms if arm.name == candidate.solver)


def _record(shop: TuningContext, journal: Journal, build: Build, version: int) -> str:
    digest = keep_artifact(shop, build) if not build.status.failed else ""
    if build.source_digest:
        key = CandidateKey.of(build.candidate, version)
        journal.build(build_record(shop, build, digest), key, identity_of(shop, build.candidate))
    return digest


def _recalled(run: StudyRun, arm: Arm) -> Iterator[Build]:
    for candidate in _open_asks(run.shop, arm):
        build = run.desk.recall(candidate)
        if build is None:
            raise MissingCodeError(f"the machine code of {candidate.key} is missing")
        yield build


def _spent(shop: TuningContext, sitting: Sitting) -> bool:
    """Whether nothing more is to be asked: the budget is gone, or the searchers have no more."""
    arms = _open_arms(shop, sitting)
    if sitting.rules.forgiving:  # whom the builder does not have would be waited for for ever
        arms = [arm for arm in arms if shop.ledger.log(arm.study.id)]
    return not _left(arms, sitting) or not _ask_one_arm(arms, sitting.rules, 1)
