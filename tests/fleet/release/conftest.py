"""A store in a file of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from promoted import FDB, find_record

from skipjack.fleet.store import Store, open_store
from skipjack.interop.miopen import write_text_db


@pytest.fixture
def shelf(user_dir: Path) -> Iterator[Store]:
    """An empty store, where commands of this test look for it."""
    with open_store() as opened:
        yield opened


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """A directory with a find-db of three problems."""
    directory = tmp_path / "kernels"
    directory.mkdir()
    write_text_db(directory / FDB, [find_record(1, A=1), find_record(2, A=1), find_record(3, A=1)])
    return directory
