"""The searches of the solvers that compete for a problem.

Each solver has a study and a searcher of its own, and starts from what the bank holds and from
what was good for similar problems. All share one budget: a solver that is close to the best gets
the next trials, one that is far behind gets hardly any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from skipjack.bank import BankEntry, nearest, stronger
from skipjack.core import (
    Candidate,
    Config,
    Device,
    Problem,
    Promising,
    Space,
    Study,
    Trial,
    adapted,
)
from skipjack.errors import ForeignError, MalformedError, ProblemError, SpaceError, foreign_code
from skipjack.ledger import BankedConfig, Ledger
from skipjack.models import CandidateScore, installed_ranker
from skipjack.operations import parse
from skipjack.search import SearchContext, Searcher, applicable_searcher, create, uses_prior
from skipjack.solvers import (
    BuildingSolver,
    build_identity,
    find_solver,
    is_known,
    pinned_space,
    refusal,
)
from skipjack.tuning.study.context import TuningContext
from skipjack.tuning.study.limits import Limits
from skipjack.tuning.study.options import TuneOptions
from skipjack.tuning.study.related import prior_trials, relatives_of

# Where a search starts: at the bank's configs, and at winners of similar problems.


def starting_points(
    problem: Problem,
    space: Space,
    solver: str,
    winners: Sequence[BankedConfig],
    priors: Sequence[BankedConfig] = (),
    limits: Limits | None = None,
    relatives: Sequence[Config] = (),
) -> tuple[Config, ...]:
    """Configs of `priors`, winners of the nearest problems, then promising configs.

    Winners are of the class of the device; `priors` were timed on another model with the name of
    the device, or under another deployment. If there are few winners, configs of `relatives`
    follow: those that won on other classes of devices.
    """
    limits = limits or Limits()
    found = [one.config for one in priors if (one.problem, one.solver) == (problem.key, solver)]
    own = nearest_winners(problem, solver, winners, limits.nearest_winners)
    usable = (adapted(space, config) for config in relatives)
    legal = dict.fromkeys(config for config in usable if config is not None)
    found += [*own, *legal][: limits.nearest_winners]
    if isinstance(space, Promising):
        found += space.promising(limits.promising_configs)
    distinct = {space.key(config): config for config in found if space.contains(config)}
    return tuple(distinct.values())


def strongest(banked: Sequence[BankedConfig]) -> list[BankedConfig]:
    """One config of each problem: by its evidence, as in a bank; the last if none can be read.

    `banked` is in the order in which it was written.
    """
    best: dict[str, tuple[BankedConfig, BankEntry | None]] = {}
    for one in banked:
        known, entry = best.get(one.problem, (None, None)), _entry(one)
        if known[1] is None or (entry is not None and stronger(known[1], entry) == entry):
            best[one.problem] = one, entry
    return [one for one, _ in best.values()]


def _entry(banked: BankedConfig) -> BankEntry | None:
    try:
        return BankEntry.from_line(banked.record) if banked.record else None
    except ValueError:
        return None


def nearest_winners(
    problem: Problem, solver: str, winners: Sequence[BankedConfig], count: int
) -> list[Config]:
    """Configs of the nearest problems of this solver, nearest first."""
    known: list[tuple[Problem, Config]] = []
    for winner in winners:
        # A problem's own winner is known from the study; an operation may not be known anymore.
        with suppress(ProblemError):
            if winner.solver == solver:
                known.append((parse(winner.problem), winner.config))
    return [config for _, config in nearest(problem, known)[:count]]


def incumbent_of(entry: BankEntry | None, problem: Problem, device: Device) -> Candidate | None:
    """The entry's config, if it can still be built; None for a library, which is always timed."""
    if entry is None or not is_known(entry.solver):
        return None
    solver = find_solver(entry.solver)
    config = Config(dict(entry.config))
    if not isinstance(solver, BuildingSolver) or entry.solver_version != solver.version:
        return None
    with foreign_code(f"solver {solver.name} asked about {problem.key}"):
        if refusal(solver, problem, device):
            return None
        if not solver.space(problem, device).contains(config):
            return None
    return Candidate(problem, solver.name, config)


def outdated(entry: BankEntry) -> bool:
    """Whether an entry's solver is known here and not older than the entry.

    If such a solver cannot build the entry's config, the entry is of no use to anyone.
    """
    if not is_known(entry.solver):
        return False
    solver = find_solver(entry.solver)
    return isinstance(solver, BuildingSolver) and entry.solver_version <= solver.version


# The solvers that compete for a problem, and which of them is asked next.
#
# Each solver searches its space in a study of its own. All share one budget: a solver close to the
# best gets the next trials, one that is far behind gets hardly any.


class SearchedSolver(Protocol):
    """The part of a solver that a search uses."""

    name: str
    version: int


