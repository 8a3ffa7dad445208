"""Evaluating a bundle: this machine's jobs, each result on disk before the next job begins."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from bundle_makers import DEVICE, HOST, KEY, OTHER_DEVICE, OTHER_KEY, Sham, jobs_bundle, task_of

from processes import PATIENCE_S
from skipjack.core import Device
from skipjack.errors import StorageError, UsageError
from skipjack.fleet.bundle import BundleProgress, Evaluation, evaluate_bundle
from skipjack.fleet.bundle.format import Bundle, EntryKind, jobs_with, read_outcome
from skipjack.gpu.discovery import only_drivers
from skipjack.testing.fake_gpu import FakeDriver

ONES = range(1, 7)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return jobs_bundle(tmp_path / "jobs.skj", [task_of(job) for job in ONES])


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results.skj"


def by(worker: Sham, **options: object) -> Evaluation:
    return Evaluation(host=HOST, worker=lambda: worker, **options)  # type: ignore[arg-type]


def done_in(path: Path) -> list[int]:
    with Bundle.open(path, KEY) as bundle:
        return jobs_with(bundle, EntryKind.OUTCOME)


def test_every_job_is_done_once_and_written_down(jobs: Path, results: Path) -> None:
    worker = Sham()
    told = evaluate_bundle(jobs, results, KEY, by(worker, gpu="0"))
    assert (told.tasks, told.done, told.failed, told.left) == (6, 6, 0, 0)
    assert worker.jobs == list(ONES)
    assert worker.closed
    with Bundle.open(results, KEY) as bundle:
        assert bundle.manifest.label == "nightly"
        third = read_outcome(bundle, 3)
    assert third.outcome == Sham().perform(task_of(3))
    assert (third.host, third.gpu, third.build) == (HOST, "0", 1)


def test_running_again_does_nothing_twice(jobs: Path, results: Path) -> None:
    evaluate_bundle(jobs, results, KEY, by(Sham()))
    before = results.read_bytes()
    again = Sham()
    told = evaluate_bundle(jobs, results, KEY, by(again))
    assert (told.done, told.before, told.left) == (0, 6, 0)
    assert again.jobs == []
    assert results.read_bytes() == before


def test_jobs_for_other_devices_are_counted_and_left(tmp_path: Path, results: Path) -> None:
    tasks = [task_of(1), task_of(2, OTHER_DEVICE), task_of(3), task_of(4, OTHER_DEVICE)]
    worker = Sham()
    told = evaluate_bundle(jobs_bundle(tmp_path / "j", tasks), results, KEY, by(worker))
    assert worker.jobs == [1, 3]
    assert told.elsewhere == {OTHER_DEVICE.name: 2}
    assert told.tasks == 4


def test_jobs_for_a_gpu_are_done_where_it_is(tmp_path: Path, results: Path) -> None:
    gpu, far = FakeDriver().devices()[0], Device("cpu", "nehalem", 1)
    jobs = jobs_bundle(tmp_path / "jobs.skj", [task_of(1, gpu), task_of(2, far)])
    with only_drivers(FakeDriver()):
        told = evaluate_bundle(jobs, results, KEY, Evaluation(worker=Sham))
    assert (told.done, told.elsewhere) == (1, {"nehalem/1": 1})
    with Bundle.open(results, KEY) as bundle:
        assert read_outcome(bundle, 1).gpu == "fake:0"


def test_a_machine_without_the_device_is_told_so_and_writes_nothing(
    tmp_path: Path, results: Path
) -> None:
    bundle = jobs_bundle(tmp_path / "j", [task_of(1, OTHER_DEVICE)])
    with pytest.raises(
        UsageError, match=rf"is for {OTHER_DEVICE.name}, and this machine has {DEVICE.name}"
    ):
        evaluate_bundle(bundle, results, KEY, by(Sham()))
    assert not results.exists()


def test_a_failure_is_a_result(jobs: Path, results: Path) -> None:
    worker = Sham()
    worker.fails = {2}
    told = evaluate_bundle(jobs, results, KEY, by(worker))
    assert (told.done, told.failed) == (6, 1)
    with Bundle.open(results, KEY) as bundle:
        assert read_outcome(bundle, 2).outcome.failed == "the device fell off the bus"


def test_a_machine_that_only_fails_spares_the_other_jobs(tmp_path: Path, results: Path) -> None:
    jobs = jobs_bundle(tmp_path / "many.skj", [task_of(job) for job in range(1, 10)])
    worker = Sham()
    worker.fails = set(range(2, 10))
    told = evaluate_bundle(jobs, results, KEY, by(worker))
    assert (told.stopped, told.done, told.failed, told.left) == ("failures", 6, 5, 3)


def test_progress_is_told_job_by_job(jobs: Path, results: Path) -> None:
    running_logs: list[BundleProgress] = []
    evaluate_bundle(jobs, results, KEY, by(Sham(), on_progress=running_logs.append))
    assert [(one.job, one.done, one.total) for one in running_logs] == [(n, n, 6) for n in ONES]


class Clock:
    """Time passes while a job is done, and only then."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def test_no_job_is_begun_that_would_not_fit(jobs: Path, results: Path) -> None:
    clock = Clock()
    worker = Sham(lambda job: clock.pass_by(10.0))
    told = evaluate_bundle(jobs, results, KEY, by(worker, max_seconds=35.0, clock=clock))
    assert worker.jobs == [1, 2, 3]
    assert (told.stopped, told.done, told.left, told.seconds) == ("time", 3, 3, 30.0)
    told = evaluate_bundle(jobs, results, KEY, by(worker, max_seconds=35.0, clock=clock))
    assert worker.jobs == list(ONES)
    assert (told.stopped, told.before, told.left) == ("", 3, 0)


