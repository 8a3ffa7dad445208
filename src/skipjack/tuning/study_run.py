"""One sitting of one study: ask, build, race, confirm, keep."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.study import Study
from skipjack.core.trial import Candidate, Trial
from skipjack.errors import ProblemError, blaming
from skipjack.execute.build_pool import Build
from skipjack.execute.session import Failure
from skipjack.execute.statistics import summarize
from skipjack.operations import arrays_bytes
from skipjack.search import SearchContext, Searcher, choose, create
from skipjack.solvers import find_solver, names, solver_for, vendors_for
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.build_desk import BuildDesk
from skipjack.tuning.contest import Contest, Runner
from skipjack.tuning.interrupt import Interrupt
from skipjack.tuning.journal import Journal
from skipjack.tuning.options import Progress, TuneOptions
from skipjack.tuning.seeds import starting_points
from skipjack.tuning.workshop import Workshop

log = logging.getLogger(__name__)

_BATCH = 6
_FINISH_SHARE = 0.12
_FINISH_AT_LEAST_S = 0.25
"""Of a budget in seconds, this much is kept for the final and the confirmation."""
_FINALISTS = 6


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
        self.started = time.monotonic()
        check_memory(problem, shop.device.memory_bytes)
        with blaming(f"a solver asked about {problem.key}"):
            self.solver = solver_for(problem, shop.device, options.solver)
        with blaming(f"solver {self.solver.name} asked for the space of {problem.key}"):
            self.space = self.solver.space(problem, shop.device)
        budget = options.budget
        name = options.searcher
        if name == "auto":
            name = choose(self.space, budget.trials)
        self.study = Study(
            problem,
            self.solver.name,
            shop.device.class_key,
            name,
            options.seed,
            f"{self.solver.version}:{_space_digest(self.space)}",
            options.objective,
            shop.protocol,
        )
        self._default = Candidate(problem, self.solver.name, self.space.default())
        self.entry = shop.bank.lookup(problem.key, shop.device.class_key)
        self.desk = BuildDesk(shop, self.solver, self.space)
        self.journal = Journal(shop.ledger, self.study.id, shop.tracer)
        self.searcher: Searcher
        self.trials: list[Trial] = []
        self.incumbent: Candidate | None = None

    def search(self) -> Standing:
        """Spend the budget; an interrupt ends the search early and keeps what is known."""
        shop, ledger = self.shop, self.shop.ledger
        ledger.start_study(self.study, self.solver.version)
        if self.options.retune:
            ledger.forget_study(self.study.id)
        known = tuple(ledger.trials(self.study.id))
        self.incumbent = self._incumbent()
        winners = ledger.winners(self.problem.operation, shop.device.class_key)
        with shop.tracer.span("set up the search", "search"), self._blaming_searcher():
            seeds = starting_points(self.problem, self.space, self.solver.name, winners)
            self.searcher = create(
                self.study.searcher,
                SearchContext(
                    self.space, self.options.seed, self.options.budget.trials, seeds, known
                ),
            )
        self.contest = Contest(shop, self.journal, self.problem, self.options.objective)
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
        if solver.refuses(self.problem, self.shop.device):
            return None
        if not solver.space(self.problem, self.shop.device).contains(config):
            return None
        return Candidate(self.problem, solver.name, config)

    def _retime_known(self, known: tuple[Trial, ...]) -> None:
        """Times of another day do not compare: what led before runs again, first."""
        ranked = sorted((t for t in known if t.ok), key=lambda t: t.value or 0.0)
        old = {trial.config for trial in known}
        configs = [config for config in [self.space.default()] if config in old]
        configs += [trial.config for trial in ranked[:3]]
        again = [Candidate(self.problem, self.solver.name, config) for config in configs]
        self._enter(self.desk, again, self.solver)
        if self.incumbent is not None:
            solver = solver_for(self.problem, self.shop.device, self.incumbent.solver)
            desk = BuildDesk(self.shop, solver, solver.space(self.problem, self.shop.device))
            self._enter(desk, [self.incumbent], solver)

    def _enter(
        self, desk: BuildDesk, candidates: Sequence[Candidate], solver: BuildingSolver
    ) -> None:
        """Build and time candidates that the searcher did not ask for."""
        for candidate in dict.fromkeys(candidates):
            if candidate.key not in self.contest.runners:
                desk.order(candidate)
        while desk.pending and not self._interrupt.requested:
            self.contest.enter(desk.collect(1.0, _BATCH), solver.version)

    def out_of_time(self) -> bool:
        """Whether the budget of seconds is spent, or somebody pressed Ctrl-C."""
        seconds = self.options.budget.seconds
        late = seconds is not None and time.monotonic() > self.started + seconds
        return late or self._interrupt.requested

    # the search itself

    def _spend(self) -> None:
        deadline = self._search_deadline()
        while True:
            late = deadline is not None and time.monotonic() >= deadline
            # Large arrays take long to prepare: something is tried all the same.
            over = self._interrupt.requested or (late and bool(self.trials))
            if not over:
                self._order_more()
            if over or not self.desk.pending:
                break
            builds = self.desk.collect(0.05, _BATCH)
            if builds:
                self._run(builds)

    def _search_deadline(self) -> float | None:
        seconds = self.options.budget.seconds
        if seconds is None:
            return None
        reserve = max(_FINISH_AT_LEAST_S, _FINISH_SHARE * seconds)
        return self.started + max(seconds - reserve, 0.3 * seconds)

    def _order_more(self) -> None:
        """Keep the builders busy a little ahead of the runner."""
        room = 2 * self.shop.pool.size + _BATCH - self.desk.pending
        if room <= 0:
            return
        with self.shop.tracer.span("ask", "search"), self._blaming_searcher():
            configs = self.searcher.ask(room)
        for config in configs:
            self.journal.ask(config)
            self.desk.order(Candidate(self.problem, self.solver.name, config))

    def _blaming_searcher(self) -> contextlib.AbstractContextManager[None]:
        return blaming(f"searcher {self.study.searcher}")

    def _run(self, builds: list[Build]) -> None:
        trials = self.contest.enter(builds, self.solver.version)
        with self.shop.tracer.span("tell", "search"), self._blaming_searcher():
            for trial in trials:
                self.searcher.tell(trial)
        self.journal.tell(trials)
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

    def _finish(self) -> Standing:
        contest = self.contest
        self.report("final")
        finalists = contest.finalists(_FINALISTS)
        winner, ties = self._final(finalists)
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

    def _final(self, finalists: list[Runner]) -> tuple[Runner | None, tuple[Runner, ...]]:
        """The leaders once more, side by side; those within the noise of the winner are ties."""
        if len(finalists) < 2:
            return (finalists[0] if finalists else None), ()
        blocks, _ = self.contest.time(finalists, 4)
        for runner in finalists:
            if runner.kernel in blocks:
                timing = summarize(blocks[runner.kernel])
                runner.time_ns, runner.spread = timing.time_ns, timing.spread
        there = [runner for runner in finalists if runner.kernel in blocks]
        there.sort(key=lambda runner: runner.time_ns)
        if not there:
            return None, ()
        self.contest.best = there[0]
        near = [
            r for r in there[1:] if r.time_ns < there[0].time_ns * (1 + _tie_width(there[0], r))
        ]
        return there[0], tuple(near)


def _tie_width(one: Runner, other: Runner) -> float:
    return max(0.005, min(one.spread, other.spread, 0.02))


def _space_digest(space: object) -> str:
    digest = getattr(space, "digest", None)
    return str(digest() if callable(digest) else digest or "")


def check_memory(problem: Problem, memory_bytes: int) -> None:
    """Refuse a problem whose arrays cannot fit."""
    needed = arrays_bytes(problem)
    if memory_bytes and needed > 0.8 * memory_bytes:
        raise ProblemError(
            f"problem {problem.key} needs about {needed / 2**30:,.0f} GiB to tune and check, "
            f"this machine has {memory_bytes / 2**30:,.0f} GiB; choose smaller sizes"
        )
