"""How a worker reports: what went wrong becomes part of the outcome, what was said its log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from skipjack.core.trial import Trial
from skipjack.errors import ForeignError, ProblemError, SkipjackError, SpaceError, UsageError
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.worker_log import captured_log
from skipjack.tuning.build_queue import MissingCodeError

log = logging.getLogger(__name__)

_HOPELESS: dict[Stage, tuple[type[SkipjackError], ...]] = {
    Stage.BUILD: (UsageError, ForeignError),
    Stage.EVALUATE: (ProblemError, SpaceError),
}
"""What is wrong with the job itself. Evaluators are asked for cores and devices, too, which another
machine may have.
"""


def run_task(task: Task, work: Callable[[], Outcome]) -> Outcome:
    """Do the work; whatever it raises is an outcome too."""
    with captured_log(job=task.job, attempt=task.attempt) as said:
        plan = task.plan
        log.info(
            "job %d: %s %s for %s, solver %s, round %d",
            *(task.job, task.stage, plan.problem, plan.device, plan.shown_solver, task.round),
        )
        outcome = _guarded(task, work)
        if outcome.failed:
            log.error("failed: %s", outcome.failed)
    return replace(outcome, log=said.text, attempt=task.attempt)


def _guarded(task: Task, work: Callable[[], Outcome]) -> Outcome:
    try:
        return work()
    except MissingCodeError as error:
        return Outcome(task.job, task.stage, artifact_lost=str(error))
    except SkipjackError as error:
        hopeless = isinstance(error, _HOPELESS[task.stage])
        return Outcome(task.job, task.stage, failed=str(error), hopeless=hopeless)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return Outcome(task.job, task.stage, failed=f"{error.strerror or error}{where}")
    except Exception as error:  # a worker that dies of it would lose the reason
        log.debug("details", exc_info=True)
        return Outcome(task.job, task.stage, failed=f"{type(error).__name__}: {error}")


def line_of_trial(solver: str, trial: Trial) -> str:
    """One line about a trial, for people who read logs."""
    if trial.ok:
        return f"{solver} {trial.config}: {trial.metrics.get('time_ns', trial.value):,.0f} ns"
    return f"{solver} {trial.config}: {trial.status}: {trial.reason}"
