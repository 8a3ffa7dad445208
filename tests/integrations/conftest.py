"""Triton's cache and the user directory of a test's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skipjack import operations, plugins
from skipjack.integrations.triton import call_session, user_solver
from skipjack.solvers import registry


@pytest.fixture(scope="session")
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the tests: what one compiled, others need not."""
    return tmp_path_factory.mktemp("triton_cache")


@pytest.fixture(autouse=True)
def own_places(user_dir: Path, triton_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from or left in the user's own folders."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(triton_cache))
    monkeypatch.setenv("SKIPJACK_BUILD_WORKERS", "2")
    monkeypatch.delenv("SKIPJACK_AUTOTUNE", raising=False)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A GPU that is not there, for kernels of `autotune_rig`."""
    from autotune_rig import Rig, add_one, by_block
    from fake_triton import FakeTimer, gpu

    add_one.device_caches.clear()  # kernels that another test's GPU holds
    with gpu(by_block) as fake:
        timer = FakeTimer(fake)
        monkeypatch.setattr(call_session, "LaunchTimer", lambda graphs: timer)
        yield Rig(fake, timer)


@pytest.fixture
def fresh_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels that a test registers are gone after it."""
    monkeypatch.setattr(operations.registry, "_known", dict(operations.registry._known))
    monkeypatch.setattr(registry, "_known", dict(registry._known))
    monkeypatch.setattr(user_solver, "_known", {})
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setenv(plugins.VARIABLE, "")
    yield
