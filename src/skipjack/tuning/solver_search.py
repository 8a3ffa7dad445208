"""The solvers that race for a problem, and which of them is asked next.

Every solver searches its own space in a study of its own. All share one budget: who is close to the
best gets the next trials, who is far behind gets hardly any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.core.study import Study
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ForeignError, SpaceError, blaming
from skipjack.ledger import BankedConfig, Ledger
from skipjack.search import SearchContext, Searcher, create, fitting
from skipjack.solvers import pinned_space
from skipjack.solvers.identity import build_identity
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.context import TuningContext
from skipjack.tuning.limits import Limits
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.starting_points import starting_points, strongest


class SearchedSolver(Protocol):
    """What a search knows of its solver."""

    name: str
    version: int


@dataclass(slots=True)
class SolverSearch:
    """One solver in the race."""

    problem: Problem
    solver: SearchedSolver
    space: Space
    study: Study
    leads: bool
    """It is tried first, its plain default soon."""
    known: tuple[Trial, ...] = ()
    """Of earlier runs."""
    trials: list[Trial] = field(default_factory=list)
    asked: int = 0
    best: float = float("inf")
    broken: str = ""
    """Why it is not asked any more, if its solver or searcher raised something."""
    _searcher: Searcher | None = None

    @property
    def name(self) -> str:
        """The solver's."""
        return self.solver.name

    @property
    def default(self) -> Candidate:
        """The plainest config of its space: of a loop nest, the loops as they are written."""
        return self.candidate(self.space.default())

    def candidate(self, config: Config) -> Candidate:
        """A config as something to build."""
        return Candidate(self.problem, self.name, config)

    @property
    def tried(self) -> bool:
        """Whether something came back of it in this run, or there is nothing left to try."""
        if self.broken:
            return True
        assert self._searcher is not None, "start it first"
        waiting = self.asked > len(self.trials)
        return (
            bool(self.trials) or self.best < float("inf") or (self._searcher.done and not waiting)
        )

    def resume(self, ledger: Ledger, generation: int) -> None:
        """Take up a study of rounds; what was known before this generation of it is forgotten."""
        record = ledger.start_study(self.study, self.solver.version)
        for _ in range(record.epoch, generation):
            ledger.forget_study(self.study.id)
        self.known, self.trials = tuple(ledger.trials(self.study.id)), []
        self.asked, self.best = len(self.known), float("inf")
        self.note(self.known)

    def start(self, context: TuningContext, options: TuneOptions) -> None:
        """Set the searcher up, with what is known of earlier runs."""
        self.known = tuple(context.ledger.trials(self.study.id))
        known = self.problem.operation, context.device.class_key
        winners = strongest(context.ledger.banked(*known))
        others = [
            BankedConfig(one.problem, one.solver, Config(one.config))
            for one in context.bank.priors(self.problem.key, known[1], context.protocol.deployed)
        ]
        others += strongest(context.ledger.banked_on_namesakes(*known))
        with blaming(f"solver {self.name} asked where to start on {self.problem.key}"):
            seeds = starting_points(
                self.problem, self.space, self.name, winners, others, options.chosen_limits
            )
        self.begin(
            SearchContext(
                self.space,
                options.seed,
                options.chosen_budget.trials,
                seeds,
                self.known,
                self.leads,
                self.problem,
                context.target,
            )
        )

    def begin(self, context: SearchContext) -> None:
        """Set the searcher up."""
        with self._blaming():
            self._searcher = create(self.study.searcher, context)

    def ask(self, count: int) -> list[Config]:
        """What to try next; none while the searcher waits or is done."""
        assert self._searcher is not None, "start it first"
        with self._blaming():
            configs = self._searcher.ask(count)
        self.asked += len(configs)
        return configs

    def tell(self, trials: Sequence[Trial]) -> None:
        """What came of configs that were asked, by its searcher or by one of another machine."""
        self.trials += trials
        if self._searcher is None:
            return
        with self._blaming():
            for trial in trials:
                self._searcher.tell(trial)

    def note(self, trials: Sequence[Trial]) -> None:
        """Remember the best value; also of trials that nobody asked for."""
        self.best = min([self.best, *(trial.value for trial in trials if trial.value is not None)])

    def _blaming(self) -> AbstractContextManager[None]:
        return blaming(f"searcher {self.study.searcher} on the space of {self.name}")


def make_search(
    context: TuningContext,
    problem: Problem,
    solver: BuildingSolver,
    options: TuneOptions,
    leads: bool,
) -> SolverSearch:
    """A solver's space and study."""
    try:
        with blaming(f"solver {solver.name} asked for the space of {problem.key}"):
            space = pinned_space(solver.space(problem, context.target), options.pins)
            space.default()
    except SpaceError as error:
        # An empty space is the solver's fault: it should have refused the problem.
        raise ForeignError(
            f"solver {solver.name} has no space for {problem.key}: {error}"
        ) from error
    asked = SearchContext(
        *(space, options.seed, options.chosen_budget.trials), problem=problem, device=context.target
    )
    name, reason = fitting(options.searcher, asked)
    if reason:
        context.say(f"{problem.key}: {solver.name} is searched by {name}: {reason}")
    study = Study(
        problem,
        solver.name,
        context.target.class_key,
        name,
        options.seed,
        f"{solver.version}:{_space_digest(space)}:{_content_digest(context, problem, solver)}",
        options.objective,
        context.protocol,
    )
    return SolverSearch(problem, solver, space, study, leads)


def in_turn(searches: Sequence[SolverSearch], limits: Limits) -> list[tuple[SolverSearch, int]]:
    """The searches in the order in which they should be asked, each with the most it may ask."""
    best = min(search.best for search in searches)
    ranked = []
    for place, search in enumerate(searches):
        new = not search.trials and search.best == float("inf")
        weight = (
            1.0
            if new
            else max(
                nearness(best, search.best) ** limits.solver_sharpness, limits.least_solver_share
            )
        )
        room = limits.opening_trials - search.asked if new and not search.leads else None
        ranked.append(((search.asked + 1) / weight, place, search, room))
    ranked.sort(key=lambda entry: entry[:2])
    most = 10**9
    return [(search, most if room is None else max(0, room)) for _, _, search, room in ranked]


def nearness(best: float, value: float) -> float:
    """From 1 for the best down to 0. Values are times as a rule, but objectives may be anything."""
    if value in (best, float("inf")):
        return float(value == best)
    ratio = best / value if value > 0 else value / best if best < 0 else 0.0
    return max(ratio, 0.0)


def _content_digest(context: TuningContext, problem: Problem, solver: BuildingSolver) -> str:
    """Of all that decides what becomes of a config: values of other code are of no use."""
    compiler = solver.compiler() if context.compiles else ""
    parts = f"{build_identity(problem, solver, context.target)}\0{compiler}"
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _space_digest(space: object) -> str:
    digest = getattr(space, "digest", None)
    return str(digest() if callable(digest) else digest or "")
