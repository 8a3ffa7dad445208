"""Stores that earlier revisions filled: after an upgrade they answer as before."""

from __future__ import annotations

from pathlib import Path

import earlier_stores
import pytest

from skipjack.bank import Bank
from skipjack.fleet.projecting import project
from skipjack.fleet.records import Want
from skipjack.fleet.seal import FILE_NAME
from skipjack.fleet.states import Stage
from skipjack.fleet.store import opening
from skipjack.fleet.store.opening import open_store
from skipjack.ledger import Ledger
from skipjack.ledger.facts import read_facts
from skipjack.ledger.merge import KEYS
from skipjack.processes import ProcessIdentity
from skipjack.report.fleet.status import job_json

REVISION = "0009"
FINISHED = ("cpu", "again", "boxed", "amd")


@pytest.fixture
def upgraded(store_url: str, user_dir: Path) -> str:
    """The URL of the store of an earlier revision, brought up to date."""
    user_dir.mkdir(exist_ok=True)
    key = user_dir / FILE_NAME
    key.write_text(f"{earlier_stores.KEY}\n")
    key.chmod(0o600)
    earlier_stores.make(store_url, REVISION)
    assert opening.upgrade(store_url)
    return store_url


def test_an_upgraded_store_answers_as_before(upgraded: str, tmp_path: Path) -> None:
    expected = earlier_stores.answers(REVISION)
    bank = Bank.open(tmp_path / "bank")
    with open_store(upgraded) as store, Ledger.open(tmp_path / "ledger") as ledger:
        jobs = {job.id: job for job in store.jobs()}
        shown = [job_json(jobs[id]) for id in sorted(jobs)]
        for one in shown:
            one["result"] = bool(one.get("result"))
            del one["kind"], one["driver"]
        assert shown == expected["jobs"]
        counts = store.counts(by=("label", "kind", "solver", "state"))
        assert sorted([*values, count] for values, count in counts) == expected["counts"]
        assert {
            (job.plan.kind, job.plan.driver) for job in jobs.values() if job.label == "amd"
        } == {
            ("tune", "miopen"),
            ("find", "miopen"),
            ("kernels", "miopen"),
        }
        assert {job.plan.driver for job in jobs.values() if job.label != "amd"} == {""}
        for label in FINISHED:
            project(store, label, ledger, bank)
    assert (tmp_path / "bank" / "bank.jsonl").read_text().splitlines() == earlier_stores.banked(
        REVISION
    )


def test_a_job_under_way_goes_on_with_what_was_measured_before(upgraded: str) -> None:
    expected = earlier_stores.answers(REVISION)["going_on"]
    with open_store(upgraded) as store:
        owner = store.sign_in(ProcessIdentity("node7", 1), 60.0)
        device = store.known_device("znver5/1", "half")
        assert device is not None
        want = Want(1, "e", (device,), 1)
        ((_, task),) = store.claim(owner, Stage.EVALUATE, [want], label="half")
    assert (task.job, task.round) == (expected["job"], expected["round"])
    assert sorted(task.artifacts) == expected["artifacts"]
    rows: dict[str, set[str]] = {}
    for text in task.facts:
        for table, part in read_facts(text).items():
            keys = ("|".join(str(row.get(name, "")) for name in KEYS[table]) for row in part)
            rows.setdefault(table, set()).update(keys)
    assert {table: sorted(keys) for table, keys in rows.items()} == expected["rows"]
