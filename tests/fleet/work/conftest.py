"""Workers of this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack.fleet.model import JobStage
from skipjack.fleet.work import Worker, make_worker


@pytest.fixture
def workers(user_dir: Path) -> Iterator[dict[JobStage, Worker]]:
    """A builder and an evaluator."""
    made = {stage: make_worker(stage) for stage in JobStage}
    yield made
    for worker in made.values():
        worker.close()
