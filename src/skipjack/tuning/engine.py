"""The study engine: it asks searchers, keeps an evaluator busy, and tells what comes back.

What a candidate is made of and how it is measured is the evaluator's business: kernels in a run
session, commands, or calls in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from skipjack.core.study import Budget
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ForeignError
from skipjack.execute.confirm import MIN_EFFECT
from skipjack.execute.statistics import Ratio
from skipjack.trace import Tracer
from skipjack.tuning.ledger_buffer import LedgerBuffer
from skipjack.tuning.limits import Limits
from skipjack.tuning.options import TimeLimit
from skipjack.tuning.solver_search import SolverSearch
from skipjack.tuning.strategy import SearchStrategy

log = logging.getLogger(__name__)

Told = tuple[Candidate, Trial]


class Evaluator(Protocol):
    """Takes candidates, gives trials as they come, and compares two for good. One thread.

    A candidate that fails is a trial with a status, never an exception.
    """

    @property
    def pending(self) -> int:
        """Candidates that were submitted and have not come back."""

    @property
    def ahead(self) -> int:
        """How many it wants at hand, so that it need not wait for a searcher."""

    @property
    def pace_ns(self) -> float:
        """What the fastest so far takes; infinite while nothing is known."""

    def leader_times_ns(self) -> Sequence[float]:
        """What the fastest of each solver takes."""

    def submit(self, candidate: Candidate) -> None:
        """Take a candidate; it comes out of `collect` sooner or later."""

    def collect(self, wait_s: float) -> list[Told]:
        """What came of some of them, waiting up to this long for the first."""

    def withdraw(self) -> None:
        """Forget those that were not begun."""

    def compare(
        self, challenger: Candidate, rival: Candidate, stop: Callable[[], bool]
    ) -> Ratio | None:
        """How many times faster the challenger is, on fresh samples; None if one fails now."""


class StudyEngine:
    """Owns who is asked, the budget, the order of candidates, telling, and the decision.

    Searches that were started with the trials of earlier runs go on where those ended.
    """

    def __init__(
        self,
        searches: list[SolverSearch],
        strategy: SearchStrategy,
        evaluator: Evaluator,
        limit: TimeLimit,
        budget: Budget,
        buffer: LedgerBuffer,
        tracer: Tracer,
        limits: Limits,
    ) -> None:
        self.searches, self.strategy = searches, strategy
        self.limit, self.budget, self.limits = limit, budget, limits
        self.buffer, self._tracer = buffer, tracer
        self._evaluator = evaluator
        self.trials: list[Trial] = []

    def search(self) -> None:
        """Spend the budget; an interrupt ends the search early and keeps what is known."""
        while True:
            over = self.limit.interrupted or self._late()
            if not over:
                self.ask(self._evaluator.ahead - self._evaluator.pending)
            if over or not self._evaluator.pending:
                break
            told = self._evaluator.collect(0.05)
            if told:
                self.tell(told)
        self._evaluator.withdraw()
        self.buffer.flush()

    def _late(self) -> bool:
        late = self.limit.late(self.strategy.final_s(self._evaluator))
        return late and self.strategy.enough(self.searches, self.limit)

    def left(self) -> int | None:
        """Trials that may still be asked for; None for any number."""
        most = self.strategy.most_trials(self.budget, self.searches)
        if most is None:
            return None
        return max(0, most - sum(search.asked for search in self.searches))

    def ask(self, most: int) -> list[Candidate]:
        """Let searchers ask for up to `most` candidates, and submit them."""
        left = self.left()
        room = most if left is None else min(most, left)
        asked: list[Candidate] = []
        with self._tracer.span("ask", "search"):
            while room > len(asked):
                batch = self.next_of(self.searches, room - len(asked), self._evaluator.pace_ns)
                if not batch:
                    break
                asked += self.submit(batch)
        return asked

    def next_of(
        self,
        searches: Sequence[SolverSearch],
        most: int,
        pace_ns: float,
        *,
        unseen: bool = False,
    ) -> list[Candidate]:
        """What the search whose turn it is asks for; the next one's where it waits or is done.

        With `unseen` nothing of what is asked for comes back before all of it was asked for.
        """
        able = [search for search in searches if not search.broken]
        for search, limit in self.strategy.turns(able, pace_ns, unseen=unseen):
            with self.skipping_failures(partial(setattr, search, "broken")):
                count = min(most, limit, self.limits.turn_configs)
                configs = search.ask(count) if count else []
                if configs:
                    return [search.candidate(config) for config in configs]
        return []

    def submit(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Write down that these were asked for, and give them to the evaluator."""
        for candidate in candidates:
            search = self.search_of(candidate)
            with self.skipping_failures(partial(setattr, search, "broken")):
                self.buffer.ask(search.study.id, candidate.config)
                self._evaluator.submit(candidate)
        return list(candidates)

    def tell(self, told: Sequence[Told]) -> None:
        """Tell searchers what came of what they asked for."""
        with self._tracer.span("tell", "search"):
            for search, own in self.by_search(told):
                with self.skipping_failures(partial(setattr, search, "broken")):
                    search.tell(own)
                self.buffer.tell(search.study.id, own)
        self.buffer.flush()
        self.trials += [trial for _, trial in told]
        self.report("search")

    def by_search(self, told: Sequence[Told]) -> Iterator[tuple[SolverSearch, list[Trial]]]:
        """The trials of each search that has any."""
        for search in self.searches:
            own = [trial for candidate, trial in told if candidate.solver == search.name]
            if own:
                yield search, own

    def search_of(self, candidate: Candidate) -> SolverSearch:
        """The search that a candidate belongs to."""
        return next(search for search in self.searches if search.name == candidate.solver)

    def decide(self, default: Candidate) -> tuple[Candidate, Ratio | None]:
        """The fastest that was told, if it is confirmed to beat the default; else the default."""
        tried = [
            (trial.value, number, search.candidate(trial.config))
            for search in self.searches
            for number, trial in enumerate((*search.known, *search.trials))
            if trial.ok and trial.value is not None
        ]
        best = min(tried, key=lambda one: one[:2], default=(0.0, 0, default))[2]
        if best == default:
            return default, None
        gain = self._evaluator.compare(best, default, self.limit.over)
        confirmed = gain is not None and gain.supported and gain.low > 1.0 + MIN_EFFECT
        return best if confirmed else default, gain

    def report(self, phase: str) -> None:
        """Called after every batch, for whoever watches."""

    @contextmanager
    def skipping_failures(self, note: Callable[[str], None]) -> Iterator[None]:
        """Note what foreign code raises, and go on without it, if the strategy says so."""
        try:
            yield
        except ForeignError as error:
            if not self.strategy.skip_failing_solvers:
                raise
            log.warning("%s", error)
            note(str(error))
