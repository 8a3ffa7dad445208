"""Triton's own files go to a place of the test run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack import plugins

TINY = Path(__file__).parents[2] / "tiny_gpu.py"


@pytest.fixture(autouse=True)
def triton_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Triton would leave something."""
    place = tmp_path_factory.mktemp("triton")
    monkeypatch.setenv("TRITON_HOME", str(place))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(place / "cache"))
    return place


@pytest.fixture(scope="module")
def tiny_everywhere() -> Iterator[Path]:
    """The tiny solver, loaded here and in every worker that is started from now on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, "")
        plugins.load((str(TINY),))
        patch.setenv(plugins.VARIABLE, str(TINY))
        yield TINY
