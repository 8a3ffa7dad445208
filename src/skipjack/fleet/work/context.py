"""The context of one task: its ledger is in memory, and its facts go back with the outcome."""

from __future__ import annotations

from skipjack.core.device import Device
from skipjack.execute.session import RunSession
from skipjack.fleet.task import Task
from skipjack.ledger import Ledger
from skipjack.ledger.facts import BUILD_TABLES
from skipjack.settings import Settings
from skipjack.storage import MemoryArtifacts
from skipjack.tuning.build_queue import Builders
from skipjack.tuning.context import DeviceContext, NoBank


class TaskContext(DeviceContext):
    """Everything that a round needs; workers are lent by who does many tasks."""

    compiles = False  # builders and evaluators may have different compilers

    def __init__(
        self,
        settings: Settings,
        task: Task,
        *,
        device: Device | None = None,
        pool: Builders | None = None,
        session: RunSession | None = None,
    ) -> None:
        super().__init__(settings, device or task.device)
        self.target = task.device
        self.ledger = Ledger.in_memory()
        self.bank = NoBank()
        self.new_artifacts = MemoryArtifacts(task.artifacts)
        self.artifacts = self.new_artifacts
        if pool:
            self.pool = pool
        if session:
            self.session = session
        for text in task.facts:
            self.ledger.add_facts(text)
        self._before = self.ledger.snapshot()
        self.ledger.add_device(self.device)

    def facts(self) -> str:
        """What this task found out."""
        return self.ledger.facts_beyond(self._before)

    def facts_of_builds(self) -> str:
        """What was built, without who asked for it."""
        return self.ledger.facts_beyond(self._before, BUILD_TABLES)

    def close(self) -> None:
        """Let the ledger go; workers stay with who lent them."""
        self.ledger.close()
