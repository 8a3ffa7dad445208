"""A tuning in rounds: configs are asked for and built at one place, timed and told at another.

What passes between the places is in the ledger: a study's searcher is where the replayed tells put
it, and configs that were asked for and not yet told are those of the round under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import StorageError, WorkerError
from skipjack.execute.build_pool import Build
from skipjack.interrupt import Interrupt
from skipjack.ledger import CandidateKey, Ledger
from skipjack.tuning.arm import TURN, Arm, in_turn, make_arm
from skipjack.tuning.build_desk import BuildDesk, build_record
from skipjack.tuning.final import finish_tuning
from skipjack.tuning.journal import Journal
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.result import TuneResult
from skipjack.tuning.rules import TuneRules, led_before
from skipjack.tuning.study_run import StudyRun
from skipjack.tuning.verdict import conclude
from skipjack.tuning.workshop import Workshop


class MissingCodeError(StorageError):
    """Machine code of a config that was asked for is not there; build the round again."""


@dataclass(frozen=True, slots=True)
class BuiltRound:
    """What came of asking and building."""

    asked: int
    failed: tuple[tuple[Candidate, Trial], ...]
    """Those that did not build; they are told already."""
    digests: tuple[str, ...]
    """The machine code of the others."""


@dataclass(frozen=True, slots=True)
class ToldRound:
    """What came of timing."""

    trials: tuple[tuple[str, Trial], ...]
    """With the names of their solvers."""
    result: TuneResult | None
    """The verdict, if the budget is spent or there is nothing left to try."""
    best_ns: float | None


def build_round(
    shop: Workshop, problem: Problem, options: TuneOptions, count: int, epoch: int = 0
) -> BuiltRound:
    """Ask for up to `count` configs and build them, and the leaders so far, which run again."""
    arms = _open_arms(shop, problem, options, epoch)
    desk = BuildDesk(shop)
    journal = Journal(shop.ledger, shop.tracer)
    for arm in arms:
        desk.offer(arm.solver, arm.space)
    asked = list(_ask(shop, arms, options, count))
    for candidate in asked:
        journal.ask(_arm_of(arms, candidate).study.id, candidate.config)
    for candidate in dict.fromkeys([*asked, *led_before(arms, TuneRules())]):
        desk.order(candidate)
    failed, digests = [], []
    try:
        while desk.pending:
            for build in desk.collect(1.0, count):
                arm = _arm_of(arms, build.candidate)
                digest = _record(shop, journal, build, arm.solver.version)
                if build.status.failed and build.candidate in asked:
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
    shop: Workshop, problem: Problem, options: TuneOptions, interrupt: Interrupt, epoch: int = 0
) -> ToldRound:
    """Time what was asked for and built beside the leaders of before, and tell it."""
    run = StudyRun(shop, problem, options, interrupt, TuneRules(options.solver))
    try:
        for arm in run.arms:
            _open_study(shop.ledger, arm, epoch)
        _check_known(shop.ledger, run.arms)
        run.trials += [trial for arm in run.arms for trial in arm.known]  # the verdict is on all
        run.open_contest()
        run.limit.prepared()
        waiting = [build for arm in run.arms for build in _recalled(run, arm)]
        again = [build for leader in run.leaders() if (build := run.desk.recall(leader))]
        if again:
            run.enter_again(again)
        while waiting and not interrupt.requested:
            batch, waiting = waiting[: run.batch()], waiting[run.batch() :]
            run.take(batch)
        finished = not waiting and _spent(shop, run.arms, options)
        result = conclude(run, finish_tuning(run)) if finished else None
        best = run.contest.best
        trials = tuple((arm.name, trial) for arm in run.arms for trial in arm.trials)
        return ToldRound(trials, result, best.time_ns if best else None)
    finally:
        run.close()


def _open_arms(shop: Workshop, problem: Problem, options: TuneOptions, epoch: int) -> list[Arm]:
    """The solvers that race, their searchers where the tells so far put them."""
    solvers = TuneRules(options.solver).solvers(problem, shop.target)
    arms: list[Arm] = []
    for solver in solvers:
        arms.append(make_arm(shop, problem, solver, options, leads=not arms))
    for arm in arms:
        _open_study(shop.ledger, arm, epoch)
    left = _left(arms, options)
    for arm in arms:
        arm.asked = len(arm.known)
        if left:
            arm.start(shop, replace(options, budget=Budget(trials=left)))
    return arms


def _open_study(ledger: Ledger, arm: Arm, epoch: int) -> None:
    record = ledger.start_study(arm.study, arm.solver.version)
    for _ in range(record.epoch, epoch):
        ledger.forget_study(arm.study.id)
    arm.known = tuple(ledger.trials(arm.study.id))
    arm.note(arm.known)


def _check_known(ledger: Ledger, arms: Sequence[Arm]) -> None:
    """Whoever built the round has asked for something, by studies that are known here too."""
    if not any(ledger.log(arm.study.id) for arm in arms):
        raise WorkerError(
            f"the round of {arms[0].problem.key} was asked for by other solvers or spaces than "
            "those here; builders and evaluators need the same version of Skipjack and of plug-ins"
        )


def _open_asks(shop: Workshop, arm: Arm) -> list[Candidate]:
    log = shop.ledger.log(arm.study.id)
    told = {entry.config for entry in log if entry.trial is not None}
    asked = [entry.config for entry in log if entry.kind == "ask" and entry.config not in told]
    return [arm.candidate(config) for config in dict.fromkeys(asked)]


def _left(arms: Sequence[Arm], options: TuneOptions) -> int:
    assert options.budget.trials is not None, "rounds have a budget of trials"
    return max(0, options.budget.trials - sum(len(arm.known) for arm in arms))


def _ask(
    shop: Workshop, arms: Sequence[Arm], options: TuneOptions, count: int
) -> Iterator[Candidate]:
    room = min(count, _left(arms, options))
    with shop.tracer.span("ask", "search"):
        while room > 0:
            asked = _ask_one_arm(arms, min(room, TURN))
            if not asked:
                return
            room -= len(asked)
            yield from asked


def _ask_one_arm(arms: Sequence[Arm], most: int) -> list[Candidate]:
    for arm, limit in in_turn(arms):
        configs = arm.ask(min(most, limit)) if limit else []
        if configs:
            return [arm.candidate(config) for config in configs]
    return []


def _arm_of(arms: Sequence[Arm], candidate: Candidate) -> Arm:
    return next(arm for arm in arms if arm.name == candidate.solver)


def _record(shop: Workshop, journal: Journal, build: Build, version: int) -> str:
    digest = shop.keep(build) if not build.status.failed else ""
    if build.source_digest:
        key = CandidateKey.of(build.candidate, version)
        journal.build(build_record(shop, build, digest), key)
    return digest


def _recalled(run: StudyRun, arm: Arm) -> Iterator[Build]:
    for candidate in _open_asks(run.shop, arm):
        build = run.desk.recall(candidate)
        if build is None:
            raise MissingCodeError(f"the machine code of {candidate.key} is missing")
        yield build


def _spent(shop: Workshop, arms: Sequence[Arm], options: TuneOptions) -> bool:
    """Whether nothing more is to be asked: the budget is gone, or the searchers have no more."""
    fresh = [make_arm(shop, arm.problem, arm.solver, options, leads=arm.leads) for arm in arms]
    for arm in fresh:
        arm.known = tuple(shop.ledger.trials(arm.study.id))
    left = _left(fresh, options)
    if not left:
        return True
    for arm in fresh:
        arm.start(shop, replace(options, budget=Budget(trials=left)))
    return not any(arm.ask(1) for arm in fresh)
