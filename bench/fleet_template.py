"""What a real job of 100 trials leaves behind: built and evaluated here once, to be copied."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from fleet_record import Record
from skipjack.errors import SkipjackError
from skipjack.fleet.model import JobPlan, JobStage, Task, TaskOutcome
from skipjack.native import cpu

TRIALS = 100
_PLAN = ("matmul:192x192x192", "microkernel", "random")


@dataclass(frozen=True, slots=True)
class Template:
    """The outcomes of both stages, without machine code."""

    built: TaskOutcome
    told: TaskOutcome

    def sizes(self) -> Record:
        """What is in them, in characters and rows."""
        return {
            "problem": _PLAN[0],
            "trials": self.told.trials,
            "build_facts_characters": len(self.built.facts),
            "evaluate_facts_characters": len(self.told.facts),
            "evaluate_log_characters": len(self.told.log),
            "build_rows": _rows(self.built.facts),
            "evaluate_rows": _rows(self.told.facts),
        }

    def save(self, file: Path) -> None:
        """For other processes of the same run."""
        bodies = [outcome.message().body for outcome in (self.built, self.told)]
        file.write_text(json.dumps(bodies), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> Template:
        """What `save` wrote."""
        from skipjack.execute import Message

        bodies = json.loads(file.read_text(encoding="utf-8"))
        return cls(*(TaskOutcome.of(Message(body, ())) for body in bodies))


def real_job() -> Template:
    """Do a job of 100 trials in one round. Its machine code is left out of what comes of it."""
    from skipjack.fleet.work import make_worker

    with tempfile.TemporaryDirectory(prefix="template-") as directory:
        os.environ |= {"SKIPJACK_USER_DB_PATH": directory, "SKIPJACK_LOCK_DIR": directory}
        device = cpu.detect(1)
        problem, solver, searcher = _PLAN
        plan = JobPlan(problem, device.name, solver, searcher, budget=TRIALS, round=TRIALS)
        builder = make_worker(JobStage.BUILD)
        built = builder.perform(Task(1, JobStage.BUILD, plan, device))
        builder.close()
        evaluator = make_worker(JobStage.EVALUATE, cores=cpu.usable_cores()[-1:])
        task = Task(1, JobStage.EVALUATE, plan, device, 0, 0, (built.facts,), built.artifacts)
        told = evaluator.perform(task)
        evaluator.close()
    if built.failed or told.failed or not told.finished:
        raise SkipjackError(f"the job did not work: {built.failed or told.failed or 'unfinished'}")
    return Template(_without_code(built), _without_code(told))


def _without_code(outcome: TaskOutcome) -> TaskOutcome:
    return replace(outcome, artifacts={}, digests=())


def _rows(facts: str) -> dict[str, int]:
    return {name: len(table["rows"]) for name, table in json.loads(facts)["tables"].items()}
