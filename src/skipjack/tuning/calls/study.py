"""The study of a call that this process makes: searched, confirmed, recorded, banked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skipjack.bank import BankEntry, EntryOrigin, Evidence, ReplacementReason
from skipjack.core import Budget, Candidate, Config, Countable, Problem, Space, Status, Study, Trial
from skipjack.errors import StorageError
from skipjack.interrupt import Interrupted, deferred_interrupt
from skipjack.ledger import DecisionRecord
from skipjack.search import SearchContext
from skipjack.storage import timestamp, utc_now
from skipjack.tuning.calls.evaluator import AHEAD, CallContext, CallEvaluator
from skipjack.tuning.study import (
    LIMITS,
    Contenders,
    Decision,
    LedgerBuffer,
    Limits,
    SolverSearch,
    StudyEngine,
    TimeLimit,
    TuneOutcome,
    TuneStrategy,
    decision_evidence,
    led_before,
    tune_final,
)

log = logging.getLogger(__name__)

REPEATABLE = (Status.OK, Status.BUILD_ERROR, Status.OUT_OF_MEMORY, Status.WRONG)
"""Statuses that are told to the log. A crash or a hang may have been an accident: such a config
stays asked for, and the next process tries it again."""


@dataclass(frozen=True, slots=True)
class CallSearch:
    """The space to search, the searcher and its budget, and what is already known."""

    problem: Problem
    solver: str
    version: int
    study: Study
    space: Space
    """The configs that may be asked for."""
    default: Config
    """The config that would run without tuning; it need not be in the space."""
    budget: Budget
    all: bool = False
    """Whether every config of the space is tried, even after the seconds of the budget."""
    known: tuple[Trial, ...] = ()
    """Trials of earlier runs."""
    unlogged: bool = False
    """Whether the study's log lacks these trials, because an earlier version made them."""
    again: bool = False
    """Whether the study starts over and its log is cleared."""
    incumbent: tuple[Config, BankEntry] | None = None
    """The bank's config and entry, if the config is in the space."""
    banked_as: Callable[[Config], Config] = lambda config: config
    """A config as banks write it."""
    evidence: Callable[[Sequence[Config]], Mapping[str, Any]] = lambda tried: {}
    """Further evidence for an entry, from the configs that were tried."""
    limits: Limits = LIMITS


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of `tune_call`."""

    best: Config | None
    """None if nothing ran."""
    outcome: TuneOutcome
    times_ns: Mapping[Config, float] = field(default_factory=dict)
    reasons: Mapping[Config, str] = field(default_factory=dict)
    """Why configs failed."""


@dataclass(slots=True)
class _CallSolver:
    """Name and version in place of a solver, which calls do not need."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class _Strategy(TuneStrategy):
    least: int = 0
    """The number of trials that are made even after the time limit."""

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        wanted = max(self.least, 1 if limit.over() else self.limits.fewest_trials)
        return sum(len(search.trials) for search in searches) >= wanted


class _Buffer(LedgerBuffer):
    """A buffer for programs, which continue with one warning if results cannot be kept."""

    kept = True

    def tell(self, study: str, trials: Sequence[Trial]) -> None:
        super().tell(study, [trial for trial in trials if trial.status in REPEATABLE])

    def flush(self) -> None:
        if self.kept:
            try:
                super().flush()
            except StorageError as error:
                log.warning("autotuning results are not kept: %s", error)
                self.kept = False
        self.discard()


def tune_call(context: CallContext, call_search: CallSearch) -> CallResult:
    """Search, confirm the best next to the default and the bank's config, and keep the decision.

    Raises `Interrupted` after Ctrl-C: the trials that were made are kept, and nothing is decided.
    """
    solver = _CallSolver(call_search.solver, call_search.version)
    search = SolverSearch(
        call_search.problem, solver, call_search.space, call_search.study, True, call_search.known
    )
    search.begin(
        SearchContext(
            call_search.space,
            call_search.study.seed,
            call_search.budget.trials,
            known=call_search.known,
        )
    )
    buffer = _Buffer(context.ledger, context.tracer)
    _start(context, call_search, buffer)
    limits = replace(call_search.limits, retimed_leaders=1)
    if context.protocol.race_blocks == 1:  # one sample takes long
        limits = replace(limits, finalists=1)
    least = (
        call_search.space.count()
        if call_search.all and isinstance(call_search.space, Countable)
        else 0
    )
    evaluator = CallEvaluator(context, buffer, limits, call_search.version, max(AHEAD, least))
    with deferred_interrupt("keeping what was timed") as interrupt:
        limit = TimeLimit(call_search.budget, interrupt, context.clock, limits)
        strategy = _Strategy(limits=limits, least=least)
        engine = StudyEngine([search], strategy, evaluator, limit, buffer)
        try:
            return _Run(context, call_search, engine, evaluator, search).decide()
        finally:  # keep what was timed before a fault or a second Ctrl-C, too
            buffer.flush()


