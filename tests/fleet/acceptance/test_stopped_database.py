"""A database that goes away in the middle of a run, for a while or for good."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coordinators import Coordinators
from fleet_under_fire import LABEL, load, plans
from servers import Server
from store_audit import complaints

from processes import PATIENCE_S
from skipjack.errors import StorageError
from skipjack.fleet.engines import LocalEngine
from skipjack.fleet.model import JobState
from skipjack.fleet.run import Coordinator, RunRequest
from skipjack.fleet.store import Store, open_store
from skipjack.interrupt import Interrupt
from skipjack.settings import load_settings

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("user_dir", "rogue_everywhere", "children"),
]

JOBS = 4


@pytest.fixture
def url(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with jobs."""
    found = server.fresh()
    monkeypatch.setenv("SKIPJACK_DB", found)
    with open_store(found) as store:
        load(store, plans(JOBS, hanging=0))
    yield found


def until(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def count(store: Store, state: JobState) -> int:
    return store.queue.live(LABEL).get(state, 0)


@pytest.mark.parametrize(
    "server", ["postgresql", pytest.param("mariadb", marks=pytest.mark.long)], indirect=True
)
def test_a_run_waits_for_a_database_and_goes_on_by_itself(
    server: Server, url: str, tmp_path: Path
) -> None:
    with Coordinators(LABEL, tmp_path, count=1, lease_s=2.0) as crew:
        with open_store(url) as store:
            until(lambda: count(store, JobState.EVALUATING) > 0)
        server.stop()
        (run,) = crew.alone()
        time.sleep(3.0)  # longer than the lease
        assert run.alive
        server.start()
        assert not crew.wait(PATIENCE_S)
        assert crew.endings == {"0: ": 1}
        assert crew.settled["finished"] == JOBS
        assert not crew.tracebacks
    assert not complaints(url)


@pytest.mark.long
def test_a_run_gives_up_after_its_patience_and_loses_nothing(server: Server, url: str) -> None:
    request = RunRequest(LABEL, lease_s=2.0)
    said: list[str] = []

    def cut() -> None:
        with open_store(url) as watching:
            until(lambda: count(watching, JobState.EVALUATING) > 0)
        server.kill()

    with (
        open_store(url, patience_s=1.5, on_wait=said.append) as store,
        LocalEngine(load_settings(), 1) as engine,
    ):
        cutting = threading.Thread(target=cut)
        cutting.start()
        with pytest.raises(StorageError, match=r"gave up after 1\.5 seconds.*cannot be used"):
            Coordinator(store.queue, engine, request).run(Interrupt())
        cutting.join()
        assert said
        server.start()
        summary = Coordinator(store.queue, engine, request).run(Interrupt())
    assert dict(summary.counts) == {JobState.EVALUATED: JOBS}
    assert not complaints(url)
