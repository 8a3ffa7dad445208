"""What benchmarks set for their whole process does not outlast their tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def gradients_stay_on() -> Iterator[None]:
    """PyTorch is timed without them; tests that follow in this process may need them."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_grad_enabled(True)
