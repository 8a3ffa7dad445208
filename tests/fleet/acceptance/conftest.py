"""Reports are printed also if all is well: the seed, and what was survived."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fleet_under_fire import Report

Say = Callable[[Report], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Prints a report."""

    def tell(report: Report) -> None:
        with capsys.disabled():
            print(f"\n{report}")

    return tell