def _start(context: CallContext, call_search: CallSearch, buffer: _Buffer) -> None:
    try:
        context.ledger.add_device(context.device)
        context.ledger.start_study(call_search.study, call_search.version)
        if call_search.again:
            context.ledger.forget_study(call_search.study.id)
    except StorageError as error:
        log.warning("autotuning results are not kept: %s", error)
        buffer.kept = False
    if call_search.unlogged:
        buffer.tell(call_search.study.id, call_search.known)


@dataclass(frozen=True, slots=True)
class _Run:
    context: CallContext
    call_search: CallSearch
    engine: StudyEngine
    evaluator: CallEvaluator
    search: SolverSearch

    def decide(self) -> CallResult:
        default = self.search.candidate(self.call_search.default)
        self.engine.run(self._beside(default))
        self.engine.search()
        if default.key not in self.evaluator.loaded.keys() | self.evaluator.failed:
            self.engine.run([default])
        decision = self._decided(default)
        if self.engine.limit.interrupted:
            raise Interrupted(None)
        outcome = decision.outcome() if decision else TuneOutcome.FAILED
        if decision:
            self._keep(decision, outcome)
        known = {t.config: t.value for t in self.call_search.known if t.ok and t.value is not None}
        timed = {one.candidate.config: one.time_ns for one in self.evaluator.loaded.values()}
        refused = {t.config: t.reason for t in self.call_search.known if t.status.failed}
        times_ns = {c: ns for c, ns in (known | timed).items() if c not in self.evaluator.reasons}
        return CallResult(
            decision.chosen(outcome).candidate.config if decision else None,
            outcome,
            times_ns,
            refused | self.evaluator.reasons,
        )

    def _beside(self, default: Candidate) -> list[Candidate]:
        """What is timed with the new configs: the default, the bank's config, earlier leaders."""
        led = led_before([self.search], self.engine.strategy, default)
        held = (
            [self.search.candidate(self.call_search.incumbent[0])]
            if self.call_search.incumbent
            else []
        )
        first = [default] if not self.call_search.space.contains(default.config) else []
        beside = dict.fromkeys([*first, *held, *led])
        if not self.call_search.all:
            return list(beside)
        known = {trial.config for trial in self.call_search.known}
        return [one for one in beside if one.config in known]  # others are asked for anyway

    def _decided(self, default: Candidate) -> Decision | None:
        """The decision on the fastest config that still runs when it is confirmed."""
        while not self.engine.limit.interrupted:
            winner = tune_final(self.evaluator, self.engine.limits).winner
            if winner is None:
                break
            decision = self.engine.decide(self._contenders(winner.candidate, default))
            if decision is not None:
                return decision
        return None

    def _contenders(self, winner: Candidate, default: Candidate) -> Contenders:
        loaded = self.evaluator.loaded
        held, incumbent, lost = None, None, None
        if self.call_search.incumbent is not None:
            config, held = self.call_search.incumbent
            incumbent = loaded.get(self.search.candidate(config).key)
            lost = ReplacementReason.FAILED if incumbent is None else None
        return Contenders(
            loaded[winner.key], loaded.get(default.key), incumbent, held=held, lost=lost
        )

    def _keep(self, decision: Decision, outcome: TuneOutcome) -> None:
        entry = self._entry(decision, outcome)
        enters = decision.enters(outcome)
        self.engine.buffer.flush()
        try:
            self.context.ledger.add_decision(
                DecisionRecord(
                    self.call_search.study.id,
                    entry.problem,
                    entry.device,
                    entry.solver,
                    Config(dict(entry.config)),
                    "banked" if enters else str(outcome),
                    entry.record(),
                    entry.created,
                )
            )
            if enters:
                self.context.bank.put(entry)
        except StorageError as error:
            log.warning("autotuning results are not kept: %s", error)

    def _entry(self, decision: Decision, outcome: TuneOutcome) -> BankEntry:
        context, call_search = self.context, self.call_search
        best = decision.kept(outcome)
        tried = [
            trial.config
            for trial in (*call_search.known, *self.search.trials)
            if _is_repeatable(trial)
        ]
        return BankEntry(
            problem=call_search.problem.key,
            device=context.device.class_key,
            device_name=context.device.name,
            solver=call_search.solver,
            solver_version=call_search.version,
            config=call_search.banked_as(best.candidate.config),
            time_ns=decision.timing(best).time_ns,
            default_ns=decision.default_ns(best),
            vendor_ns=None,
            vendor="",
            speedup=decision.speedup(best).banked(),
            evidence=Evidence(
                {
                    **decision_evidence(decision, outcome, context.device),
                    "study": call_search.study.id,
                    "ties": [
                        dict(call_search.banked_as(tie.candidate.config))
                        for tie in decision.ties(best)
                    ],
                    **call_search.evidence(tried),
                }
            ),
            created=timestamp(utc_now()),
            protocol=context.protocol.key,
            toolchain=context.toolchain,
            origin=EntryOrigin.of("autotune", context.device),
        )


def _is_repeatable(trial: Trial) -> bool:
    return trial.status in REPEATABLE
