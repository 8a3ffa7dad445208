"""The study of a call that this process makes: searched, confirmed, written down, banked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skipjack.bank import BankEntry, EntryOrigin, Evidence, Met
from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.space import Countable, Space
from skipjack.core.study import Budget, Study
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.errors import StorageError
from skipjack.interrupt import Interrupted, watch_for_interrupt
from skipjack.ledger import VerdictRecord
from skipjack.search import SearchContext
from skipjack.storage import timestamp, utc_now
from skipjack.tuning.calls.evaluator import AHEAD, CallContext, CallEvaluator
from skipjack.tuning.decision import Contenders, Decision
from skipjack.tuning.engine import LedgerBuffer, StudyEngine
from skipjack.tuning.final import tune_final
from skipjack.tuning.limits import LIMITS, Limits
from skipjack.tuning.options import TimeLimit
from skipjack.tuning.result import Outcome
from skipjack.tuning.solver_search import SolverSearch
from skipjack.tuning.strategy import TuneStrategy, led_before
from skipjack.tuning.verdict import decision_evidence

log = logging.getLogger(__name__)

LASTING = (Status.OK, Status.BUILD_ERROR, Status.OUT_OF_MEMORY, Status.WRONG)
"""What is told to the log. A crash or a hang may have been an accident: such a config stays asked
for, and the next process tries it again."""


@dataclass(frozen=True, slots=True)
class CallSearch:
    """The space to search, the searcher and its budget, and what is known already."""

    problem: Problem
    solver: str
    version: int
    study: Study
    space: Space
    """What may be asked for."""
    default: Config
    """What would run without tuning; it need not be in the space."""
    budget: Budget
    all: bool = False
    """Whether every config of the space is tried, also after the seconds of the budget."""
    known: tuple[Trial, ...] = ()
    """Trials of earlier runs."""
    unlogged: bool = False
    """Whether the study's log lacks them, because an earlier version made them."""
    again: bool = False
    """Whether the study starts over and its log is cleared."""
    incumbent: tuple[Config, BankEntry] | None = None
    """What the bank holds, if it is among the configs."""
    banked_as: Callable[[Config], Config] = lambda config: config
    """How banks spell a config."""
    evidence: Callable[[Sequence[Config]], Mapping[str, Any]] = lambda tried: {}
    """What an entry says of the search beyond its samples, from the configs that were tried."""
    limits: Limits = LIMITS


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """What `tune_call` has found."""

    best: Config | None
    """None if nothing ran."""
    outcome: Outcome
    times_ns: Mapping[Config, float] = field(default_factory=dict)
    reasons: Mapping[Config, str] = field(default_factory=dict)
    """Why configs failed, for those that did."""


