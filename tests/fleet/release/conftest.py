"""A store in a file of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack.fleet.store.opening import open_store
from skipjack.fleet.store.store import Store


@pytest.fixture
def shelf(user_dir: Path) -> Iterator[Store]:
    """An empty store, where commands of this test look for it."""
    with open_store() as opened:
        yield opened
