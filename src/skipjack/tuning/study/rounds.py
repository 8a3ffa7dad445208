"""A study that is searched in rounds, as a fleet's job is: built at one place, timed at another.

`build` asks for some configs and builds them, `measure` times them and tells the searchers. What
passes between the two places is in the ledger: a search continues where the recorded tells put it,
and configs that were asked for and not told are those of the round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from skipjack.core import Budget, Candidate, Trial
from skipjack.errors import WorkerError, foreign_code
from skipjack.solvers import Solver
from skipjack.tuning.study.engine import CandidateTrial
from skipjack.tuning.study.run import StudyRun, check_memory
from skipjack.tuning.study.solver_search import SolverSearch
from skipjack.tuning.study.strategy import led_before

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class BuiltRound:
    """The result of asking for configs and building them."""

    asked: int
    failed: tuple[CandidateTrial, ...]
    """Candidates that did not build; the searchers were told."""
    digests: tuple[str, ...]
    """The machine code of the others, and of candidates that are timed next to them."""


@dataclass(frozen=True, slots=True)
class MeasuredRound(Generic[R]):
    """The result of timing a round."""

    trials: tuple[tuple[str, Trial], ...]
    """Each with the name of its solver."""
    result: R | None
    """The result of the study, if the budget is spent or there is nothing left to try."""
    best_ns: float | None


class StudyRounds(StudyRun):
    """A study run that does one round: `build` the next configs, or `measure` what was built."""

    def build(self, count: int, generation: int = 0, first: Sequence[Candidate] = ()) -> BuiltRound:
        """Ask for up to `count` configs and build them, with what is timed next to them.

        `first` are candidates that were fast on other devices; they come before those of searchers.
        """
        self._resume(generation)
        chosen = self._first(first)
        self.submit(chosen)
        untried = sum(not search.asked for search in self.searches) if chosen else 0
        self.ask(max(count - len(chosen), untried), unseen=True)
        asked = len(self.awaited)
        led = led_before(self.searches, self.strategy, self.default)
        beside = dict.fromkeys([*led, *([self.default] if self.default else [])])
        self.run([candidate for candidate in beside if candidate not in self.awaited])
        failed = [(s.candidate(trial.config), trial) for s in self.searches for trial in s.trials]
        return BuiltRound(asked, tuple(failed), tuple(self.evaluator.digests))

    def _resume(self, generation: int) -> None:
        """Continue after the recorded trials, with searchers if there are trials left."""
        for search in self.searches:
            search.resume(self.context.ledger, generation)
        if left := self.left():
            self._start(replace(self.options, budget=Budget(trials=left)))

    def _first(self, wanted: Sequence[Candidate]) -> list[Candidate]:
        """The candidates among `wanted` that can be built and have no trial yet."""
        found = []
        for candidate in dict.fromkeys(wanted):
            search = self._by_solver.get(candidate.solver)
            if search is None or any(t.config == candidate.config for t in search.known):
                continue
            with (
                self.skipping_failures(partial(setattr, search, "broken")),
                foreign_code(f"the space of {search.name}"),
            ):
                if search.space.contains(candidate.config):
                    search.asked += 1
                    found.append(candidate)
        return found

    def measure(
        self,
        finish: Callable[[StudyRounds], R],
        libraries: Sequence[Solver] = (),
        generation: int = 0,
    ) -> MeasuredRound[R]:
        """Time the built candidates next to the earlier leaders, and tell the searchers.

        `finish` computes the result once there is nothing left to try. It may add libraries; those
        that are passed here run from the start, so that no time is spent far behind them.
        """
        check_memory(self.problem, self.context.device.memory_bytes, self.limits.memory_share)
        for search in self.searches:
            search.resume(self.context.ledger, generation)
        self._check_known()
        self.trials += [trial for search in self.searches for trial in search.known]
        self._make_arrays()
        self.limit.prepared()
        self.add_vendors(libraries)
        self.run(self._built(self.leaders()))
        asked = [candidate for search in self.searches for candidate in self._open_asks(search)]
        self.awaited.update(asked)
        self.run(asked)
        told = tuple((s.name, trial) for s in self.searches for trial in s.trials)
        result = None
        if not self.awaited and self._spent(generation):
            self.run(self._built(self._untried(self.default)))
            for search in self.searches:
                search.trials = list(search.known)  # what counts are the trials of all rounds
            result = finish(self)
        best = self.evaluator.best
        return MeasuredRound(told, result, best.time_ns if best else None)

    def _built(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that were built with a round."""
        return [one for one in candidates if self.evaluator.queue.cached_build(one)]

    def _check_known(self) -> None:
        """Raise `WorkerError` if the round was built for other studies than those here."""
        if not any(self.context.ledger.log(search.study.id) for search in self.searches):
            what = f"the round of {self.problem.key}" if self.searches else "a round"
            raise WorkerError(
                f"{what} was built with other solvers or spaces than those here; builders and "
                "evaluators need the same version of Skipjack and of plug-ins"
            )

    def _open_asks(self, search: SolverSearch) -> list[Candidate]:
        entries = self.context.ledger.log(search.study.id)
        told = {entry.config for entry in entries if entry.trial is not None}
        asked = [e.config for e in entries if e.kind == "ask" and e.config not in told]
        return [search.candidate(config) for config in dict.fromkeys(asked)]

    def _spent(self, generation: int) -> bool:
        """Whether the budget is spent, or the searchers ask for nothing more."""
        participants = self.searches
        if self.strategy.skip_failing_solvers:  # those that the builder lacks would never be tried
            self.searches = [s for s in participants if self.context.ledger.log(s.study.id)]
        try:
            self._resume(generation)
            return not self.left() or not self.next_candidates(1, unseen=True)
        finally:
            self.searches = participants
