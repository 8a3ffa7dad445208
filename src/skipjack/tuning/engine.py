"""The study engine: it asks searchers, keeps an evaluator busy, tells what comes back, and decides.

What a candidate is made of and how it is measured is the evaluator's business: kernels in a run
session, commands, or calls in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from skipjack.core.config import Config
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ForeignError
from skipjack.execute.confirm import Session, confirm
from skipjack.ledger import BuildRecord, CandidateKey, Ledger, MeasurementRecord
from skipjack.trace import Tracer
from skipjack.tuning.decision import Contenders, Decision
from skipjack.tuning.loaded_candidate import LoadedCandidate
from skipjack.tuning.options import TimeLimit
from skipjack.tuning.solver_search import SolverSearch
from skipjack.tuning.strategy import SearchStrategy

log = logging.getLogger(__name__)

Told = tuple[Candidate, Trial]


class LedgerBuffer:
    """What happens in a study run, gathered and written to the ledger batch by batch.

    A transaction for each record took longer than the search.
    """

    def __init__(self, ledger: Ledger, tracer: Tracer) -> None:
        self._ledger, self.tracer = ledger, tracer
        self._asks: list[tuple[str, Config]] = []
        self._tells: dict[str, list[Trial]] = {}
        self._builds: list[tuple[BuildRecord, tuple[CandidateKey, ...], str]] = []
        self._measurements: list[MeasurementRecord] = []

    def ask(self, study: str, config: Config) -> None:
        """A study's searcher asked for a config."""
        self._asks.append((study, config))

    def tell(self, study: str, trials: Sequence[Trial]) -> None:
        """A study's searcher was told of these."""
        self._tells.setdefault(study, []).extend(trials)

    def build(self, build: BuildRecord, *candidates: CandidateKey, identity: str) -> None:
        """Candidates of this identity were built."""
        self._builds.append((build, candidates, identity))

    def measure(self, records: Sequence[MeasurementRecord]) -> None:
        """Blocks were timed."""
        self._measurements += records

    def discard(self) -> None:
        """Forget everything that was not written down."""
        self._asks, self._tells, self._builds, self._measurements = [], {}, [], []

    def flush(self) -> None:
        """Write everything down."""
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
    """Takes candidates, gives trials as they come, and times some side by side. One thread.

    A candidate that fails is a trial with a status and a reason, never an exception; an exception
    ends the study. `skipjack.testing.evaluators` checks all that is said here.
    """

    @property
    def pending(self) -> int:
        """Candidates that were submitted and have not come back."""

    @property
    def ahead(self) -> int:
        """How many it wants at hand, so that it need not wait for a searcher; at least one."""

    @property
    def pace_ns(self) -> float:
        """What the fastest so far takes; infinite while nothing is known."""

    @property
    def confirm_pairs(self) -> int:
        """How many times a winner is timed beside its rivals at most."""

    def leader_times_ns(self) -> Sequence[float]:
        """What the fastest of each solver takes."""

    def submit(self, candidate: Candidate) -> None:
        """Take a candidate that is not pending; it comes out of `collect` once.

        One that came back may be submitted again, and then comes back again.
        """

    def collect(self, wait_s: float) -> list[Told]:
        """What came of some of them, waiting up to this long for the first."""

    def withdraw(self) -> None:
        """Forget those that have not come back. What was timed may still win."""

    def finalists(self, count: int, *, but: Candidate | None = None) -> list[LoadedCandidate]:
        """The fastest that were timed here and may win, best first, without one.

        There may be fewer than asked for, where calls are long.
        """

    def runs_anywhere(self, loaded: LoadedCandidate) -> bool:
        """Whether it may win; one that may not is out."""


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
        buffer: LedgerBuffer,
    ) -> None:
        self.searches, self.strategy, self.evaluator = searches, strategy, evaluator
        self.limit, self.limits, self.budget = limit, limit.limits, limit.budget
        self.buffer = buffer
        self.trials: list[Trial] = []
        self.awaited: set[Candidate] = set()
        """What was asked for, here or at another place, and not told."""

    def search(self) -> None:
        """Spend the budget; an interrupt ends the search early and keeps what is known."""
        while not (self.limit.interrupted or self._late()):
            self.ask(self.evaluator.ahead - self.evaluator.pending)
            if not self.evaluator.pending:
                break
            self.take(self.evaluator.collect(0.05))
        self.evaluator.withdraw()
        self.buffer.flush()

    def run(self, candidates: Sequence[Candidate]) -> None:
        """Have all of these measured, whether or not a searcher asked for them."""
        for candidate in candidates if not self.limit.interrupted else ():
            self.evaluator.submit(candidate)
        while self.evaluator.pending and not self.limit.interrupted:
            self.take(self.evaluator.collect(1.0))

    def _late(self) -> bool:
        late = self.limit.late(self.strategy.final_s(self.evaluator))
        return late and self.strategy.enough(self.searches, self.limit)

    def left(self) -> int | None:
        """Trials that may still be asked for; None for any number."""
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
        """What the search whose turn it is asks for; the next one's where it waits or is done.

        With `unseen` nothing of what is asked for comes back before all of it was asked for.
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
        """Write down that these were asked for, and give them to the evaluator."""
        for candidate in candidates:
            search = self.search_of(candidate)
            with self.skipping_failures(partial(setattr, search, "broken")):
                self.buffer.ask(search.study.id, candidate.config)
                self.evaluator.submit(candidate)
                self.awaited.add(candidate)

    def take(self, told: Sequence[Told]) -> None:
        """Tell searchers what came of what they asked for; of others the value is noted."""
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
        """The search that a candidate belongs to."""
        return next(search for search in self.searches if search.name == candidate.solver)

    def decide(self, contenders: Contenders) -> Decision | None:
        """Time the winner beside what it has to beat, on fresh samples; None if it fails now."""
        with self.buffer.tracer.span("confirm", "run"):
            confirmation = confirm(
                self.evaluator,
                contenders.winner.kernel,
                [rival.kernel for rival in contenders.rivals],
                self.evaluator.confirm_pairs,
                self.limit.over,
                self.limit.clock,
            )
        if contenders.winner.kernel not in confirmation.blocks:
            return None
        return Decision(contenders, confirmation, self.limits)

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
