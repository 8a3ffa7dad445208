"""The measurement of the dashboard's pages, with little data."""

from __future__ import annotations

import time
from pathlib import Path

import web
import web_data
from skipjack.app.views import Workspace, WorkspacePlaces
from skipjack.fleet.store import open_store
from skipjack.ledger import Ledger
from skipjack.settings import Settings

SIZE = web_data.DataSize(jobs=400, trials=4000, problems=50, labels=4, machines=10, entries=20)


def test_every_page_is_measured_with_plausible_data(tmp_path: Path) -> None:
    settings, now = Settings(tmp_path, system_dir=tmp_path), time.time()
    web_data.fill_ledger(tmp_path, SIZE, now)
    web_data.fill_bank(tmp_path, SIZE)
    url = f"sqlite:///{tmp_path / 'fleet.sqlite'}"
    with open_store(url, settings=settings) as store:
        web_data.fill_store(store, SIZE, now)
        assert sum(count for _, count in store.jobs.counts()) == SIZE.jobs
    with Ledger.read(tmp_path) as ledger:
        assert ledger.summary().tells == 4000
    with Workspace(settings, WorkspacePlaces(url, runs=(), programs=())) as workspace:
        pages = web.measure(workspace, SIZE, 1, lambda: 0.0)
    assert {one["page"] for one in pages} == set(web.visits(SIZE))
    assert all(one["median_ms"] > 0.0 for one in pages)
    assert web.report({"sqlite": pages}).count("\n") == len(pages) + 1
