"""A tuner that stays open for a whole file: its workers start once."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.settings import Settings
from skipjack.tuning import Tuner


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user directory, and beside it the temporary directory where the device lock lies."""
    place = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        (place / "scratch").mkdir()
        patch.setenv("TMPDIR", str(place / "scratch"))
        patch.setenv("SKIPJACK_LOCK_DIR", str(place / "scratch"))
        patch.setattr(tempfile, "tempdir", str(place / "scratch"))
        patch.setenv("SKIPJACK_USER_DB_PATH", str(place / "user"))
        patch.setenv("SKIPJACK_BUILD_WORKERS", "1")
        yield place / "user"


@pytest.fixture(scope="module")
def tuner(home: Path) -> Iterator[Tuner]:
    made = Tuner(Settings(home))
    made.context.protocol = replace(made.context.protocol, call_timeout_s=0.7)
    with made:
        made.context.pool.timeout_s = 1.0
        yield made
