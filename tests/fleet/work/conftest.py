"""Workers of this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack.fleet.states import Stage
from skipjack.fleet.work import Worker, make_worker


@pytest.fixture
def workers(user_dir: Path) -> Iterator[dict[Stage, Worker]]:
    """A builder and an evaluator."""
    made = {stage: make_worker(stage) for stage in Stage}
    yield made
    for worker in made.values():
        worker.close()