@dataclass(slots=True)
class _Named:
    """The solver of a study whose candidates need none."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class _Strategy(TuneStrategy):
    least: int = 0
    """This many trials are made even after the time limit."""

    def enough(self, searches: Sequence[SolverSearch], limit: TimeLimit) -> bool:
        wanted = max(self.least, 1 if limit.over() else self.limits.fewest_trials)
        return sum(len(search.trials) for search in searches) >= wanted


class _Buffer(LedgerBuffer):
    """A program goes on where its results cannot be kept, and is told so once."""

    kept = True

    def tell(self, study: str, trials: Sequence[Trial]) -> None:
        super().tell(study, [trial for trial in trials if trial.status in LASTING])

    def flush(self) -> None:
        if self.kept:
            try:
                super().flush()
            except StorageError as error:
                log.warning("autotuning results are not kept: %s", error)
                self.kept = False
        self.discard()


def tune_call(context: CallContext, wish: CallSearch) -> CallVerdict:
    """Search, confirm the best beside the default and the bank's config, and keep the verdict.

    `Interrupted` after Ctrl-C: the trials that were made are kept, and nothing is decided.
    """
    solver = _Named(wish.solver, wish.version)
    search = SolverSearch(wish.problem, solver, wish.space, wish.study, True, wish.known)
    search.begin(SearchContext(wish.space, wish.study.seed, wish.budget.trials, known=wish.known))
    buffer = _Buffer(context.ledger, context.tracer)
    _start(context, wish, buffer)
    limits = replace(wish.limits, retimed_leaders=1)
    if context.protocol.race_blocks == 1:  # one sample takes long
        limits = replace(limits, finalists=1)
    least = wish.space.count() if wish.all and isinstance(wish.space, Countable) else 0
    evaluator = CallEvaluator(context, buffer, limits, wish.version, max(AHEAD, least))
    with watch_for_interrupt("keeping what was timed") as interrupt:
        limit = TimeLimit(wish.budget, interrupt, context.clock, limits)
        strategy = _Strategy(limits=limits, least=least)
        engine = StudyEngine([search], strategy, evaluator, limit, buffer)
        try:
            return _Run(context, wish, engine, evaluator, search).verdict()
        finally:  # also what was timed before a fault or a second Ctrl-C
            buffer.flush()


def _start(context: CallContext, wish: CallSearch, buffer: _Buffer) -> None:
    try:
        context.ledger.add_device(context.device)
        context.ledger.start_study(wish.study, wish.version)
        if wish.again:
            context.ledger.forget_study(wish.study.id)
    except StorageError as error:
        log.warning("autotuning results are not kept: %s", error)
        buffer.kept = False
    if wish.unlogged:
        buffer.tell(wish.study.id, wish.known)


@dataclass(frozen=True, slots=True)
class _Run:
    context: CallContext
    wish: CallSearch
    engine: StudyEngine
    evaluator: CallEvaluator
    search: SolverSearch

    def verdict(self) -> CallVerdict:
        default = self.search.candidate(self.wish.default)
        self.engine.run(self._beside(default))
        self.engine.search()
        if default.key not in self.evaluator.loaded.keys() | self.evaluator.failed:
            self.engine.run([default])
        decision = self._decided(default)
        if self.engine.limit.interrupted:
            raise Interrupted(None)
        outcome = decision.outcome() if decision else Outcome.FAILED
        if decision:
            self._keep(decision, outcome)
        known = {t.config: t.value for t in self.wish.known if t.ok and t.value is not None}
        timed = {one.candidate.config: one.time_ns for one in self.evaluator.loaded.values()}
        refused = {t.config: t.reason for t in self.wish.known if t.status.failed}
        times_ns = {c: ns for c, ns in (known | timed).items() if c not in self.evaluator.reasons}
        return CallVerdict(
            decision.chosen(outcome).candidate.config if decision else None,
            outcome,
            times_ns,
            refused | self.evaluator.reasons,
        )

    def _beside(self, default: Candidate) -> list[Candidate]:
        """What runs beside the new ones: the default, the bank's config, the leader of before."""
        led = led_before([self.search], self.engine.strategy, default)
        held = [self.search.candidate(self.wish.incumbent[0])] if self.wish.incumbent else []
        first = [default] if not self.wish.space.contains(default.config) else []
        beside = dict.fromkeys([*first, *held, *led])
        if not self.wish.all:
            return list(beside)
        known = {trial.config for trial in self.wish.known}
        return [one for one in beside if one.config in known]  # others are asked for anyway

    def _decided(self, default: Candidate) -> Decision | None:
        """The verdict on the fastest that still runs when it is confirmed."""
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
        if self.wish.incumbent is not None:
            config, held = self.wish.incumbent
            incumbent = loaded.get(self.search.candidate(config).key)
            lost = Met.FAILED if incumbent is None else None
        return Contenders(
            loaded[winner.key], loaded.get(default.key), incumbent, held=held, lost=lost
        )

    def _keep(self, decision: Decision, outcome: Outcome) -> None:
        entry = self._entry(decision, outcome)
        enters = decision.enters(outcome)
        self.engine.buffer.flush()
        try:
            self.context.ledger.add_verdict(
                VerdictRecord(
                    self.wish.study.id,
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

    def _entry(self, decision: Decision, outcome: Outcome) -> BankEntry:
        context, wish = self.context, self.wish
        best = decision.kept(outcome)
        tried = [trial.config for trial in (*wish.known, *self.search.trials) if _lasts(trial)]
        return BankEntry(
            problem=wish.problem.key,
            device=context.device.class_key,
            device_name=context.device.name,
            solver=wish.solver,
            solver_version=wish.version,
            config=wish.banked_as(best.candidate.config),
            time_ns=decision.timing(best).time_ns,
            default_ns=decision.default_ns(best),
            vendor_ns=None,
            vendor="",
            speedup=decision.speedup(best).banked(),
            evidence=Evidence(
                {
                    **decision_evidence(decision, outcome, context.device),
                    "study": wish.study.id,
                    "ties": [
                        dict(wish.banked_as(tie.candidate.config)) for tie in decision.ties(best)
                    ],
                    **wish.evidence(tried),
                }
            ),
            created=timestamp(utc_now()),
            protocol=context.protocol.key,
            toolchain=context.toolchain,
            origin=EntryOrigin.of("autotune", context.device),
        )


def _lasts(trial: Trial) -> bool:
    return trial.status in LASTING
