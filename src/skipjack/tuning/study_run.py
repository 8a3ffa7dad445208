"""One sitting at one problem: its solvers ask, and what is built races for the first place."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.study import Study
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ProblemError, blaming
from skipjack.execute.build_pool import Build
from skipjack.execute.session import Failure
from skipjack.operations import arrays_bytes
from skipjack.solvers import find_solver, names, solver_for, solvers_for, vendors_for
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.arm import Arm, in_turn, make_arm
from skipjack.tuning.build_desk import BuildDesk
from skipjack.tuning.contest import SLOW_NS, Contest, Runner
from skipjack.tuning.final import hold_final
from skipjack.tuning.interrupt import Interrupt
from skipjack.tuning.journal import Journal
from skipjack.tuning.options import Progress, TuneOptions
from skipjack.tuning.workshop import Workshop

log = logging.getLogger(__name__)

_BATCH = 6
_TURN = 2
"""Configs that a solver asks before another one may."""
_FINISH_SHARE = 0.12
_FINISH_AT_LEAST_S = 0.25
"""Of a budget in seconds, this much is kept for the final and the confirmation."""
_PREPARING = 0.4
"""Share of the seconds that filling arrays and computing the reference can take away at most."""
_AT_LEAST = 4
"""Trials, also where there would be too little time for a final after them."""
_MUCH_BYTES = 4 << 30
"""Arrays and references from here on take many seconds to prepare."""
_FINAL_CALLS = 40
"""Calls of kernels about as fast as the best that a final and a confirmation take at least."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a search left: everything that the verdict needs."""

    contest: Contest
    winner: Runner | None
    default: Runner | None
    incumbent: Runner | None
    """What the bank held before, re-timed now."""
    vendors: dict[str, Runner]
    ties: tuple[Runner, ...]
    trials: list[Trial]
    interrupted: bool


