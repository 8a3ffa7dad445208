"""One sitting at one problem: its solvers ask, and what is built races for the first place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from skipjack.bank import FIND, Met
from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.study import Study
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ForeignError, ProblemError, blaming
from skipjack.execute.build_pool import Build
from skipjack.execute.confirm import Confirmation
from skipjack.execute.session import Failure
from skipjack.interrupt import Interrupt
from skipjack.operations import arrays_bytes
from skipjack.solvers import solver_for
from skipjack.solvers.solver import ImportingSolver, Solver
from skipjack.tuning.applicable_solvers import DefaultProposal, compared, default_proposal
from skipjack.tuning.build_queue import BuildQueue
from skipjack.tuning.context import TuningContext
from skipjack.tuning.evaluator import SLOW_NS, CandidateEvaluator, LoadedCandidate
from skipjack.tuning.ledger_buffer import LedgerBuffer
from skipjack.tuning.options import PREPARING, Progress, TimeLimit, TuneOptions
from skipjack.tuning.solver_search import TURN, SolverSearch, make_search
from skipjack.tuning.starting_points import incumbent_of, outdated
from skipjack.tuning.strategy import SearchStrategy, led_before

log = logging.getLogger(__name__)

_BATCH = 6
_MUCH_BYTES = 4 << 30
"""Arrays and references from here on take many seconds to prepare."""


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """What a search left: everything that the verdict needs."""

    evaluator: CandidateEvaluator
    winner: LoadedCandidate | None
    default: LoadedCandidate | None
    """What would run without tuning."""
    incumbent: LoadedCandidate | None
    """What the bank held before, a library perhaps, if it runs now."""
    vendors: dict[str, LoadedCandidate]
    ties: tuple[LoadedCandidate, ...]
    trials: list[Trial]
    interrupted: bool
    untuned: LoadedCandidate | None = None
    """Plain loops, where a solver of loop nests was asked for by name."""


class StudyRun:
    """The moving parts of a sitting. `search` spends its budget; a final comes after it."""

    def __init__(
        self,
        context: TuningContext,
        problem: Problem,
        options: TuneOptions,
        interrupt: Interrupt,
        strategy: SearchStrategy,
    ) -> None:
        self.context, self.problem, self.options = context, problem, options
        self.strategy = strategy
        self.limit = TimeLimit(options.budget.seconds, interrupt, context.clock)
        check_memory(problem, context.device.memory_bytes)
        with blaming(f"a solver asked about {problem.key}"):
            solvers = strategy.solvers(problem, context.target)
        self.unusable: dict[str, str] = {}
        """Solvers that could not even take part, and why."""
        self.searches: list[SolverSearch] = []
        for solver in solvers:
            with self._skipping_failures(partial(self.unusable.__setitem__, solver.name)):
                self.searches.append(
                    make_search(context, problem, solver, options, leads=not self.searches)
                )
        self._by_solver = {search.solver.name: search for search in self.searches}
        self._proposal: DefaultProposal | None = None
        if strategy.compares:
            with self._skipping_failures(log.debug):
                self._proposal = default_proposal(problem, context.target)
        self.entry = context.bank.lookup(problem.key, context.device.class_key)
        self.ranking = context.bank.lookup(problem.key, context.device.class_key, FIND)
        self.queue = BuildQueue(context)
        for search in self.searches:
            self.queue.add_solver(search.solver, search.space)
        self._versions = {search.solver.name: search.solver.version for search in self.searches}
        if self._proposal and self._proposal.solver.name not in self._versions:
            self.queue.add_solver(self._proposal.solver, self._proposal.space)
            self._versions[self._proposal.solver.name] = self._proposal.solver.version
        self.buffer = LedgerBuffer(context.ledger, context.tracer)
        self.trials: list[Trial] = []
        self.vendors: dict[str, LoadedCandidate] = {}
        """Libraries that were taken in and are right."""
        self.incumbent: Candidate | None = None
        self.ranked_first: Candidate | None = None
        """The first place of the ranking that the bank holds, if it can be built."""

    def study_of(self, solver: str) -> Study:
        """The study that a solver's results belong to; the leading one for all other solvers."""
        return self._by_solver.get(solver, self.searches[0]).study

    def prepare(self) -> None:
        """Make arrays and reference, and set the searchers up."""
        context, ledger = self.context, self.context.ledger
        with self._skipping_failures(log.debug):
            self.incumbent = incumbent_of(self.entry, self.problem, context.device)
        with self._skipping_failures(log.debug):
            self.ranked_first = incumbent_of(self.ranking, self.problem, context.device)
        for search in self.searches:
            ledger.start_study(search.study, search.solver.version)
            if self.options.retune:
                ledger.forget_study(search.study.id)
            with (
                context.tracer.span("set up the search", "search"),
                self._skipping_failures(partial(setattr, search, "broken")),
            ):
                search.start(context, self.options)
        self.open_contest()

    def open_contest(self) -> None:
        """Make arrays and reference."""
        context = self.context
        if (needed := arrays_bytes(self.problem)) > _MUCH_BYTES:
            context.say(f"preparing {self.problem.key}: {needed / 2**30:.0f} GiB to fill and check")
        self.evaluator = CandidateEvaluator(
            context,
            self.buffer,
            self.problem,
            self.options.objective,
            prune_slow=self.strategy.prune_slow,
        )

    def import_libraries(self, vendors: Sequence[Solver]) -> None:
        """Import what libraries take seconds to import: a part of preparing, as arrays are."""
        packages = (one.imports for one in vendors if isinstance(one, ImportingSolver))
        for package in dict.fromkeys(packages):
            if package in self.context.session.imported:
                continue
            self.context.say(f"importing {package}, to compare with it")
            began = self.context.clock()
            with self.context.tracer.span(f"import {package}", "search"):
                self.context.session.import_package(package)
            self._tell_if_long(package, self.context.clock() - began)

    def _tell_if_long(self, package: str, took_s: float) -> None:
        seconds = self.options.budget.seconds
        if seconds is not None and took_s > PREPARING * seconds:
            self.context.say(
                f"importing {package} took {took_s:.1f} s, of which {PREPARING * seconds:g} s are "
                f"counted: the search may go on for {(1.0 - PREPARING) * seconds:g} s"
            )

    def add_vendors(self, vendors: Sequence[Solver]) -> None:
        """Take libraries in; one that fails is none."""
        for vendor in vendors:
            entered = self.evaluator.add_vendor(vendor.name, vendor.version)
            if isinstance(entered, Failure):
                log.warning("%s fails on %s: %s", vendor.name, self.problem.key, entered.reason)
            else:
                self.vendors[vendor.name] = entered

    def search(self) -> None:
        """Spend the budget; an interrupt ends the search early and keeps what is known."""
        self.limit.prepared()
        self._retime_known()
        self._spend()
        self.queue.withdraw()
        self.buffer.flush()
        self._enter(self.default)
        self._enter(self.untuned)
        self.report("final")

    @contextmanager
    def _skipping_failures(self, note: Callable[[str], None]) -> Iterator[None]:
        """Note what foreign code raises, and go on without it, if the strategy are so."""
        try:
            yield
        except ForeignError as error:
            if not self.strategy.skip_failing_solvers:
                raise
            log.warning("%s", error)
            note(str(error))

    def close(self) -> None:
        """Write down what is left, and leave the builders idle."""
        self.queue.cancel()
        self.buffer.flush()

    def _retime_known(self) -> None:
        for candidate in self.leaders():
            self.queue.submit(candidate)
        while self.queue.pending and not self.limit.interrupted:
            self.enter_again(
                self.queue.collect(1.0, self.batch() if self.strategy.prune_slow else _BATCH)
            )

    def leaders(self) -> list[Candidate]:
        """What led before: times of another day do not compare, so it runs again, first."""
        again = led_before(self.searches, self.strategy, self.default)
        for held in filter(None, (self.incumbent, self.ranked_first)):
            again.append(held)
            if held.solver not in self._versions:
                solver = solver_for(self.problem, self.context.target, held.solver)
                self.queue.add_solver(solver, solver.space(self.problem, self.context.target))
                self._versions[solver.name] = solver.version
        return list(dict.fromkeys(again))

    def enter_again(self, builds: list[Build]) -> None:
        """Take in builds that no searcher waits for."""
        for search, trials in self._by_arm(builds, self.evaluator.enter(builds, self._versions)):
            search.note(trials)

    def _by_arm(
        self, builds: list[Build], trials: list[Trial]
    ) -> Iterator[tuple[SolverSearch, list[Trial]]]:
        """The trials of each search that has any."""
        for search in self.searches:
            pairs = zip(builds, trials, strict=True)
            own = [trial for build, trial in pairs if build.candidate.solver == search.name]
            if own:
                yield search, own

    # the search itself

    def _spend(self) -> None:
        while True:
            over = self.limit.interrupted or self._late()
            if not over:
                self._order_more()
            if over or not self.queue.pending:
                break
            builds = self.queue.collect(0.05, self.batch())
            if builds:
                self.take(builds)

    def _late(self) -> bool:
        late = self.limit.late(self.strategy.final_s(self.evaluator))
        return late and self.strategy.enough(self.searches, self.limit)

    def batch(self) -> int:
        """How many are timed side by side; of slow ones few, so that the clock is looked at."""
        pace = self.evaluator.pace_ns
        if pace == float("inf"):
            return 1 if self.strategy.prune_slow else 2
        return _BATCH if pace < SLOW_NS else 1

    def _order_more(self) -> None:
        """Keep the builders busy a little ahead of the loaded."""
        room = 2 * self.context.pool.size + _BATCH - self.queue.pending
        limit = self.strategy.most_trials(self.options.budget, self.searches)
        if limit is not None:
            room = min(room, limit - sum(search.asked for search in self.searches))
        with self.context.tracer.span("ask", "search"):
            while room > 0:
                asked = self._ask_one_arm(min(room, TURN))
                if not asked:
                    return
                room -= asked

    def _ask_one_arm(self, most: int) -> int:
        """Let the search whose turn it is ask; the next one where its searcher waits or is done."""
        for search, limit in self.strategy.turns(self.searches, self.evaluator):
            configs: list[Config] = []
            with self._skipping_failures(partial(setattr, search, "broken")):
                configs = search.ask(min(most, limit)) if limit else []
                for config in configs:
                    self.buffer.ask(search.study.id, config)
                    self.queue.submit(search.candidate(config))
            if configs:
                return len(configs)
        return 0

    def take(self, builds: list[Build]) -> None:
        """Take in builds that were asked for, and tell who asked."""
        trials = self.evaluator.enter(builds, self._versions)
        with self.context.tracer.span("tell", "search"):
            for search, own in self._by_arm(builds, trials):
                with self._skipping_failures(partial(setattr, search, "broken")):
                    search.tell(own)
                self.buffer.tell(search.study.id, own)
        self.buffer.flush()
        self.trials += trials
        self.report("search")

    def report(self, phase: str) -> None:
        """Tell the observer where we stand."""
        default = self.default_runner
        self.options.observer(
            Progress(
                self.problem.key,
                phase,
                len(self.trials),
                sum(trial.status.failed for trial in self.trials),
                self.evaluator.builds,
                self.evaluator.best.time_ns if self.evaluator.best else None,
                default.time_ns if default else None,
                self.context.clock() - self.limit.started,
                self.options.budget,
            )
        )

    # what the final needs

    @property
    def default(self) -> Candidate | None:
        """What would run without tuning: gains are over it, whichever solvers race."""
        return self._proposal.candidate if self._proposal else None

    @property
    def default_runner(self) -> LoadedCandidate | None:
        """The default, if it runs."""
        return self._running(self.default)

    @property
    def outsider(self) -> Candidate | None:
        """The default, where it is of a solver that does not race and is only compared with."""
        default = self.default
        outside = default is not None and default.solver not in self._by_solver
        return default if outside and default != self.incumbent else None

    @property
    def untuned(self) -> Candidate | None:
        """The plain loops of a solver of loop nests that was asked for by name."""
        if self.options.solver is None or not self.searches:
            return None
        from skipjack.solvers.cpu.nest import ScheduleSpace  # not loaded for other solvers

        return (
            self.searches[0].default if isinstance(self.searches[0].space, ScheduleSpace) else None
        )

    def _running(self, candidate: Candidate | None) -> LoadedCandidate | None:
        return self.evaluator.loaded.get(candidate.key) if candidate else None

    def _enter(self, candidate: Candidate | None) -> None:
        """Time what gains are over also where the budget ended before its turn."""
        if candidate is None or self._running(candidate) or self.limit.interrupted:
            return
        search = self._by_solver.get(candidate.solver)
        if search and any(trial.config == candidate.config for trial in search.trials):
            return  # it failed
        self.queue.submit(candidate)
        while self.queue.pending and candidate.key not in self.evaluator.loaded:
            builds = [b for b in self.queue.collect(1.0, 1) if b.candidate == candidate]
            self.evaluator.enter(builds, self._versions, once=True)
            if builds:
                break

    def summary(
        self, winner: LoadedCandidate | None, ties: Sequence[LoadedCandidate]
    ) -> SearchSummary:
        """What the verdict is on."""
        return SearchSummary(
            self.evaluator,
            winner,
            self.default_runner,
            self._incumbent_runner(),
            {name: loaded for name, loaded in self.vendors.items() if compared(name)},
            tuple(ties),
            self.trials,
            self.limit.interrupted,
            self._running(self.untuned),
        )

    def _incumbent_runner(self) -> LoadedCandidate | None:
        if self.incumbent is not None:
            return self.evaluator.loaded.get(self.incumbent.key)
        return self.vendors.get(self.entry.solver) if self.entry else None

    def met(self, summary: SearchSummary, confirmation: Confirmation) -> Met | None:
        """How the bank's entry fared beside the winner; None if there is none, or it did not run.

        It does not where its solver is not known here, or the search was interrupted.
        """
        entry, incumbent = self.entry, summary.incumbent
        if entry is None:
            return None
        if incumbent is not None:
            there = incumbent.cut_short or incumbent.kernel in confirmation.blocks
            return Met.SLOWER if there else Met.FAILED
        if self.incumbent is None and outdated(entry):
            return Met.OUTDATED
        held = self.incumbent or Candidate(self.problem, entry.solver, Config())
        return Met.FAILED if held.key in self.evaluator.failed else None


def check_memory(problem: Problem, memory_bytes: int) -> None:
    """Refuse a problem whose arrays cannot fit."""
    needed = arrays_bytes(problem)
    if memory_bytes and needed > 0.8 * memory_bytes:
        raise ProblemError(
            f"problem {problem.key} needs about {needed / 2**30:,.0f} GiB to tune and check, "
            f"this machine has {memory_bytes / 2**30:,.0f} GiB; choose smaller sizes"
        )
