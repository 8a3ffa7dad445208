"""Reports are printed also if all is well: the seed, and what was survived."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fleet_under_fire import Report


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[Report], None]:
    """Prints a report."""

    def tell(report: Report) -> None:
        with capsys.disabled():
            print(f"\n{report}")

    return tell
