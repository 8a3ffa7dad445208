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
from skipjack.tuning.arm import TURN, Arm, make_arm
from skipjack.tuning.build_desk import BuildDesk
from skipjack.tuning.contest import SLOW_NS, Contest
from skipjack.tuning.context import TuningContext
from skipjack.tuning.incumbent import incumbent_of, outdated
from skipjack.tuning.journal import Journal
from skipjack.tuning.lineup import compared
from skipjack.tuning.options import Progress, TuneOptions
from skipjack.tuning.proposal import Proposal, first_proposal
from skipjack.tuning.rules import Rules, led_before
from skipjack.tuning.runner import Runner
from skipjack.tuning.time_limit import PREPARING, TimeLimit

log = logging.getLogger(__name__)

_BATCH = 6
_MUCH_BYTES = 4 << 30
"""Arrays and references from here on take many seconds to prepare."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a search left: everything that the verdict needs."""

    contest: Contest
    winner: Runner | None
    default: Runner | None
    """What would run without tuning."""
    incumbent: Runner | None
    """What the bank held before, a library perhaps, if it runs now."""
    vendors: dict[str, Runner]
    ties: tuple[Runner, ...]
    trials: list[Trial]
    interrupted: bool
    untuned: Runner | None = None
    """Plain loops, where a solver of loop nests was asked for by name."""


