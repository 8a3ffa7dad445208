"""A clock that ticks with every call, and small records."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skipjack.core import Problem, Study
from skipjack.ledger import Ledger
from skipjack.storage import Clock


@pytest.fixture
def clock() -> Clock:
    """One second later at every look."""
    moments = (datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in range(10**9))
    return lambda: next(moments)


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "here", clock=clock) as opened:
        yield opened


@pytest.fixture
def study() -> Study:
    problem = Problem("matmul", (8, 8, 8))
    return Study(problem, "loops", "cpu:znver4/1:abc", "genetic", seed=2**70)