def test_one_long_job_does_not_end_a_run_of_short_ones(jobs: Path, results: Path) -> None:
    clock = Clock()
    worker = Sham(lambda job: clock.pass_by(50.0 if job == 5 else 1.0))
    told = evaluate_bundle(jobs, results, KEY, by(worker, max_seconds=60.0, clock=clock))
    assert told.done == 6


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="0 seconds is not a time limit"):
        Evaluation(max_seconds=0)


def test_the_first_ctrl_c_ends_after_the_job_in_hand(jobs: Path, results: Path) -> None:
    worker = Sham(lambda job: os.kill(os.getpid(), signal.SIGINT) if job == 2 else None)
    told = evaluate_bundle(jobs, results, KEY, by(worker))
    assert (told.stopped, told.done, told.left) == ("interrupt", 2, 4)
    assert done_in(results) == [1, 2]


@pytest.mark.parametrize("key", [KEY, OTHER_KEY])
def test_nothing_is_evaluated_of_a_bundle_that_is_refused(
    jobs: Path, results: Path, key: bytes
) -> None:
    if key == KEY:
        jobs.write_bytes(jobs.read_bytes()[:-4096])
    worker = Sham()
    with pytest.raises(StorageError):
        evaluate_bundle(jobs, results, key, by(worker))
    assert worker.jobs == []
    assert not results.exists()


def test_results_that_were_tampered_with_are_not_added_to(jobs: Path, results: Path) -> None:
    evaluate_bundle(jobs, results, KEY, by(Sham()))
    results.write_bytes(results.read_bytes()[:-1])
    with pytest.raises(StorageError, match="truncated"):
        evaluate_bundle(jobs, results, KEY, by(Sham()))


def test_results_of_another_bundle_are_left_alone(
    jobs: Path, results: Path, tmp_path: Path
) -> None:
    evaluate_bundle(jobs, results, KEY, by(Sham()))
    other = jobs_bundle(tmp_path / "other.skj", [task_of(1)])
    with pytest.raises(UsageError, match="does not hold results of this bundle"):
        evaluate_bundle(other, results, KEY, by(Sham()))
    with pytest.raises(UsageError, match="does not hold results of this bundle"):
        evaluate_bundle(jobs, other, KEY, by(Sham()))
    with pytest.raises(UsageError, match="holds results, not jobs"):
        evaluate_bundle(results, tmp_path / "more.skj", KEY, by(Sham()))
    with pytest.raises(UsageError, match="both"):
        evaluate_bundle(jobs, jobs, KEY, by(Sham()))


