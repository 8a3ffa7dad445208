"""Many rows, long histories, and several threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import update
from workspaces import KEY, Fleet, fill_bank, fill_ledger, open_fleet, workspace_in

from skipjack.app.views import (
    MOST_ROWS,
    TableRequest,
    Workspace,
    fleet_page,
    job_table,
    overview_page,
    problem_page,
    problem_table,
)
from skipjack.errors import UsageError
from skipjack.fleet.model import Label
from skipjack.fleet.store.schema import tables

COUNT = MOST_ROWS + 234
DAY_S = 86400.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many jobs, the first of which was evaluated forty days ago."""
    place = tmp_path_factory.mktemp("large")
    with open_fleet(place) as store:
        fleet = Fleet(store)
        fleet.load(*(f"matmul:{size}x8x8:f32" for size in range(1, COUNT + 1)))
        fleet.build()
        fleet.evaluate()
        with store.database.engine.begin() as on:
            for table, column in (
                (tables.jobs, "created"),
                (tables.labels, "created"),
                (tables.history, "at"),
            ):
                earlier = {column: table.c[column] - 40.0 * DAY_S}
                on.execute(update(table).values(earlier))
    return place


@pytest.fixture
def workspace(place: Path) -> Iterator[Workspace]:
    with workspace_in(place) as opened:
        yield opened


def test_a_table_is_read_a_page_at_a_time(workspace: Workspace) -> None:
    for read in (job_table, problem_table):
        first = read(workspace, TableRequest(size=MOST_ROWS))
        last = read(workspace, TableRequest(size=MOST_ROWS, page=2))
        beyond = read(workspace, TableRequest(size=MOST_ROWS, page=3))
        assert [len(one.rows) for one in (first, last, beyond)] == [MOST_ROWS, 234, 0]
        assert {one.total for one in (first, last, beyond)} == {COUNT}
        assert first.pages == 2


def test_a_larger_page_is_refused() -> None:
    with pytest.raises(UsageError, match=f"a page has 1 to {MOST_ROWS} rows"):
        TableRequest(size=MOST_ROWS + 1)


def test_a_long_history_has_few_periods(workspace: Workspace) -> None:
    page = fleet_page(workspace)
    ends, counts = page.timeline.ends, page.timeline.counts
    assert 2 <= len(ends) <= 60
    assert ends[-1] - ends[0] > 35.0 * DAY_S
    assert counts["evaluated"][-1] == counts["evaluated"][0] == 1
    assert counts["new"][-1] == COUNT - 1
    assert page.throughput.finished == 0
    assert page.throughput.seconds_left is None
    assert page.throughput.ends_at is None


def test_what_happens_later_is_added_to_the_history(place: Path, workspace: Workspace) -> None:
    before = fleet_page(workspace)
    with open_fleet(place) as store:
        store.jobs.add(Label("later", "me"), store.labels.plans("nightly")[:5])
        store.jobs.abort(label="later", reason="enough")
    after = fleet_page(workspace)
    assert after.jobs == before.jobs + 5
    assert after.timeline.counts["aborted"][-1] == 5
    assert after.timeline.counts["aborted"][0] == 0
    assert after.timeline.counts["new"][-1] == COUNT - 1
    assert [row.name for row in after.labels.rows] == ["later", "nightly"]


def test_threads_share_a_workspace(tmp_path: Path) -> None:
    fill_ledger(tmp_path)
    fill_bank(tmp_path)
    with open_fleet(tmp_path) as store:
        Fleet(store).load(KEY)
    with workspace_in(tmp_path) as workspace, ThreadPoolExecutor(4) as pool:
        pages = list(pool.map(lambda _: overview_page(workspace), range(8)))
        assert {page.fleet.jobs for page in pages if page.fleet} == {1}
        assert {page.ledger.counts.trials for page in pages if page.ledger} == {6}
        problems = pool.map(lambda _: problem_page(workspace, KEY), range(8))
        assert {len(page.searches) for page in problems} == {1}
