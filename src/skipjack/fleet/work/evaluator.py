"""Times a round's builds where the device is, and speaks the verdict when the budget is spent."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from skipjack.core.trial import Candidate
from skipjack.errors import WorkerError
from skipjack.execute.device_lock import slot_lock
from skipjack.execute.session import RunSession
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.toolchain import toolchain
from skipjack.fleet.work.seating import Seating, seat_on_cores, seat_on_gpu
from skipjack.fleet.work.shop import TaskShop, options_of
from skipjack.fleet.work.telling import line_of_trial, performing
from skipjack.interrupt import Interrupt
from skipjack.ledger import CandidateKey
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import Settings
from skipjack.solvers import find_solver
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.result import Outcome as Verdict
from skipjack.tuning.rounds import ToldRound, evaluate_round
from skipjack.tuning.workshop import protocol_for, timing_cores

log = logging.getLogger(__name__)


class Evaluator:
    """Keeps a run session warm on cores or a GPU of its own, and holds them while it times."""

    def __init__(self, settings: Settings, cores: Sequence[int] = (), gpu: str = "") -> None:
        self._settings = settings
        self._cores = tuple(cores) or tuple(cpu.usable_cores())
        self._gpu = gpu
        self._session: RunSession | None = None
        self._timed_on: Seating | None = None

    def perform(self, task: Task) -> Outcome:
        """Evaluate a round."""
        return performing(task, lambda: self._evaluate(task))

    def _evaluate(self, task: Task) -> Outcome:
        device = task.device
        if device.kind == "cpu":
            seating = seat_on_cores(device, self._cores_for(device.units))
        else:
            seating = seat_on_gpu(device, self._gpu, self._cores)
        with slot_lock(device.kind, seating.units, log.info):
            session = self._session_on(seating)
            shop = TaskShop(self._settings, task, device=seating.device, session=session)
            try:
                problem = parse(task.plan.problem)
                told = evaluate_round(
                    shop, problem, options_of(task), Interrupt(), epoch=task.epoch
                )
                return _outcome(task, shop, told)
            finally:
                shop.close()

    def _cores_for(self, units: int) -> tuple[int, ...]:
        if units > len(self._cores):
            raise WorkerError(
                f"{units} threads are asked for, this evaluator has {len(self._cores)} cores"
            )
        if len(self._cores) == len(cpu.usable_cores()):
            return tuple(timing_cores(self._settings, units))
        return self._cores[-units:]

    def _session_on(self, seating: Seating) -> RunSession:
        if self._session is None or self._timed_on != seating:
            self.close()
            protocol = protocol_for(seating.device)
            self._session = RunSession(protocol, seating.cores, seating.gpu or None)
            self._timed_on = seating
        return self._session

    def close(self) -> None:
        """End the session."""
        if self._session:
            self._session.close()
            self._session = None


def _outcome(task: Task, shop: TaskShop, told: ToldRound) -> Outcome:
    failed = sum(trial.status.failed for _, trial in told.trials)
    for solver, trial in told.trials:
        log.info("%s", line_of_trial(solver, trial))
    result = told.result
    if result is None:
        verdict = None
    else:
        code = result.code.record() if result.code else None
        verdict = {
            **result.to_json(),
            "solver_version": find_solver(result.solver).version,
            "toolchain": toolchain(task.device, _compilers(task, shop, told)),
            "code": code,
        }
        log.info("verdict: %s %s", result.status, result.reason or result.best)
        if result.status is Verdict.FAILED:
            log.warning("no config ran: %s", result.reason)
    return Outcome(
        task.job,
        Stage.EVALUATE,
        finished=result is not None,
        facts=shop.facts(),
        trials=len(told.trials),
        failed_trials=failed,
        best_ns=told.best_ns,
        result=verdict,
    )


def _compilers(task: Task, shop: TaskShop, told: ToldRound) -> dict[str, set[str]]:
    """What compiled this round's configs and the winner, by the name of that compiler here."""
    problem = parse(task.plan.problem)
    timed = [(solver, trial.config) for solver, trial in told.trials]
    if told.result is not None:
        timed.append((told.result.solver, told.result.best))
    found: dict[str, set[str]] = defaultdict(set)
    for name, config in timed:
        solver = find_solver(name)
        if not isinstance(solver, BuildingSolver):
            continue
        key = CandidateKey.of(Candidate(problem, name, config), solver.version)
        build = shop.ledger.find_build(
            key.problem, key.solver, key.solver_version, key.config, task.device.compat_key
        )
        if build is not None and build.compiler:
            found[solver.compiler()].add(build.compiler)
    return dict(found)