@dataclass(slots=True)
class SolverSearch:
    """The search of one solver."""

    problem: Problem
    solver: SearchedSolver
    space: Space
    study: Study
    leads: bool
    """Whether it is tried first, and its default config soon."""
    known: tuple[Trial, ...] = ()
    """Trials of earlier runs."""
    trials: list[Trial] = field(default_factory=list)
    asked: int = 0
    best: float = float("inf")
    broken: str = ""
    """Why it is not asked anymore: the error that its solver or searcher raised."""
    _searcher: Searcher | None = None

    @property
    def name(self) -> str:
        """The solver's name."""
        return self.solver.name

    @property
    def default(self) -> Candidate:
        """The default config of its space; of a loop nest, the loops as they are written."""
        return self.candidate(self.space.default())

    def candidate(self, config: Config) -> Candidate:
        """The candidate with this config."""
        return Candidate(self.problem, self.name, config)

    @property
    def tried(self) -> bool:
        """Whether it has a result in this run, or nothing is left to try."""
        if self.broken:
            return True
        assert self._searcher is not None, "start it first"
        waiting = self.asked > len(self.trials)
        return (
            bool(self.trials) or self.best < float("inf") or (self._searcher.done and not waiting)
        )

    def resume(self, ledger: Ledger, generation: int) -> None:
        """Continue a study of rounds; what was known before this generation is forgotten."""
        record = ledger.start_study(self.study, self.solver.version)
        for _ in range(record.epoch, generation):
            ledger.forget_study(self.study.id)
        self.known, self.trials = tuple(ledger.trials(self.study.id)), []
        self.asked, self.best = len(self.known), float("inf")
        self.note(self.known)

    def start(self, context: TuningContext, options: TuneOptions) -> None:
        """Set up the searcher with the trials of earlier runs, starting points, and a prior."""
        self.known = tuple(context.ledger.trials(self.study.id))
        known = self.problem.operation, context.device.class_key
        winners = strongest(context.ledger.banked(*known))
        others = [
            BankedConfig(one.problem, one.solver, Config(one.config))
            for one in context.bank.priors(self.problem.key, known[1], context.protocol.deployed)
        ]
        others += strongest(context.ledger.banked_on_namesakes(*known))
        limits = options.chosen_limits
        relatives = relatives_of(context, self.problem, self.name)
        with foreign_code(f"solver {self.name} asked where to start on {self.problem.key}"):
            seeds = starting_points(
                *(self.problem, self.space, self.name, winners, others, limits, relatives)
            )
        prior: tuple[Trial, ...] = ()
        if uses_prior(self.study.searcher):
            prior = prior_trials(
                *(context.ledger, self.problem, self.study, self.solver.version, self.space),
                *(context.device, limits.prior_trials),
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
                score=self._score(context),
                prior=prior,
            )
        )

    def _score(self, context: TuningContext) -> CandidateScore | None:
        """The score of a trained ranker; None without a usable one for the problem."""
        try:
            ranker = installed_ranker(self.problem, context.target, context.model_directories)
        except MalformedError as error:
            context.say(f"the search starts without a ranker: {error}")
            return None
        if ranker is None:
            return None
        return CandidateScore(ranker, self.problem, context.target, self.name, self.space)

    def begin(self, context: SearchContext) -> None:
        """Set up the searcher."""
        with self._blaming():
            self._searcher = create(self.study.searcher, context)

    def ask(self, count: int) -> list[Config]:
        """The configs to try next; none while the searcher waits or is done."""
        assert self._searcher is not None, "start it first"
        with self._blaming():
            configs = self._searcher.ask(count)
        self.asked += len(configs)
        return configs

    def tell(self, trials: Sequence[Trial]) -> None:
        """Add trials of configs that its searcher, or one on another machine, asked for."""
        self.trials += trials
        if self._searcher is None:
            return
        with self._blaming():
            for trial in trials:
                self._searcher.tell(trial)

    def note(self, trials: Sequence[Trial]) -> None:
        """Update the best value, also by trials that no searcher asked for."""
        self.best = min([self.best, *(trial.value for trial in trials if trial.value is not None)])

    def _blaming(self) -> AbstractContextManager[None]:
        return foreign_code(f"searcher {self.study.searcher} on the space of {self.name}")


def make_search(
    context: TuningContext,
    problem: Problem,
    solver: BuildingSolver,
    options: TuneOptions,
    leads: bool,
) -> SolverSearch:
    """A solver's space and study."""
    try:
        with foreign_code(f"solver {solver.name} asked for the space of {problem.key}"):
            space = pinned_space(solver.space(problem, context.target), options.pins)
            space.default()
    except SpaceError as error:
        # An empty space is an error of the solver: it should have refused the problem.
        raise ForeignError(
            f"solver {solver.name} has no space for {problem.key}: {error}"
        ) from error
    asked = SearchContext(
        *(space, options.seed, options.chosen_budget.trials), problem=problem, device=context.target
    )
    name, reason = applicable_searcher(options.searcher, asked)
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
    """The searches in the order in which to ask them, each with the most configs it may get."""
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
    """From 1 for the best down to 0. Values are usually times, but may be of any objective."""
    if value in (best, float("inf")):
        return float(value == best)
    ratio = best / value if value > 0 else value / best if best < 0 else 0.0
    return max(ratio, 0.0)


def _content_digest(context: TuningContext, problem: Problem, solver: BuildingSolver) -> str:
    """The digest of the code that a config is built with: values of other code are of no use."""
    compiler = solver.compiler() if context.compiles else ""
    parts = f"{build_identity(problem, solver, context.target)}\0{compiler}"
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def _space_digest(space: object) -> str:
    digest = getattr(space, "digest", None)
    return str(digest() if callable(digest) else digest or "")
