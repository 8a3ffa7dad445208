"""The study engine: asks searchers for configs, has an evaluator measure them, and decides.

The evaluator knows what a candidate consists of and how it is measured: kernels in a run session,
commands, or calls in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from skipjack.core import Candidate, Config, Trial
from skipjack.errors import ForeignError
from skipjack.execute import Session, confirm
from skipjack.ledger import BuildRecord, CandidateKey, Ledger, MeasurementRecord
from skipjack.trace import Tracer
from skipjack.tuning.study.decision import Contenders, Decision
from skipjack.tuning.study.loaded_candidate import LoadedCandidate
from skipjack.tuning.study.options import TimeLimit
from skipjack.tuning.study.solver_search import SolverSearch
from skipjack.tuning.study.strategy import SearchStrategy

log = logging.getLogger(__name__)

CandidateTrial = tuple[Candidate, Trial]


class LedgerBuffer:
    """Records of a study run, collected and written to the ledger batch by batch.

    One transaction for each record took longer than the search.
    """

    def __init__(self, ledger: Ledger, tracer: Tracer) -> None:
        self._ledger, self.tracer = ledger, tracer
        self._asks: list[tuple[str, Config]] = []
        self._tells: dict[str, list[Trial]] = {}
        self._builds: list[tuple[BuildRecord, tuple[CandidateKey, ...], str]] = []
        self._measurements: list[MeasurementRecord] = []

    def ask(self, study: str, config: Config) -> None:
        """Record that a study's searcher asked for a config."""
        self._asks.append((study, config))

    def tell(self, study: str, trials: Sequence[Trial]) -> None:
        """Record that a study's searcher was told these trials."""
        self._tells.setdefault(study, []).extend(trials)

    def build(self, build: BuildRecord, *candidates: CandidateKey, identity: str) -> None:
        """Record a build of candidates with this identity."""
        self._builds.append((build, candidates, identity))

    def measure(self, records: Sequence[MeasurementRecord]) -> None:
        """Record blocks that were timed."""
        self._measurements += records

    def discard(self) -> None:
        """Forget everything that was not written."""
        self._asks, self._tells, self._builds, self._measurements = [], {}, [], []

    def flush(self) -> None:
        """Write all records to the ledger."""
        with self.tracer.span("write", "ledger"), self._ledger.writing():
            for study, config in self._asks:
                self._ledger.log_ask(study, config)
            for build, candidates, identity in self._builds:
                self._ledger.add_build(build, *candidates, identity=identity)
            self._ledger.add_measurements(self._measurements)
            for study, trials in self._tells.items():
                self._ledger.log_tells(study, trials)
        self.discard()


class Evaluator(Session, Protocol):
    """Measures candidates, returns their trials, and times some side by side. One thread.

    A candidate that fails is a trial with a status and a reason, never an exception; an exception
    ends the study. `skipjack.testing.evaluators` tests this contract.
    """

    @property
    def pending(self) -> int:
        """Candidates that were submitted and not yet returned."""

    @property
    def ahead(self) -> int:
        """How many candidates it wants pending, so that it never waits; at least one."""

    @property
    def pace_ns(self) -> float:
        """The time of the fastest candidate so far; infinite while nothing is known."""

    @property
    def confirm_pairs(self) -> int:
        """How often a winner is timed next to its competitors, at most."""

    def leader_times_ns(self) -> Sequence[float]:
        """The time of the fastest candidate of each solver."""

    def submit(self, candidate: Candidate) -> None:
        """Accept a candidate that is not pending; `collect` returns it once.

        A candidate that was returned may be submitted again, and is then returned again.
        """

    def collect(self, wait_s: float) -> list[CandidateTrial]:
        """The trials of some candidates, waiting up to this long for the first."""

    def withdraw(self) -> None:
        """Forget the candidates that were not returned. Those that were timed may still win."""

    def finalists(self, count: int, *, but: Candidate | None = None) -> list[LoadedCandidate]:
        """The fastest candidates that were timed here and may win, best first, without `but`.

        There may be fewer than `count` if calls are long.
        """

    def runs_unaligned(self, loaded: LoadedCandidate) -> bool:
        """Whether it may win, being right on unaligned arrays too; otherwise it is dropped."""


