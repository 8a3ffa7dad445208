"""The study of one problem's kernels: its solvers ask, and what is built races for the first place.

A tuning and a find search in one go. A fleet's job is searched in rounds, with a pause between
building and measuring: `build` asks for some configs and builds them at one place, `measure` times
and tells them at another. What passes between the places is in the ledger: a search goes on where
the recorded tells put it, and configs that were asked for and not told are those of the round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from skipjack.bank import FIND, Met, pinned_kind
from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.study import Budget, Study
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ProblemError, WorkerError, blaming
from skipjack.execute.session import Failure
from skipjack.interrupt import Interrupt
from skipjack.operations import arrays_bytes
from skipjack.runtime import why_stale
from skipjack.solvers import solver_for
from skipjack.solvers.solver import ImportingSolver, Solver
from skipjack.tuning.applicable_solvers import (
    DefaultProposal,
    compared,
    default_proposal,
    proposal_of,
)
from skipjack.tuning.context import TuningContext
from skipjack.tuning.decision import Contenders
from skipjack.tuning.engine import LedgerBuffer, StudyEngine, Told
from skipjack.tuning.evaluators import CandidateEvaluator
from skipjack.tuning.final import Final
from skipjack.tuning.loaded_candidate import LoadedCandidate
from skipjack.tuning.options import Progress, TimeLimit, TuneOptions
from skipjack.tuning.solver_search import SolverSearch, make_search
from skipjack.tuning.starting_points import incumbent_of, outdated
from skipjack.tuning.strategy import SearchStrategy, led_before

log = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class BuiltRound:
    """What came of asking and building."""

    asked: int
    failed: tuple[Told, ...]
    """Those that did not build; they are told already."""
    digests: tuple[str, ...]
    """The machine code of the others, and of what runs beside them."""


@dataclass(frozen=True, slots=True)
class MeasuredRound(Generic[R]):
    """What came of timing."""

    trials: tuple[tuple[str, Trial], ...]
    """With the names of their solvers."""
    result: R | None
    """The verdict, if the budget is spent or there is nothing left to try."""
    best_ns: float | None


class StudyRun(StudyEngine):
    """One run of a study. `search` spends its budget, or `build` and `measure` do a round of it."""

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
        """Solvers that could not even take part, and why."""
        with blaming(f"a solver asked about {problem.key}"):
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
        """Of the entry that the run is about: those of other pins are no rivals."""
        self.entry = known(self.kind, context.protocol.deployed)
        self.ranking = known(FIND, context.protocol.deployed) if not options.pins else None
        self.stale = self.entry is not None and bool(why_stale(self.entry))
        """Whether the bank's entry is of another compiler or driver than today's."""
        self.also_timed: tuple[Candidate, ...] = ()
        """What else is timed before anything is searched."""
        self.vendors: dict[str, LoadedCandidate] = {}
        """Libraries that were taken in and are right."""
        self.incumbent: Candidate | None = None
        self.ranked_first: Candidate | None = None
        """The first place of the ranking that the bank holds, if it can be built."""

    def _first_proposal(self) -> DefaultProposal | None:
        """What would run without tuning; of configs with the settings that are pinned."""
        if not self.options.pins or not self.searches:
            return default_proposal(self.problem, self.context.target)
        first = self.searches[0]
        solver = solver_for(self.problem, self.context.target, first.name)
        return proposal_of(self.problem, solver, first.space)

    def study_of(self, solver: str) -> Study:
        """The study that a solver's results belong to; the leading one for all other solvers."""
        return self._by_solver.get(solver, self.searches[0]).study

    def prepare(self) -> None:
        """Make arrays and reference, and set the searchers up."""
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
        """Import what libraries take seconds to import: a part of preparing, as arrays are."""
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
        """Take libraries in; one that fails is left out."""
        for vendor in vendors:
            entered = self.evaluator.add_vendor(vendor.name, vendor.version)
            if isinstance(entered, Failure):
                log.warning("%s fails on %s: %s", vendor.name, self.problem.key, entered.reason)
            else:
                self.vendors[vendor.name] = entered

    def search(self) -> None:
        """Spend the budget; an interrupt ends the search early and keeps what is known."""
        self.limit.prepared()
        self.run(self.leaders())
        super().search()
        self.run(self._untried(self.default, self.untuned))
        self.report("final")

    def close(self) -> None:
        """Write down what is left, and leave the builders idle."""
        self.evaluator.queue.cancel()
        self.buffer.flush()

    def leaders(self) -> list[Candidate]:
        """What led before: times of another day do not compare, so it runs again, first."""
        again = led_before(self.searches, self.strategy, self.default)
        for held in filter(None, (self.incumbent, self.ranked_first, *self.also_timed)):
            again.append(held)
            if not self.evaluator.queue.knows(held.solver):
                solver = solver_for(self.problem, self.context.target, held.solver)
                space = solver.space(self.problem, self.context.target)
                self.evaluator.add_solver(solver, space)
        return list(dict.fromkeys(again))

    def _untried(self, *beside: Candidate | None) -> list[Candidate]:
        """What gains are over and the budget ended before its turn."""
        tried = self.evaluator.loaded.keys() | self.evaluator.failed
        return [one for one in beside if one is not None and one.key not in tried]

    # rounds

    def build(self, count: int, generation: int = 0, first: Sequence[Candidate] = ()) -> BuiltRound:
        """Ask for up to `count` configs and build them, and what runs beside them.

        `first` is tried before any searcher is asked: it did well elsewhere.
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
        """Go on where the recorded trials end, with searchers if there are trials left."""
        for search in self.searches:
            search.resume(self.context.ledger, generation)
        if left := self.left():
            self._start(replace(self.options, budget=Budget(trials=left)))

    def _first(self, wanted: Sequence[Candidate]) -> list[Candidate]:
        """What is to be tried before searchers are asked, if it can be built and is not known."""
        found = []
        for candidate in dict.fromkeys(wanted):
            search = self._by_solver.get(candidate.solver)
            if search is None or any(t.config == candidate.config for t in search.known):
                continue
            with (
                self.skipping_failures(partial(setattr, search, "broken")),
                blaming(f"the space of {search.name}"),
            ):
                if search.space.contains(candidate.config):
                    search.asked += 1
                    found.append(candidate)
        return found

    def measure(
        self,
        finish: Callable[[StudyRun], R],
        libraries: Sequence[Solver] = (),
        generation: int = 0,
    ) -> MeasuredRound[R]:
        """Time what was asked for and built beside the leaders of before, and tell it.

        `finish` computes the verdict once there is nothing left to try. It may take libraries in;
        those that are given here run from the start, so that nothing far behind them is waited for.
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
        """Those that were built beside a round."""
        return [one for one in candidates if self.evaluator.queue.cached_build(one)]

    def _check_known(self) -> None:
        """Whoever built the round has asked for something, by studies that are known here too."""
        if not any(self.context.ledger.log(search.study.id) for search in self.searches):
            what = f"the round of {self.problem.key}" if self.searches else "a round"
            raise WorkerError(
                f"{what} was asked for by other solvers or spaces than those here; builders and "
                "evaluators need the same version of Skipjack and of plug-ins"
            )

    def _open_asks(self, search: SolverSearch) -> list[Candidate]:
        entries = self.context.ledger.log(search.study.id)
        told = {entry.config for entry in entries if entry.trial is not None}
        asked = [e.config for e in entries if e.kind == "ask" and e.config not in told]
        return [search.candidate(config) for config in dict.fromkeys(asked)]

    def _spent(self, generation: int) -> bool:
        """Whether the budget is gone, or the searchers ask for nothing more."""
        everyone = self.searches
        if self.strategy.skip_failing_solvers:  # those that the builder lacks would never be tried
            self.searches = [s for s in everyone if self.context.ledger.log(s.study.id)]
        try:
            self._resume(generation)
            return not self.left() or not self.next_candidates(1, unseen=True)
        finally:
            self.searches = everyone

    # what is known

    def report(self, phase: str) -> None:
        """Tell the observer how far the run is."""
        default = self.default_loaded
        best = self.evaluator.best
        self.options.observer(
            Progress(
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
        """What would run without tuning: gains are over it, whichever solvers race."""
        return self._proposal.candidate if self._proposal else None

    @property
    def default_loaded(self) -> LoadedCandidate | None:
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

    def contenders(self, final: Final) -> Contenders | None:
        """What the decision is about; None if nothing ran."""
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
            outside=default is not None and default.candidate == self.outsider,
            one_core=device.kind == "cpu" and device.units == 1,
            pinned=bool(self.options.pins),
        )

    def _incumbent_loaded(self) -> LoadedCandidate | None:
        if self.incumbent is not None:
            return self.evaluator.loaded.get(self.incumbent.key)
        return self.vendors.get(self.entry.solver) if self.entry else None

    def _lost(self) -> Met | None:
        """Why the bank's entry does not run, if its solver is known here."""
        entry = self.entry
        if entry is None:
            return None
        if self.incumbent is None and outdated(entry):
            return Met.OUTDATED
        held = self.incumbent or Candidate(self.problem, entry.solver, Config())
        return Met.FAILED if held.key in self.evaluator.failed else None


def unimported(context: TuningContext, vendors: Sequence[Solver]) -> list[str]:
    """Packages of libraries that the session has yet to import."""
    packages = (one.imports for one in vendors if isinstance(one, ImportingSolver))
    known = context.session.imported
    return [package for package in dict.fromkeys(packages) if package not in known]


def check_memory(problem: Problem, memory_bytes: int, share: float) -> None:
    """Refuse a problem whose arrays cannot fit."""
    needed = arrays_bytes(problem)
    if memory_bytes and needed > share * memory_bytes:
        raise ProblemError(
            f"problem {problem.key} needs about {needed / 2**30:,.0f} GiB to tune and check, "
            f"this machine has {memory_bytes / 2**30:,.0f} GiB; choose smaller sizes"
        )
