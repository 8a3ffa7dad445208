"""The study of one problem's kernels: its solvers propose configs, which compete once built."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from skipjack.bank import FIND, ReplacementReason, pinned_kind
from skipjack.core import Candidate, Config, Problem, Study
from skipjack.errors import ProblemError, foreign_code
from skipjack.execute import Failure
from skipjack.interrupt import Interrupt
from skipjack.operations import arrays_bytes
from skipjack.runtime.local_kernels import why_stale
from skipjack.solvers import ImportingSolver, Solver, solver_for
from skipjack.tuning.study.context import TuningContext
from skipjack.tuning.study.decision import Contenders
from skipjack.tuning.study.engine import LedgerBuffer, StudyEngine
from skipjack.tuning.study.final import Final
from skipjack.tuning.study.kernel_evaluator import CandidateEvaluator
from skipjack.tuning.study.loaded_candidate import LoadedCandidate
from skipjack.tuning.study.options import TimeLimit, TuneOptions, TuneProgress
from skipjack.tuning.study.solver_search import incumbent_of, make_search, outdated
from skipjack.tuning.study.strategy import (
    DefaultProposal,
    SearchStrategy,
    compared,
    default_proposal,
    led_before,
    proposal_of,
)

log = logging.getLogger(__name__)


class StudyRun(StudyEngine):
    """One run of a study: a tuning or a find, which `search` in one go."""

    def __init__(
        self,
        context: TuningContext,
        problem: Problem,
        options: TuneOptions,
        interrupt: Interrupt,
        strategy: SearchStrategy,
        evaluator: type[CandidateEvaluator] = CandidateEvaluator,
    ) -> None:
        buffer = LedgerBuffer(context.ledger, context.tracer)
        limits, budget = options.chosen_limits, options.chosen_budget
        self.evaluator: CandidateEvaluator = evaluator(
            context, buffer, problem, options.objective, limits, prune_slow=strategy.prune_slow
        )
        limit = TimeLimit(budget, interrupt, context.clock, limits)
        super().__init__([], strategy, self.evaluator, limit, buffer)
        self.context, self.problem, self.options = context, problem, options
        self.unusable: dict[str, str] = {}
        """Why solvers could not take part, by their names."""
        with foreign_code(f"a solver asked about {problem.key}"):
            solvers = strategy.solvers(problem, context.target)
        for solver in solvers:
            with self.skipping_failures(partial(self.unusable.__setitem__, solver.name)):
                search = make_search(context, problem, solver, options, leads=not self.searches)
                self.searches.append(search)
                self.evaluator.add_solver(solver, search.space)
        self._by_solver = {search.name: search for search in self.searches}
        self._proposal: DefaultProposal | None = None
        if strategy.compares:
            with self.skipping_failures(log.debug):
                self._proposal = self._first_proposal()
        if self._proposal and not self.evaluator.queue.knows(self._proposal.solver.name):
            self.evaluator.add_solver(self._proposal.solver, self._proposal.space)
        known = partial(context.bank.lookup, problem.key, context.device.class_key)
        self.kind = pinned_kind(options.pins)
        """The kind of the entry in question; entries with other pins do not compete with it."""
        self.entry = known(self.kind, context.protocol.deployed)
        self.ranking = known(FIND, context.protocol.deployed) if not options.pins else None
        self.stale = self.entry is not None and bool(why_stale(self.entry))
        """Whether the bank's entry is of another compiler or driver than the present ones."""
        self.also_timed: tuple[Candidate, ...] = ()
        """Further candidates that are timed before the search."""
        self.vendors: dict[str, LoadedCandidate] = {}
        """Libraries that give right results, by their names."""
        self.incumbent: Candidate | None = None
        self.ranked_first: Candidate | None = None
        """The first place of the ranking that the bank holds, if it can be built."""

    def _first_proposal(self) -> DefaultProposal | None:
        """What would run without tuning, among configs with the pinned settings."""
        if not self.options.pins or not self.searches:
            return default_proposal(self.problem, self.context.target)
        first = self.searches[0]
        solver = solver_for(self.problem, self.context.target, first.name)
        return proposal_of(self.problem, solver, first.space)

    def study_of(self, solver: str) -> Study:
        """The study of a solver's results; for other solvers, the study of the first solver."""
        return self._by_solver.get(solver, self.searches[0]).study

    def prepare(self) -> None:
        """Make the arrays and the reference, and set up the searchers."""
        context, ledger = self.context, self.context.ledger
        check_memory(self.problem, context.device.memory_bytes, self.limits.memory_share)
        with self.skipping_failures(log.debug):
            self.incumbent = incumbent_of(self.entry, self.problem, context.device)
        with self.skipping_failures(log.debug):
            self.ranked_first = incumbent_of(self.ranking, self.problem, context.device)
        for search in self.searches:
            ledger.start_study(search.study, search.solver.version)
            if self.options.retune:
                ledger.forget_study(search.study.id)
        self._start(self.options)
        self._make_arrays()

    def _start(self, options: TuneOptions) -> None:
        for search in self.searches:
            with (
                self.context.tracer.span("set up the search", "search"),
                self.skipping_failures(partial(setattr, search, "broken")),
            ):
                search.start(self.context, options)

    def _make_arrays(self) -> None:
        if (gib := arrays_bytes(self.problem) / 2**30) > self.limits.much_gib:
            self.context.say(f"preparing {self.problem.key}: {gib:.0f} GiB to fill and check")
        self.evaluator.prepare()

    def import_libraries(self, vendors: Sequence[Solver]) -> None:
        """Import packages that take seconds to import; it counts as preparing, as arrays do."""
        context = self.context
        for package in unimported(context, vendors):
            context.say(f"importing {package}, to compare with it")
            began = context.clock()
            with context.tracer.span(f"import {package}", "search"):
                context.session.import_package(package)
            self._tell_if_long(package, context.clock() - began)

    def _tell_if_long(self, package: str, took_s: float) -> None:
        seconds, share = self.budget.seconds, self.limits.preparing_share
        if seconds is not None and took_s > share * seconds:
            self.context.say(
                f"importing {package} took {took_s:.1f} s; {share * seconds:g} s count against "
                f"the budget, leaving {(1.0 - share) * seconds:g} s to search"
            )

    def add_vendors(self, vendors: Sequence[Solver]) -> None:
        """Add libraries to compare with; one that fails is left out."""
        for vendor in vendors:
            entered = self.evaluator.add_vendor(vendor.name, vendor.version)
            if isinstance(entered, Failure):
                log.warning("%s fails on %s: %s", vendor.name, self.problem.key, entered.reason)
            else:
                self.vendors[vendor.name] = entered

    def search(self) -> None:
        """Search until the budget is spent; an interrupt ends it early and keeps what is known."""
        self.limit.prepared()
        self.run(self.leaders())
        super().search()
        self.run(self._untried(self.default, self.untuned))
        self.report("final")

    def close(self) -> None:
        """Write the remaining records, and cancel pending builds."""
        self.evaluator.queue.cancel()
        self.buffer.flush()

    def leaders(self) -> list[Candidate]:
        """Earlier leaders, to run again first: times of another day are not comparable."""
        again = led_before(self.searches, self.strategy, self.default)
        for held in filter(None, (self.incumbent, self.ranked_first, *self.also_timed)):
            again.append(held)
            if not self.evaluator.queue.knows(held.solver):
                solver = solver_for(self.problem, self.context.target, held.solver)
                space = solver.space(self.problem, self.context.target)
                self.evaluator.add_solver(solver, space)
        return list(dict.fromkeys(again))

    def _untried(self, *beside: Candidate | None) -> list[Candidate]:
        """Candidates to compare with that were not tried before the budget ended."""
        tried = self.evaluator.loaded.keys() | self.evaluator.failed
        return [one for one in beside if one is not None and one.key not in tried]

    # what is known

    def report(self, phase: str) -> None:
        """Report the progress of the run to the observer."""
        default = self.default_loaded
        best = self.evaluator.best
        self.options.observer(
            TuneProgress(
                self.problem.key,
                phase,
                len(self.trials),
                sum(trial.status.failed for trial in self.trials),
                self.evaluator.builds,
                best.time_ns if best else None,
                default.time_ns if default else None,
                self.context.clock() - self.limit.started,
                self.budget,
            )
        )

    @property
    def default(self) -> Candidate | None:
        """What would run without tuning; gains are over it, whichever solvers compete."""
        return self._proposal.candidate if self._proposal else None

    @property
    def default_loaded(self) -> LoadedCandidate | None:
        """The default, if it was built and runs."""
        return self._running(self.default)

    @property
    def compared_default(self) -> Candidate | None:
        """The default, if it is of a solver that does not compete and is only compared with."""
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

    def contenders(self, final: Final) -> Contenders | None:
        """The winner and what it has to beat; None if nothing ran."""
        if final.winner is None:
            return None
        device, default = self.context.device, self.default_loaded
        return Contenders(
            final.winner,
            default,
            self._incumbent_loaded(),
            {name: loaded for name, loaded in self.vendors.items() if compared(name)},
            final.ties,
            self._running(self.untuned),
            self.entry,
            self.stale,
            self._lost(),
            outside=default is not None and default.candidate == self.compared_default,
            one_core=device.kind == "cpu" and device.units == 1,
            pinned=bool(self.options.pins),
        )

    def _incumbent_loaded(self) -> LoadedCandidate | None:
        if self.incumbent is not None:
            return self.evaluator.loaded.get(self.incumbent.key)
        return self.vendors.get(self.entry.solver) if self.entry else None

    def _lost(self) -> ReplacementReason | None:
        """Why the bank's entry does not run; None if it does, or its solver is not known here."""
        entry = self.entry
        if entry is None:
            return None
        if self.incumbent is None and outdated(entry):
            return ReplacementReason.OUTDATED
        held = self.incumbent or Candidate(self.problem, entry.solver, Config())
        return ReplacementReason.FAILED if held.key in self.evaluator.failed else None


def unimported(context: TuningContext, vendors: Sequence[Solver]) -> list[str]:
    """Packages of libraries that the session has not imported yet."""
    packages = (one.imports for one in vendors if isinstance(one, ImportingSolver))
    known = context.session.imported
    return [package for package in dict.fromkeys(packages) if package not in known]


def check_memory(problem: Problem, memory_bytes: int, share: float) -> None:
    """Raise `ProblemError` if a problem's arrays do not fit into memory."""
    needed = arrays_bytes(problem)
    if memory_bytes and needed > share * memory_bytes:
        raise ProblemError(
            f"problem {problem.key} needs about {needed / 2**30:,.0f} GiB to tune and check, but "
            f"this machine has {memory_bytes / 2**30:,.0f} GiB; choose smaller sizes"
        )
