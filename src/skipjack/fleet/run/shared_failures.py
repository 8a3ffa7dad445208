"""Failed builds of all machines of a store, for builders that would try them again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from skipjack.fleet.model import Claim, JobStage, Task
from skipjack.fleet.run.queue_interface import JobQueue
from skipjack.ledger import write_facts


class SharedFailures:
    """Sends each machine's builders what failed elsewhere, once, with their next task."""

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self._until: float | None = None
        self._seen: set[str] = set()
        self._texts: list[str] = []
        self._sent: Counter[int] = Counter()
        """How many of the texts each machine has."""

    def update(self) -> None:
        """Read what has failed since the last call."""
        facts, self._until = self._queue.failed_builds(self._until)
        new = [row for row in facts.get("builds", ()) if row["id"] not in self._seen]
        if new:
            self._seen |= {str(row["id"]) for row in new}
            self._texts.append(write_facts(facts))

    def added_to(self, claim: Claim, task: Task) -> Task:
        """The task with what its machine does not know yet."""
        if claim.stage is not JobStage.BUILD or self._sent[claim.machine] == len(self._texts):
            return task
        texts = tuple(self._texts[self._sent[claim.machine] :])
        self._sent[claim.machine] = len(self._texts)
        return replace(task, failures=texts)
