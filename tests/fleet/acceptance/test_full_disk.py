"""A disk that is full ends a run with one clear sentence; it goes on where it was afterwards."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coordinators import Coordinators
from fleet_under_fire import LABEL, load, plans
from store_audit import complaints

from processes import PATIENCE_S
from skipjack.fleet.model import JobState
from skipjack.fleet.store import open_store
from small_disks import mounted

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("user_dir", "rogue_everywhere")]


class Disk:
    """A real file system that has as much room as the test wants."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def _sized(self, size: str) -> None:
        command = ["mount", "-o", f"remount,size={size}", str(self.place)]
        subprocess.run(command, check=True)

    def fill(self) -> None:
        """From now on the disk is full."""
        used = os.statvfs(self.place)
        self._sized(str(max(1, used.f_blocks - used.f_bfree) * used.f_frsize))

    def make_space(self, size: str = "64m") -> None:
        self._sized(size)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", "64m") as place:
        yield Disk(place)


def until_something_is(state: JobState, url: str, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with open_store(url) as store:
            if store.queue.live(LABEL).get(state, 0):
                return
        time.sleep(0.1)
    pytest.fail(f"no job is {state} after {within_s:g} s")


def finish(url: str, crew: Coordinators) -> None:
    """Run again, to the end; all is as if nothing had happened."""
    crew.tend()
    assert not crew.wait(PATIENCE_S)
    with open_store(url) as store:
        while store.queue.others(""):
            time.sleep(0.2)
        assert store.queue.sweep() == 0
    assert not complaints(url)


def test_a_store_without_room_ends_the_run_and_loses_nothing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"sqlite:///{disk.place / 'fleet.sqlite'}"
    monkeypatch.setenv("SKIPJACK_DB", url)
    with open_store(url) as store:
        load(store, plans(8, hanging=0))
    with Coordinators(LABEL, tmp_path, count=1, lease_s=2.0) as crew:
        until_something_is(JobState.EVALUATED, url)
        disk.fill()
        assert not crew.wait(PATIENCE_S)
        (ending,) = crew.endings
        assert "disk full" in ending and str(disk.place) in ending
        disk.make_space()
        with open_store(url) as store:
            assert store.queue.live(LABEL).get(JobState.EVALUATED, 0) < 8
        finish(url, crew)
        assert not crew.tracebacks


@pytest.mark.long
def test_a_machine_whose_user_directory_is_nearly_full_is_set_aside_by_name(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'elsewhere.sqlite'}"
    monkeypatch.setenv("SKIPJACK_DB", url)
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(disk.place / "user"))
    with open_store(url) as store:
        load(store, plans(5, hanging=0))
        with Coordinators(LABEL, tmp_path, count=1, lease_s=2.0) as crew:
            assert not crew.wait(PATIENCE_S)
            (ending,) = crew.endings
            assert "machine-0" in ending and "disk nearly full" in ending
            assert store.queue.live(LABEL) == {JobState.NEW: 5}
            disk.make_space("512m")
            store.jobs.resume(machine="machine-0")
            finish(url, crew)
            assert not crew.tracebacks
