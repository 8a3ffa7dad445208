"""What benchmarks set for their whole process does not outlast their tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from skipjack import operations, plugins


@pytest.fixture(autouse=True)
def gradients_stay_on() -> Iterator[None]:
    """PyTorch is timed without them; tests that follow in this process may need them."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_grad_enabled(True)


@pytest.fixture(autouse=True)
def operations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plug-ins of benchmarks are of their tests alone."""
    monkeypatch.setattr(operations.registry, "_known", dict(operations.registry._known))
    monkeypatch.setattr(plugins, "_loaded", dict(plugins._loaded))
    for name in (plugins.VARIABLE, plugins.FOLDERS):
        monkeypatch.setenv(name, "")