PROGRAM = """
import os, signal, sys
sys.path.insert(0, {here!r})
for name in {blocked!r}:
    sys.modules[name] = None
from pathlib import Path
from bundle_makers import HOST, KEY, Sham
from skipjack.fleet.bundle import Evaluation, evaluate_bundle
from skipjack.fleet import existing_key
from skipjack.settings import load_settings

def before(job):
    if job == {fatal}:
        os.kill(os.getpid(), signal.SIGKILL)

load_settings()
how = Evaluation(host=HOST, worker=lambda: Sham(before))
told = evaluate_bundle(Path({jobs!r}), Path({results!r}), KEY, how)
from skipjack.fleet import detect_host
import skipjack.fleet.work.stages
print(told.done, len(detect_host().devices) > 0)
"""

BLOCKED = ("sqlalchemy", "alembic", "psycopg", "pymysql", "ray", "platformdirs", "torch")


def evaluated_by_a_process(
    jobs: Path, results: Path, fatal: int = 0
) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(
        here=str(Path(__file__).parent),
        blocked=BLOCKED,
        fatal=fatal,
        jobs=str(jobs),
        results=str(results),
    )
    environment = {k: v for k, v in os.environ.items() if k != "SKIPJACK_USER_DB_PATH"}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment,
    )


def test_the_evaluating_side_needs_no_database_and_no_cluster(jobs: Path, results: Path) -> None:
    finished = evaluated_by_a_process(jobs, results)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == ["6", "True"]
    assert done_in(results) == list(ONES)


def test_a_process_that_is_killed_loses_the_job_in_hand_alone(jobs: Path, results: Path) -> None:
    assert evaluated_by_a_process(jobs, results, fatal=4).returncode == -signal.SIGKILL
    assert done_in(results) == [1, 2, 3]
    worker = Sham()
    told = evaluate_bundle(jobs, results, KEY, by(worker))
    assert worker.jobs == [4, 5, 6]
    assert (told.before, told.done) == (3, 3)
    assert done_in(results) == list(ONES)


def test_a_process_that_died_while_writing_is_undone(jobs: Path, results: Path) -> None:
    evaluate_bundle(jobs, results, KEY, by(Sham(), max_seconds=1e-9))
    program = f"""
import os, sqlite3
connection = sqlite3.connect({str(results)!r}, isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("PRAGMA cache_spill = 1")
connection.execute("BEGIN IMMEDIATE")
for n in range(100, 150):
    connection.execute("INSERT INTO entries VALUES (?, 'x', ?, ?, '')", (n, n, b"y" * 4000))
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", program], check=False, timeout=PATIENCE_S)
    assert results.with_name("results.skj-journal").stat().st_size > 0
    assert evaluate_bundle(jobs, results, KEY, by(Sham())).left == 0
    assert done_in(results) == list(ONES)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages, where one can be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here; a limit of file sizes is tested instead")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, small_disk: Path) -> None:
    jobs = jobs_bundle(tmp_path / "jobs.skj", [task_of(job) for job in range(1, 101)])
    results = small_disk / "results.skj"
    with pytest.raises(StorageError, match=r"disk full: .*run the same command again"):
        evaluate_bundle(jobs, results, KEY, by(Sham()))
    assert 0 < len(done_in(results)) < 100


def test_a_file_that_may_not_grow_keeps_what_is_there(tmp_path: Path, results: Path) -> None:
    jobs = jobs_bundle(tmp_path / "jobs.skj", [task_of(job) for job in range(1, 101)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 10, limits[1]))
    try:
        with pytest.raises(StorageError, match="disk"):
            evaluate_bundle(jobs, results, KEY, by(Sham()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    done = done_in(results)
    assert 0 < len(done) < 100
    told = evaluate_bundle(jobs, results, KEY, by(Sham()))
    assert (told.before, told.left) == (len(done), 0)
