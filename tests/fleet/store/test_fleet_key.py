"""What machines of a fleet must agree on."""

from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.fleet.signature import VARIABLE
from skipjack.fleet.store import open_store
from skipjack.processes import ProcessIdentity


def test_a_machine_with_another_key_is_refused_before_it_takes_jobs(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(store_url) as first:
        first.queue.start_lease(ProcessIdentity("one", 1), 60.0)
    other = tmp_path / "other.key"
    other.write_text("ab" * 32)
    other.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(other))
    with open_store(store_url) as second, pytest.raises(StorageError, match=r"copy fleet\.key"):
        second.queue.start_lease(ProcessIdentity("two", 2), 60.0)