class StudyRun:
    """The moving parts of a sitting. `search` runs it."""

    def __init__(
        self, shop: Workshop, problem: Problem, options: TuneOptions, interrupt: Interrupt
    ) -> None:
        self.shop, self.problem, self.options = shop, problem, options
        self._interrupt = interrupt
        self.started = self._prepared = time.monotonic()
        check_memory(problem, shop.device.memory_bytes)
        with blaming(f"a solver asked about {problem.key}"):
            solvers = solvers_for(problem, shop.device, options.solver)
        self.arms = [
            make_arm(shop, problem, solver, options, leads=place == 0)
            for place, solver in enumerate(solvers)
        ]
        self._by_solver = {arm.solver.name: arm for arm in self.arms}
        self._default = self.arms[0].default
        self.entry = shop.bank.lookup(problem.key, shop.device.class_key)
        self.desk = BuildDesk(shop)
        for arm in self.arms:
            self.desk.offer(arm.solver, arm.space)
        self._versions = {arm.solver.name: arm.solver.version for arm in self.arms}
        self.journal = Journal(shop.ledger, shop.tracer)
        self.trials: list[Trial] = []
        self.incumbent: Candidate | None = None

    def study_of(self, solver: str) -> Study:
        """The study that a solver's results belong to; the leading one for all other solvers."""
        return self._by_solver.get(solver, self.arms[0]).study

    def search(self) -> Standing:
        """Spend the budget; an interrupt ends the search early and keeps what is known."""
        shop, ledger = self.shop, self.shop.ledger
        self.incumbent = self._incumbent()
        known: list[tuple[Arm, Trial]] = []
        for arm in self.arms:
            ledger.start_study(arm.study, arm.solver.version)
            if self.options.retune:
                ledger.forget_study(arm.study.id)
            with shop.tracer.span("set up the search", "search"):
                known += [(arm, trial) for trial in arm.start(shop, self.options)]
        if (needed := arrays_bytes(self.problem)) > _MUCH_BYTES:
            shop.say(f"preparing {self.problem.key}: {needed / 2**30:.0f} GiB to fill and check")
        self.contest = Contest(shop, self.journal, self.problem, self.options.objective)
        self._prepared = time.monotonic()
        self._retime_known(known)
        self._spend()
        self.desk.withdraw()
        self.journal.flush()
        return self._finish()

    def close(self) -> None:
        """Write down what is left, and leave the builders idle."""
        self.desk.cancel()
        self.journal.flush()

    def _incumbent(self) -> Candidate | None:
        """What the bank holds, if it can still be built; vendors are timed in any case."""
        entry = self.entry
        if entry is None or entry.solver not in names():
            return None
        solver = find_solver(entry.solver)
        config = Config(dict(entry.config))
        if not isinstance(solver, BuildingSolver) or entry.solver_version != solver.version:
            return None
        with blaming(f"solver {solver.name} asked about {self.problem.key}"):
            if solver.refuses(self.problem, self.shop.device):
                return None
            if not solver.space(self.problem, self.shop.device).contains(config):
                return None
        return Candidate(self.problem, solver.name, config)

    def _retime_known(self, known: list[tuple[Arm, Trial]]) -> None:
        """Times of another day do not compare: what led before runs again, first."""
        ranked = sorted((pair for pair in known if pair[1].ok), key=lambda pair: pair[1].value or 0)
        old = {arm.candidate(trial.config) for arm, trial in known}
        again = [self._default] if self._default in old else []
        again += [arm.candidate(trial.config) for arm, trial in ranked[:3]]
        if self.incumbent is not None:
            again.append(self.incumbent)
            if self.incumbent.solver not in self._by_solver:
                solver = solver_for(self.problem, self.shop.device, self.incumbent.solver)
                self.desk.offer(solver, solver.space(self.problem, self.shop.device))
                self._versions[solver.name] = solver.version
        for candidate in dict.fromkeys(again):
            self.desk.order(candidate)
        while self.desk.pending and not self._interrupt.requested:
            builds = self.desk.collect(1.0, _BATCH)
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

    def out_of_time(self) -> bool:
        """Whether the budget of seconds is spent, or somebody pressed Ctrl-C."""
        seconds = self.options.budget.seconds
        late = seconds is not None and time.monotonic() > self._start() + seconds
        return late or self._interrupt.requested

    def _start(self) -> float:
        """When the budget began: later than the sitting where preparing took most of it."""
        return max(self.started, self._prepared - _PREPARING * (self.options.budget.seconds or 0))

    # the search itself

    def _spend(self) -> None:
        while True:
            over = self._interrupt.requested or self._late()
            if not over:
                self._order_more()
            if over or not self.desk.pending:
                break
            builds = self.desk.collect(0.05, self._batch())
            if builds:
                self._run(builds)

    def _late(self) -> bool:
        """Whether what is left of the seconds is needed for the final and the confirmation."""
        seconds = self.options.budget.seconds
        if seconds is None:
            return False
        best = self.contest.best
        final = _FINAL_CALLS * best.time_ns * 1e-9 if best else 0.0
        reserve = max(_FINISH_AT_LEAST_S, _FINISH_SHARE * seconds, final)
        late = time.monotonic() >= self._start() + max(seconds - reserve, 0.3 * seconds)
        # Large arrays take long to prepare: some are tried all the same.
        return late and len(self.trials) >= (1 if self.out_of_time() else _AT_LEAST)

    def _batch(self) -> int:
        """How many are timed side by side; of slow ones few, so that the clock is looked at."""
        best = self.contest.best
        if best is None:
            return 2
        return _BATCH if best.time_ns < SLOW_NS else 1

    def _order_more(self) -> None:
        """Keep the builders busy a little ahead of the runner."""
        room = 2 * self.shop.pool.size + _BATCH - self.desk.pending
        limit = self.options.budget.trials
        if limit is not None:
            room = min(room, limit - sum(arm.asked for arm in self.arms))
        with self.shop.tracer.span("ask", "search"):
            while room > 0:
                asked = self._ask_one_arm(min(room, _TURN))
                if not asked:
                    return
                room -= asked

    def _ask_one_arm(self, most: int) -> int:
        """Let the arm whose turn it is ask; the next one where its searcher waits or is done."""
        for arm, limit in in_turn(self.arms):
            configs = arm.ask(min(most, limit)) if limit else []
            for config in configs:
                self.journal.ask(arm.study.id, config)
                self.desk.order(arm.candidate(config))
            if configs:
                return len(configs)
        return 0

    def _run(self, builds: list[Build]) -> None:
        trials = self.contest.enter(builds, self._versions)
        with self.shop.tracer.span("tell", "search"):
            for arm, own in self._by_arm(builds, trials):
                arm.tell(own)
                self.journal.tell(arm.study.id, own)
        self.journal.flush()
        self.trials += trials
        self.report("search")

    def report(self, phase: str) -> None:
        """Tell the observer where we stand."""
        default = self.contest.runners.get(self._default.key)
        self.options.observer(
            Progress(
                self.problem.key,
                phase,
                len(self.trials),
                sum(trial.status.failed for trial in self.trials),
                self.contest.builds,
                self.contest.best.time_ns if self.contest.best else None,
                default.time_ns if default else None,
                time.monotonic() - self.started,
                self.options.budget,
            )
        )

    # the final

    def _enter_default(self) -> None:
        """Gains are over the default: it is timed even where the budget ended before its turn."""
        if self._default.key in self.contest.runners or self._interrupt.requested:
            return
        if any(trial.config == self._default.config for trial in self.arms[0].trials):
            return  # it failed
        self.desk.order(self._default)
        while self.desk.pending and self._default.key not in self.contest.runners:
            builds = [b for b in self.desk.collect(1.0, 1) if b.candidate == self._default]
            self.contest.enter(builds, self._versions)
            if builds:
                break

    def _finish(self) -> Standing:
        contest = self.contest
        self._enter_default()
        self.report("final")
        winner, ties = hold_final(contest)
        vendors: dict[str, Runner] = {}
        for vendor in vendors_for(self.problem, self.shop.device):
            entered = contest.add_vendor(vendor.name, vendor.version)
            if isinstance(entered, Failure):
                log.warning("%s fails on %s: %s", vendor.name, self.problem.key, entered.reason)
            else:
                vendors[vendor.name] = entered
        return Standing(
            contest,
            winner,
            contest.runners.get(self._default.key),
            contest.runners.get(self.incumbent.key) if self.incumbent else None,
            vendors,
            ties,
            self.trials,
            self._interrupt.requested,
        )


def check_memory(problem: Problem, memory_bytes: int) -> None:
    """Refuse a problem whose arrays cannot fit."""
    needed = arrays_bytes(problem)
    if memory_bytes and needed > 0.8 * memory_bytes:
        raise ProblemError(
            f"problem {problem.key} needs about {needed / 2**30:,.0f} GiB to tune and check, "
            f"this machine has {memory_bytes / 2**30:,.0f} GiB; choose smaller sizes"
        )