class StudyEngine:
    """Decides which search is asked next, keeps the budget, tells searchers, finds the winner.

    Searches that were started with the trials of earlier runs continue where those ended.
    """

    def __init__(
        self,
        searches: list[SolverSearch],
        strategy: SearchStrategy,
        evaluator: Evaluator,
        limit: TimeLimit,
        buffer: LedgerBuffer,
    ) -> None:
        self.searches, self.strategy, self.evaluator = searches, strategy, evaluator
        self.limit, self.limits, self.budget = limit, limit.limits, limit.budget
        self.buffer = buffer
        self.trials: list[Trial] = []
        self.awaited: set[Candidate] = set()
        """Candidates that were asked for, here or on another machine, and not told."""

    def search(self) -> None:
        """Search until the budget is spent; an interrupt ends it early and keeps what is known."""
        while not (self.limit.interrupted or self._late()):
            self.ask(self.evaluator.ahead - self.evaluator.pending)
            if not self.evaluator.pending:
                break
            self.take(self.evaluator.collect(0.05))
        self.evaluator.withdraw()
        self.buffer.flush()

    def run(self, candidates: Sequence[Candidate]) -> None:
        """Measure all of these, whether or not a searcher asked for them."""
        for candidate in candidates if not self.limit.interrupted else ():
            self.evaluator.submit(candidate)
        while self.evaluator.pending and not self.limit.interrupted:
            self.take(self.evaluator.collect(1.0))

    def _late(self) -> bool:
        late = self.limit.late(self.strategy.final_s(self.evaluator))
        return late and self.strategy.enough(self.searches, self.limit)

    def left(self) -> int | None:
        """Trials that may still be asked for; None if there is no limit."""
        most = self.strategy.most_trials(self.budget, self.searches)
        if most is None:
            return None
        return max(0, most - sum(search.asked for search in self.searches))

    def ask(self, most: int, *, unseen: bool = False) -> None:
        """Let searchers ask for up to `most` candidates, and submit them."""
        left = self.left()
        room = most if left is None else min(most, left)
        with self.buffer.tracer.span("ask", "search"):
            while room > 0 and (batch := self.next_candidates(room, unseen=unseen)):
                new = [candidate for candidate in batch if candidate not in self.awaited]
                for candidate in set(batch).difference(new):
                    self.search_of(candidate).asked -= 1  # it was counted before
                self.submit(new)
                room -= len(new)

    def next_candidates(self, most: int, *, unseen: bool = False) -> list[Candidate]:
        """The configs of the search whose turn it is, or of the next if it waits or is done.

        With `unseen`, no result is returned before all configs were asked for.
        """
        able = [search for search in self.searches if not search.broken]
        pace_ns = self.evaluator.pace_ns
        if unseen:
            pace_ns = min((search.best for search in self.searches), default=float("inf"))
        for search, limit in self.strategy.turns(able, pace_ns, unseen=unseen):
            with self.skipping_failures(partial(setattr, search, "broken")):
                count = min(most, limit, self.limits.turn_configs)
                configs = search.ask(count) if count else []
                if configs:
                    return [search.candidate(config) for config in configs]
        return []

    def submit(self, candidates: Sequence[Candidate]) -> None:
        """Record that these were asked for, and pass them to the evaluator."""
        for candidate in candidates:
            search = self.search_of(candidate)
            with self.skipping_failures(partial(setattr, search, "broken")):
                self.buffer.ask(search.study.id, candidate.config)
                self.evaluator.submit(candidate)
                self.awaited.add(candidate)

    def take(self, told: Sequence[CandidateTrial]) -> None:
        """Tell searchers the trials that they asked for; of other trials the value is noted."""
        if not told:
            return
        asked = [(candidate, trial) for candidate, trial in told if candidate in self.awaited]
        self.awaited -= {candidate for candidate, _ in asked}
        with self.buffer.tracer.span("tell", "search"):
            for search in self.searches:
                search.note([trial for candidate, trial in told if candidate.solver == search.name])
                own = [trial for candidate, trial in asked if candidate.solver == search.name]
                if not own:
                    continue
                with self.skipping_failures(partial(setattr, search, "broken")):
                    search.tell(own)
                self.buffer.tell(search.study.id, own)
        self.trials += [trial for _, trial in asked]
        if asked:
            self.buffer.flush()
            self.report("search")

    def search_of(self, candidate: Candidate) -> SolverSearch:
        """The search of a candidate's solver."""
        return next(search for search in self.searches if search.name == candidate.solver)

    def decide(self, contenders: Contenders) -> Decision | None:
        """Time the winner next to what it has to beat, on new samples; None if it fails."""
        with self.buffer.tracer.span("confirm", "run"):
            confirmation = confirm(
                self.evaluator,
                contenders.winner.kernel,
                [competitor.kernel for competitor in contenders.competitors],
                self.evaluator.confirm_pairs,
                self.limit.over,
                self.limit.clock,
            )
        if contenders.winner.kernel not in confirmation.blocks:
            return None
        return Decision(contenders, confirmation, self.limits)

    def report(self, phase: str) -> None:
        """Called after every batch; subclasses tell their observer."""

    @contextmanager
    def skipping_failures(self, note: Callable[[str], None]) -> Iterator[None]:
        """Note an error of a plug-in's code and continue without it, if the strategy allows it."""
        try:
            yield
        except ForeignError as error:
            if not self.strategy.skip_failing_solvers:
                raise
            log.warning("%s", error)
            note(str(error))