class StudyRun:
    """The moving parts of a sitting. `search` spends its budget; a final comes after it."""

    def __init__(
        self,
        shop: TuningContext,
        problem: Problem,
        options: TuneOptions,
        interrupt: Interrupt,
        rules: Rules,
    ) -> None:
        self.shop, self.problem, self.options = shop, problem, options
        self.rules = rules
        self.limit = TimeLimit(options.budget.seconds, interrupt, shop.clock)
        check_memory(problem, shop.device.memory_bytes)
        with blaming(f"a solver asked about {problem.key}"):
            solvers = rules.solvers(problem, shop.target)
        self.unusable: dict[str, str] = {}
        """Solvers that could not even take part, and why."""
        self.arms: list[Arm] = []
        for solver in solvers:
            with self._forgiving(partial(self.unusable.__setitem__, solver.name)):
                self.arms.append(make_arm(shop, problem, solver, options, leads=not self.arms))
        self._by_solver = {arm.solver.name: arm for arm in self.arms}
        self._proposal: Proposal | None = None
        if rules.compares:
            with self._forgiving(log.debug):
                self._proposal = first_proposal(problem, shop.target)
        self.entry = shop.bank.lookup(problem.key, shop.device.class_key)
        self.ranking = shop.bank.lookup(problem.key, shop.device.class_key, FIND)
        self.desk = BuildDesk(shop)
        for arm in self.arms:
            self.desk.offer(arm.solver, arm.space)
        self._versions = {arm.solver.name: arm.solver.version for arm in self.arms}
        if self._proposal and self._proposal.solver.name not in self._versions:
            self.desk.offer(self._proposal.solver, self._proposal.space)
            self._versions[self._proposal.solver.name] = self._proposal.solver.version
        self.journal = Journal(shop.ledger, shop.tracer)
        self.trials: list[Trial] = []
        self.vendors: dict[str, Runner] = {}
        """Libraries that were taken in and are right."""
        self.incumbent: Candidate | None = None
        self.ranked_first: Candidate | None = None
        """The first place of the ranking that the bank holds, if it can be built."""

    def study_of(self, solver: str) -> Study:
        """The study that a solver's results belong to; the leading one for all other solvers."""
        return self._by_solver.get(solver, self.arms[0]).study

    def prepare(self) -> None:
        """Make arrays and reference, and set the searchers up."""
        shop, ledger = self.shop, self.shop.ledger
        with self._forgiving(log.debug):
            self.incumbent = incumbent_of(self.entry, self.problem, shop.device)
        with self._forgiving(log.debug):
            self.ranked_first = incumbent_of(self.ranking, self.problem, shop.device)
        for arm in self.arms:
            ledger.start_study(arm.study, arm.solver.version)
            if self.options.retune:
                ledger.forget_study(arm.study.id)
            with (
                shop.tracer.span("set up the search", "search"),
                self._forgiving(partial(setattr, arm, "broken")),
            ):
                arm.start(shop, self.options)
        self.open_contest()

    def open_contest(self) -> None:
        """Make arrays and reference."""
        shop = self.shop
        if (needed := arrays_bytes(self.problem)) > _MUCH_BYTES:
            shop.say(f"preparing {self.problem.key}: {needed / 2**30:.0f} GiB to fill and check")
        self.contest = Contest(
            shop, self.journal, self.problem, self.options.objective, hurried=self.rules.hurried
        )

    def import_libraries(self, vendors: Sequence[Solver]) -> None:
        """Import what libraries take seconds to import: a part of preparing, as arrays are."""
        packages = (one.imports for one in vendors if isinstance(one, ImportingSolver))
        for package in dict.fromkeys(packages):
            if package in self.shop.session.imported:
                continue
            self.shop.say(f"importing {package}, to compare with it")
            began = self.shop.clock()
            with self.shop.tracer.span(f"import {package}", "search"):
                self.shop.session.import_package(package)
            self._tell_if_long(package, self.shop.clock() - began)

    def _tell_if_long(self, package: str, took_s: float) -> None:
        seconds = self.options.budget.seconds
        if seconds is not None and took_s > PREPARING * seconds:
            self.shop.say(
                f"importing {package} took {took_s:.1f} s, of which {PREPARING * seconds:g} s are "
                f"counted: the search may go on for {(1.0 - PREPARING) * seconds:g} s"
            )

    def add_vendors(self, vendors: Sequence[Solver]) -> None:
        """Take libraries in; one that fails is none."""
        for vendor in vendors:
            entered = self.contest.add_vendor(vendor.name, vendor.version)
            if isinstance(entered, Failure):
                log.warning("%s fails on %s: %s", vendor.name, self.problem.key, entered.reason)
            else:
                self.vendors[vendor.name] = entered

    def search(self) -> None:
        """Spend the budget; an interrupt ends the search early and keeps what is known."""
        self.limit.prepared()
        self._retime_known()
        self._spend()
        self.desk.withdraw()
        self.journal.flush()
        self._enter(self.default)
        self._enter(self.untuned)
        self.report("final")

    @contextmanager
    def _forgiving(self, note: Callable[[str], None]) -> Iterator[None]:
        """Note what foreign code raises, and go on without it, if the rules are so."""
        try:
            yield
        except ForeignError as error:
            if not self.rules.forgiving:
                raise
            log.warning("%s", error)
            note(str(error))

    def close(self) -> None:
        """Write down what is left, and leave the builders idle."""
        self.desk.cancel()
        self.journal.flush()

    def _retime_known(self) -> None:
        for candidate in self.leaders():
            self.desk.order(candidate)
        while self.desk.pending and not self.limit.interrupted:
            self.enter_again(self.desk.collect(1.0, self.batch() if self.rules.hurried else _BATCH))

    def leaders(self) -> list[Candidate]:
        """What led before: times of another day do not compare, so it runs again, first."""
        again = led_before(self.arms, self.rules, self.default)
        for held in filter(None, (self.incumbent, self.ranked_first)):
            again.append(held)
            if held.solver not in self._versions:
                solver = solver_for(self.problem, self.shop.target, held.solver)
                self.desk.offer(solver, solver.space(self.problem, self.shop.target))
                self._versions[solver.name] = solver.version
        return list(dict.fromkeys(again))

    def enter_again(self, builds: list[Build]) -> None:
        """Take in builds that no searcher waits for."""
        for arm, trials in self._by_arm(builds, self.contest.enter(builds, self._versions)):
            arm.note(trials)

    def _by_arm(
        self, builds: list[Build], trials: list[Trial]
    ) -> Iterator[tuple[Arm, list[Trial]]]:
        """The trials of each arm that has any."""
        for arm in self.arms:
            pairs = zip(builds, trials, strict=True)
            own = [trial for build, trial in pairs if build.candidate.solver == arm.name]
            if own:
                yield arm, own

    # the search itself

    def _spend(self) -> None:
        while True:
            over = self.limit.interrupted or self._late()
            if not over:
                self._order_more()
            if over or not self.desk.pending:
                break
            builds = self.desk.collect(0.05, self.batch())
            if builds:
                self.take(builds)

    def _late(self) -> bool:
        late = self.limit.late(self.rules.final_s(self.contest))
        return late and self.rules.enough(self.arms, self.limit)

    def batch(self) -> int:
        """How many are timed side by side; of slow ones few, so that the clock is looked at."""
        pace = self.contest.pace_ns
        if pace == float("inf"):
            return 1 if self.rules.hurried else 2
        return _BATCH if pace < SLOW_NS else 1

    def _order_more(self) -> None:
        """Keep the builders busy a little ahead of the runner."""
        room = 2 * self.shop.pool.size + _BATCH - self.desk.pending
        limit = self.rules.most_trials(self.options.budget, self.arms)
        if limit is not None:
            room = min(room, limit - sum(arm.asked for arm in self.arms))
        with self.shop.tracer.span("ask", "search"):
            while room > 0:
                asked = self._ask_one_arm(min(room, TURN))
                if not asked:
                    return
                room -= asked

    def _ask_one_arm(self, most: int) -> int:
        """Let the arm whose turn it is ask; the next one where its searcher waits or is done."""
        for arm, limit in self.rules.turns(self.arms, self.contest):
            configs: list[Config] = []
            with self._forgiving(partial(setattr, arm, "broken")):
                configs = arm.ask(min(most, limit)) if limit else []
                for config in configs:
                    self.journal.ask(arm.study.id, config)
                    self.desk.order(arm.candidate(config))
            if configs:
                return len(configs)
        return 0

    def take(self, builds: list[Build]) -> None:
        """Take in builds that were asked for, and tell who asked."""
        trials = self.contest.enter(builds, self._versions)
        with self.shop.tracer.span("tell", "search"):
            for arm, own in self._by_arm(builds, trials):
                with self._forgiving(partial(setattr, arm, "broken")):
                    arm.tell(own)
                self.journal.tell(arm.study.id, own)
        self.journal.flush()
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
                self.contest.builds,
                self.contest.best.time_ns if self.contest.best else None,
                default.time_ns if default else None,
                self.shop.clock() - self.limit.started,
                self.options.budget,
            )
        )

    # what the final needs

    @property
    def default(self) -> Candidate | None:
        """What would run without tuning: gains are over it, whichever solvers race."""
        return self._proposal.candidate if self._proposal else None

    @property
    def default_runner(self) -> Runner | None:
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
        if self.options.solver is None or not self.arms:
            return None
        from skipjack.solvers.cpu.nest import ScheduleSpace  # not loaded for other solvers

        return self.arms[0].default if isinstance(self.arms[0].space, ScheduleSpace) else None

    def _running(self, candidate: Candidate | None) -> Runner | None:
        return self.contest.runners.get(candidate.key) if candidate else None

    def _enter(self, candidate: Candidate | None) -> None:
        """Time what gains are over also where the budget ended before its turn."""
        if candidate is None or self._running(candidate) or self.limit.interrupted:
            return
        arm = self._by_solver.get(candidate.solver)
        if arm and any(trial.config == candidate.config for trial in arm.trials):
            return  # it failed
        self.desk.order(candidate)
        while self.desk.pending and candidate.key not in self.contest.runners:
            builds = [b for b in self.desk.collect(1.0, 1) if b.candidate == candidate]
            self.contest.enter(builds, self._versions, once=True)
            if builds:
                break

    def standing(self, winner: Runner | None, ties: Sequence[Runner]) -> Standing:
        """What the verdict is on."""
        return Standing(
            self.contest,
            winner,
            self.default_runner,
            self._incumbent_runner(),
            {name: runner for name, runner in self.vendors.items() if compared(name)},
            tuple(ties),
            self.trials,
            self.limit.interrupted,
            self._running(self.untuned),
        )

    def _incumbent_runner(self) -> Runner | None:
        if self.incumbent is not None:
            return self.contest.runners.get(self.incumbent.key)
        return self.vendors.get(self.entry.solver) if self.entry else None

    def met(self, standing: Standing, confirmation: Confirmation) -> Met | None:
        """How the bank's entry fared beside the winner; None if there is none, or it did not run.

        It does not where its solver is not known here, or the search was interrupted.
        """
        entry, incumbent = self.entry, standing.incumbent
        if entry is None:
            return None
        if incumbent is not None:
            there = incumbent.cut_short or incumbent.kernel in confirmation.blocks
            return Met.SLOWER if there else Met.FAILED
        if self.incumbent is None and outdated(entry):
            return Met.OUTDATED
        held = self.incumbent or Candidate(self.problem, entry.solver, Config())
        return Met.FAILED if held.key in self.contest.failed else None


def check_memory(problem: Problem, memory_bytes: int) -> None:
    """Refuse a problem whose arrays cannot fit."""
    needed = arrays_bytes(problem)
    if memory_bytes and needed > 0.8 * memory_bytes:
        raise ProblemError(
            f"problem {problem.key} needs about {needed / 2**30:,.0f} GiB to tune and check, "
            f"this machine has {memory_bytes / 2**30:,.0f} GiB; choose smaller sizes"
        )
