"""A label in MIOpen's hands from its import to its kernels; one process plays the whole fleet."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, update

from skipjack.bank import Bank
from skipjack.core import Device
from skipjack.errors import UsageError
from skipjack.fleet.labels import PlanOptions, ProblemSelection, plan_jobs, project
from skipjack.fleet.labels.further_jobs import make_finds, make_kernels
from skipjack.fleet.model import (
    Done,
    Host,
    Job,
    JobKind,
    JobStage,
    JobState,
    Label,
    WorkRequest,
    claim_result_of,
)
from skipjack.fleet.problem_import import ImportOptions, import_file
from skipjack.fleet.store import Store, open_store
from skipjack.fleet.store.schema import tables
from skipjack.fleet.work import Worker, make_worker
from skipjack.gpu.discovery import only_drivers
from skipjack.ledger import Ledger
from skipjack.processes import ProcessIdentity
from skipjack.solvers.miopen.solver import DRIVER_VARIABLE
from skipjack.testing import miopen_driver
from skipjack.testing.fake_gpu import FakeDriver

DEVICE = Device("hip", "gfx908", 120, "a fake MI100", serial="fake-a")
LINES = """MIOpenDriver convfp16 -n 32 -c 256 -H 57 -W 57 -k 512 -y 1 -x 1 -u 2 -v 2 -F 2
./bin/MIOpenDriver conv -n 8 -c 64 -H 16 -W 16 -k 32 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -m trans -F 1
"""
KEYS = (
    "512-29-29-1x1-256-57-57-32-0x0-2x2-1x1-0-NCHW-FP16-B",
    "64-16-16-4x4-32-32-32-8-1x1-2x2-1x1-0-NCHW-FP32-B",
)


class Hip(FakeDriver):
    """One GPU of AMD's."""

    name = "hip"

    def __init__(self) -> None:
        super().__init__([DEVICE])


class Fleet:
    """A store, a machine, and a worker for each stage."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._machine = store.queue.register(Host("host", 2, 1 << 30, (DEVICE,)), "local").id
        self._owner = store.queue.start_lease(ProcessIdentity("host", 1), 60.0)
        self._workers: dict[JobStage, Worker] = {
            JobStage.BUILD: make_worker(JobStage.BUILD),
            JobStage.EVALUATE: make_worker(JobStage.EVALUATE, gpu="hip:0"),
        }

    def run(self, kind: JobKind) -> list[Job]:
        """Do all jobs of a kind, and give those that are evaluated."""
        for stage, worker in self._workers.items():
            want = WorkRequest(self._machine, str(stage), (DEVICE,), 10)
            for claim, task in self.store.queue.claim(
                self._owner, stage, [want], label="L", kind=kind
            ):
                outcome = worker.perform(task)
                assert not outcome.failed and not outcome.inapplicable, outcome
                self.store.queue.finish(
                    self._owner, [claim_result_of(claim, Done(claim.slot, claim.job, outcome))]
                )
        done = self.store.jobs.find(label="L", state=JobState.EVALUATED)
        return [job for job in done if job.plan.kind is kind]

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()


@pytest.fixture
def fleet(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv(DRIVER_VARIABLE, str(miopen_driver.install(tmp_path)))
    with open_store(f"sqlite:///{tmp_path / 'fleet.sqlite'}") as store, only_drivers(Hip()):
        made = Fleet(store)
        yield made
        made.close()


def test_a_label_is_searched_ranked_and_packed_by_miopen(fleet: Fleet, tmp_path: Path) -> None:
    store, listed = fleet.store, tmp_path / "list.txt"
    listed.write_text(LINES)
    import_file(store.problems, listed, ImportOptions("net"))
    planned = plan_jobs(store, ProblemSelection(tag="net"), PlanOptions((DEVICE.name,), "miopen"))
    store.jobs.add(Label("L", "me"), planned.plans)
    searched = fleet.run(JobKind.TUNE)
    lines = [job.result["miopen"]["find_db"][0] for job in searched if job.result]
    assert {line.split("=")[0] for line in lines} == set(KEYS)

    assert make_finds(store, "L").made == 2
    found = fleet.run(JobKind.FIND)
    assert [job.plan.driver for job in found] == ["miopen", "miopen"]
    # A find without the parameters of the search would have slower times.
    assert {job.best_ns for job in found} == {job.best_ns for job in searched}

    assert make_kernels(store, "L").made == 2
    packed = fleet.run(JobKind.KERNELS)
    kernels = [job.result["miopen"]["kernels"] for job in packed if job.result]
    digests = [one["digest"] for (one,) in kernels]
    fetched = store.results.artifacts(digests)
    assert not fetched.lost and all(b"code of Conv" in code for code in fetched.whole.values())

    assert make_kernels(store, "L").again == 0, "it is what was ranked"
    _rank_otherwise(store, found[0])
    assert make_kernels(store, "L").again == 1
    assert fleet.run(JobKind.KERNELS) and make_kernels(store, "L").again == 0

    with Ledger.open(tmp_path / "ledger") as ledger:
        done = project(store.results, "L", ledger, Bank.open(tmp_path / "bank"))
    assert (done.jobs, done.rows, done.entries) == (6, 0, 0), "its times are no measurements"


def _rank_otherwise(store: Store, job: Job) -> None:
    """As if a find had been repeated with other times."""
    assert job.result is not None
    lines = job.result["miopen"]
    (line,) = lines["find_db"]
    key, _, contents = line.partition("=")
    kept = contents.partition(";")[2]
    changed = {**job.result, "miopen": {**lines, "find_db": [f"{key}={kept}"]}}

    def write(connection: Connection) -> None:
        table = tables.jobs
        mine = update(table).where(table.c.id == job.id)
        connection.execute(mine.values(result=json.dumps(changed)))

    store.database.transaction(write)


def test_a_label_with_jobs_of_ours_is_ranked_by_us(fleet: Fleet, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(LINES)
    import_file(fleet.store.problems, listed, ImportOptions("net"))
    for wish in ("miopen", "auto"):
        planned = plan_jobs(
            fleet.store, ProblemSelection(tag="net"), PlanOptions((DEVICE.name,), wish)
        )
        fleet.store.jobs.add(Label("L", "me"), planned.plans)
    assert make_finds(fleet.store, "L").made == 2
    plans = fleet.store.labels.plans("L")
    assert {plan.driver for plan in plans if plan.kind is JobKind.FIND} == {""}


def test_jobs_for_gpus_that_triton_does_not_know_are_miopens_alone(
    fleet: Fleet, tmp_path: Path
) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(LINES + "matmul:64x64x64:f16\n")
    import_file(fleet.store.problems, listed, ImportOptions("net"))
    everything = ProblemSelection(everything=True)
    with pytest.raises(UsageError, match="MIOpen may support it: --solver miopen"):
        plan_jobs(fleet.store, everything, PlanOptions(("gfx900/56",)))
    planned = plan_jobs(fleet.store, everything, PlanOptions(("gfx900/56",), "miopen"))
    assert {(plan.solver, plan.driver) for plan in planned.plans} == {("miopen", "miopen")}
    assert (len(planned.plans), planned.not_applicable) == (2, 1)
