"""Pages about the fleet, on every kind of database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from workspaces import KEY, ODD, STUDY, ZEN, Fleet, workspace_in

from processes import PATIENCE_S
from skipjack.app.views import (
    JOB_COLUMNS,
    PROBLEM_COLUMNS,
    TableRequest,
    Workspace,
    config_samples,
    fleet_page,
    job_log,
    job_page,
    job_table,
    label_page,
    label_table,
    machine_page,
    machines_page,
    problem_page,
    problem_table,
    search_page,
    searches,
)
from skipjack.app.views.sensors import LiveSensors
from skipjack.errors import UsageError
from skipjack.fleet.model import JobStage, Registration
from skipjack.fleet.store import LoggedAttempt, StateTimeline, open_store
from skipjack.settings import Settings
from skipjack.sweep.bench import SensorReading, Sensors

KEYS = (KEY, *(f"matmul:{size}x8x8:f32" for size in range(9, 13)))


@pytest.fixture(scope="module", params=("sqlite", "postgresql", "mariadb"))
def workspace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workspace]:
    """Five jobs: one evaluated, one built, one that failed, one in work, and one that waits."""
    place = tmp_path_factory.mktemp("fleet")
    url = f"sqlite:///{place / 'fleet.sqlite'}"
    if request.param != "sqlite":
        url = request.getfixturevalue(request.param).fresh()
    with open_store(url, settings=Settings(place)) as store:
        fleet = Fleet(store, "node <1>")
        fleet.load(*KEYS)
        fleet.build()
        fleet.evaluate()
        fleet.build()
        fleet.fail(ODD)
        fleet.say(fleet.claim(JobStage.BUILD), "working\n")
        store.registrations.add(Registration("spare", "10.0.0.7", device=ZEN.name))
    with workspace_in(place, store_url=url) as opened:
        yield opened


def test_the_fleet_page_counts_jobs_and_errors(workspace: Workspace) -> None:
    page = fleet_page(workspace)
    assert page.by_state == {"new": 1, "building": 1, "built": 1, "evaluated": 1, "error": 1}
    assert page.jobs == 5
    assert [(one.stage, one.reason, one.jobs) for one in page.errors] == [("build", ODD, 1)]
    (label,) = page.labels.rows
    assert (label.name, label.owner, label.jobs, label.open) == ("nightly", "me", 5, 3)
    assert label.done == pytest.approx(0.4)
    assert (page.machines, page.working_machines) == (1, 1)


def test_the_timeline_ends_with_the_present_states(workspace: Workspace) -> None:
    page = fleet_page(workspace)
    assert {state: counts[-1] for state, counts in page.timeline.counts.items()} == {
        **page.by_state,
        "evaluating": 0,
    }
    assert sum(page.timeline.finished) == 1
    assert page.throughput.finished == 2
    assert page.throughput.trials == 3
    assert page.throughput.open == 3
    assert page.throughput.seconds_left == pytest.approx(3 * page.throughput.window_s / 2)


def test_a_history_that_is_read_again_counts_nothing_twice(workspace: Workspace) -> None:
    def last(timeline: StateTimeline) -> dict[str, int]:
        return {state: counts[-1] for state, counts in timeline.counts.items()}

    before = last(fleet_page(workspace).timeline)
    assert last(fleet_page(workspace).timeline) == before
    assert last(label_page(workspace, "nightly").timeline) == before


def test_a_label_has_its_provenance_and_its_devices(workspace: Workspace) -> None:
    page = label_page(workspace, "nightly")
    assert (page.label.ticket, page.label.image, page.label.versions) == (
        *("PERF-1", "image:1"),
        "rocm 6",
    )
    assert page.by_device == {ZEN.name: page.row.by_state}
    assert page.row.errors == 1
    assert page.device_time.budget_s is None


def test_an_unknown_label_is_named_with_similar_ones(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="unknown label 'nightli': did you mean nightly"):
        label_page(workspace, "nightli")


def test_labels_are_filtered(workspace: Workspace) -> None:
    assert label_table(workspace, TableRequest(filters={"name": "night"})).total == 1
    assert label_table(workspace, TableRequest(filters={"owner": "you"})).total == 0


@pytest.mark.parametrize("column", [one.name for one in JOB_COLUMNS if one.sortable])
def test_jobs_are_sorted_by_every_column(workspace: Workspace, column: str) -> None:
    (value,) = [one.value for one in JOB_COLUMNS if one.name == column]
    up = job_table(workspace, TableRequest(sort=column)).rows
    down = job_table(workspace, TableRequest(sort=column, descending=True)).rows
    known = [value(row) for row in up if value(row) not in (None, "")]
    if column != "problem":  # databases order digits and letters in their own ways
        assert known == sorted(known)  # type: ignore[type-var]
        assert [value(row) for row in down if value(row) not in (None, "")] == known[::-1]
    assert {row.id for row in up} == {row.id for row in down} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({"state": "error"}, {3}),
        ({"label": "nightly", "state": "new"}, {5}),
        ({"label": "other"}, set()),
        ({"device": ZEN.name}, {1, 2, 3, 4, 5}),
        ({"machine": "node <1>", "state": "evaluated"}, {1}),
        ({"machine": "none"}, set()),
        ({"reason": "ALERT"}, {3}),
        ({"problem": "12x8"}, {5}),
        ({"problem": "%"}, set()),
        ({"operation": "matmul"}, {1, 2, 3, 4, 5}),
        ({"stage": "build"}, {3}),
        ({"kind": "find"}, set()),
        ({"solver": "auto"}, {1, 2, 3, 4, 5}),
        ({"state": ""}, {1, 2, 3, 4, 5}),
    ],
)
def test_jobs_are_filtered(workspace: Workspace, filters: dict[str, str], ids: set[int]) -> None:
    table = job_table(workspace, TableRequest(filters=filters))
    assert {row.id for row in table.rows} == ids
    assert table.total == len(ids)


def test_pages_of_jobs_follow_each_other(workspace: Workspace) -> None:
    pages = [job_table(workspace, TableRequest(page=page, size=2)) for page in (1, 2, 3)]
    assert [[row.id for row in page.rows] for page in pages] == [[5, 4], [3, 2], [1]]
    assert {page.total for page in pages} == {5}
    assert pages[0].pages == 3


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (TableRequest(sort="password"), "cannot sort by 'password'"),
        (TableRequest(filters={"trials": "1"}), "cannot filter by 'trials'"),
        (TableRequest(filters={"state": "asleep"}), "there is no state 'asleep'"),
    ],
)
def test_a_wrong_request_says_what_there_is(
    workspace: Workspace, request_: TableRequest, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        job_table(workspace, request_)


def test_a_job_has_its_history_and_its_searches(workspace: Workspace) -> None:
    page = job_page(workspace, 1)
    assert page.row.state == "evaluated"
    assert page.result is not None and page.result["solver"] == "loops"
    assert [event.event for event in page.events] == ["claimed", "built", "claimed", "told"]
    (search,) = page.searches
    assert (search.trials, search.failed, search.best) == (3, 1, 1234.5)
    assert not page.running
    assert job_page(workspace, 4).running


@pytest.mark.parametrize("id", [0, -1, 99, 2**70])
def test_there_is_no_such_job(workspace: Workspace, id: int) -> None:
    with pytest.raises(UsageError, match=f"there is no job {id}"):
        job_page(workspace, id)


def test_a_log_is_read_on_from_its_cursor(workspace: Workspace) -> None:
    first = job_log(workspace, 4)
    assert ([one.text for one in first.parts], first.running) == (["working\n"], True)
    assert not job_log(workspace, 4, first.cursor).parts
    whole = job_log(workspace, 1)
    assert [one.text for one in whole.parts] == ["built it\n", "timed it\n"]
    assert not whole.running
    after_the_first = f"{whole.parts[0].key}~5"
    rest = job_log(workspace, 1, after_the_first)
    assert [(one.text, one.replaces) for one in rest.parts] == [
        (" it\n", False),
        ("timed it\n", True),
    ]
    assert [one.text for one in job_log(workspace, 1, "nonsense").parts] == [
        *("built it\n", "timed it\n")
    ]
    last = LoggedAttempt(0, 0, "evaluate", whole.parts[1].attempt)
    assert [one.text for one in workspace.store.jobs.log(1, last)] == ["timed it\n"]


def test_machines_are_working_or_were_never_seen(workspace: Workspace) -> None:
    page = machines_page(workspace)
    states = {row.name: (row.state, row.building, row.registered) for row in page.machines.rows}
    assert states == {"node <1>": ("working", 1, False), "spare": ("never seen", 0, True)}
    (device,) = page.devices.rows
    assert (device.name, device.jobs["evaluated"]) == (ZEN.name, 1)
    assert [job.id for job in machine_page(workspace, "node <1>").jobs] == [4]
    with pytest.raises(UsageError, match="unknown machine 'spar': did you mean spare"):
        machine_page(workspace, "spar")


@pytest.mark.parametrize("column", PROBLEM_COLUMNS, ids=lambda one: one.name)
def test_problems_are_sorted_and_filtered(workspace: Workspace, column: object) -> None:
    name = column.name  # type: ignore[attr-defined]
    if column.sortable:  # type: ignore[attr-defined]
        table = problem_table(workspace, TableRequest(sort=name, size=3))
        assert (len(table.rows), table.total) == (3, 5)
    wanted = {"key": "8x8x8", "tag": "resnet50", "model": "resnet", "retired": "no"}
    if name in wanted:
        table = problem_table(workspace, TableRequest(filters={name: wanted[name]}))
        assert table.total == (1 if name == "key" else 5)


def test_a_problem_has_its_tags_jobs_and_searches(workspace: Workspace) -> None:
    page = problem_page(workspace, KEY)
    assert page.fleet is not None
    assert [(one.tag, one.source, one.model) for one in page.fleet.tags] == [
        ("resnet50", "a dump", "resnet")
    ]
    assert (page.fleet.evaluated, page.fleet.best_ns) == (1, 1234.5)
    assert [job.id for job in page.jobs] == [1]
    assert [one.id for one in page.searches] == [f"1.{STUDY}"]


def test_a_search_of_a_job_has_its_trials_in_order(workspace: Workspace) -> None:
    page = search_page(workspace, KEY, f"1.{STUDY}")
    assert [one.value for one in page.trials] == [2469.0, 1234.5, None]
    assert [one.best for one in page.trials] == [2469.0, 1234.5, 1234.5]
    assert page.trials[2].reason == ODD
    assert [axis.labels for axis in page.axes] == [("4", "8", "16")]
    for wrong in ("1.other", "99.x", "other"):
        with pytest.raises(UsageError, match=r"no search|no ledger"):
            search_page(workspace, KEY, wrong)


def test_a_long_search_keeps_its_last_trials_and_the_best(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "MOST_TRIALS", 1)
    page = search_page(workspace, KEY, f"1.{STUDY}")
    assert [(one.number, one.value) for one in page.trials] == [(2, 1234.5), (3, None)]
    assert page.summary.trials == 3 and page.best is not None and page.best.number == 2


def test_samples_of_jobs_are_distributed(workspace: Workspace) -> None:
    (found,) = config_samples(workspace, KEY)
    assert (found.median_ns, found.disturbed, len(found.samples_ns)) == (1234.5, 1, 3)


def test_nothing_is_known_about_another_problem(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="nothing is known about problem 'add:7'"):
        problem_page(workspace, "add:7")


def test_a_database_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'fleet.sqlite'}"
    with open_store(url, settings=Settings(tmp_path)) as store, store.database.engine.begin() as on:
        on.exec_driver_sql("UPDATE skipjack_fleet_version SET version_num = '9999'")
    with workspace_in(tmp_path, store_url=url) as workspace:
        (store_,) = [one for one in workspace.sources() if one.name == "store"]
        assert not store_.present
        assert "revision 9999" in store_.said and "newer Skipjack" in store_.said


def test_this_machine_shows_its_sensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_MACHINE", "here")
    url = f"sqlite:///{tmp_path / 'fleet.sqlite'}"
    with open_store(url, settings=Settings(tmp_path)) as store:
        Fleet(store, "here")
        Fleet(store, "there")
    hot = [SensorReading(81.5, 40.0, ("too hot (software)",)), SensorReading(60.0, 35.0, ())]
    with workspace_in(tmp_path, store_url=url) as workspace:
        workspace.sensors = LiveSensors(lambda: Sensors(_Readings(hot)))
        read_in_time(workspace.sensors)
        here, there = machines_page(workspace).machines.rows
        assert (here.temperature_c, here.power_w) == (81.5, 75.0)
        assert here.throttled == ("too hot (software)",)
        assert there.temperature_c is None


class _Readings:
    name = "a fake"

    def __init__(self, readings: list[SensorReading]) -> None:
        self._readings = readings

    def read(self) -> list[SensorReading]:
        return self._readings


def read_in_time(watch: LiveSensors) -> None:
    """Wait until the first readings are there."""
    deadline = time.monotonic() + PATIENCE_S
    while watch.latest().temperature_c is None and time.monotonic() < deadline:
        time.sleep(0.01)
