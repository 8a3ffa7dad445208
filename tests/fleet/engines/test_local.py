"""Worker processes of one machine: each task is reported once, whichever process dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from processes import PATIENCE_S, alive, gone
from skipjack.errors import StorageError, UsageError
from skipjack.fleet.engines import LocalEngine, local
from skipjack.fleet.engines.local import evaluator_cores
from skipjack.fleet.model import Done, JobPlan, JobStage, Task
from skipjack.fleet.work.worker_log import log_path
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.settings import Settings, load_settings
from skipjack.testing.fleet.engines import EngineConformance
from skipjack.testing.fleet.workers import make_none, make_stand_in

HERE = Path(__file__).parent
BUILDER, EVALUATOR = "build-1", "evaluate-1"

Start = Callable[..., LocalEngine]


@pytest.fixture
def start(user_dir: Path) -> Iterator[Start]:
    """Engines of stand-ins, which are closed at the end of the test without leftovers."""
    with ExitStack() as opened:

        def begin(builders: int = 1, evaluators: int = 0, **options: object) -> LocalEngine:
            options = {"make_worker": make_stand_in, **options}
            engine = LocalEngine(load_settings(), builders, evaluators, **options)  # type: ignore[arg-type]
            return opened.enter_context(engine)

        yield begin


def task(job: int, problem: str = "nothing", **fields: object) -> Task:
    device = cpu.detect()
    return Task(job, JobStage.BUILD, JobPlan(problem, device.name), device, **fields)  # type: ignore[arg-type]


def collect(engine: LocalEngine, count: int, within_s: float = PATIENCE_S) -> list[Done]:
    found: list[Done] = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        found += engine.poll(0.1)
    assert len(found) == count, found
    return found


def perform(engine: LocalEngine, problem: str, slot: str = BUILDER) -> str:
    """Do one task; gives its facts."""
    engine.submit(slot, [task(99, problem)])
    (done,) = collect(engine, 1)
    assert done.outcome, done.lost
    return done.outcome.facts


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("end:SIGKILL", "the worker ended by SIGKILL: farewell"),
        ("end:SIGSEGV", "the worker ended by SIGSEGV: farewell"),
        ("leave:no more", "the worker ended with exit code 1: no more"),
    ],
)
def test_a_worker_that_dies_costs_its_task_only(start: Start, problem: str, reason: str) -> None:
    engine = start()
    engine.submit(BUILDER, [task(1), task(2, problem), task(3), task(4)])
    done = collect(engine, 4)
    assert [(one.job, one.lost) for one in done] == [(1, ""), (2, reason), (3, ""), (4, "")]


class TestConformance(EngineConformance):
    @pytest.fixture(autouse=True)
    def _place(self, user_dir: Path) -> None:
        """Ledger and logs of its workers are the test's own."""

    def start(self) -> LocalEngine:
        return LocalEngine(load_settings(), 2, 1, make_worker=make_stand_in, stall_s=2.5)


def test_a_worker_that_is_killed_while_idle_costs_nothing(start: Start) -> None:
    engine = start()
    first = perform(engine, "where").split()[0]
    os.kill(int(first), signal.SIGKILL)
    # It counts as running until its last thread has ended.
    os.waitid(os.P_PID, int(first), os.WEXITED | os.WNOWAIT)
    assert perform(engine, "where").split()[0] != first


def test_a_worker_that_was_stopped_is_replaced(start: Start) -> None:
    engine = start(stall_s=2.5)
    pid = int(perform(engine, "where").split()[0])
    engine.submit(BUILDER, [task(1, "sleep:60"), task(2)])
    engine.poll(0.1)
    os.kill(pid, signal.SIGSTOP)
    first, second = collect(engine, 2)
    assert first.lost == "the worker sent no heartbeat for 2.5 s and was ended"
    assert second.outcome and second.job == 2
    assert not alive(pid)


def test_a_long_task_is_no_silence_nor_is_a_busy_caller(start: Start) -> None:
    engine = start(stall_s=2.5)
    pid = int(perform(engine, "where").split()[0])
    engine.submit(BUILDER, [task(1, "sleep:2.8"), task(2, "where")])
    time.sleep(2.7)
    first, second = collect(engine, 2)
    assert first.outcome and first.seconds >= 2.8
    assert second.outcome and int(second.outcome.facts.split()[0]) == pid


def test_cancelling_a_job_that_waits_leaves_the_running_one_alone(start: Start) -> None:
    engine = start()
    pid = perform(engine, "where").split()[0]
    engine.submit(BUILDER, [task(1, "sleep:0.5"), *(task(job, "where") for job in range(2, 6))])
    engine.cancel([3, 4, 5, 77])
    first, second = collect(engine, 2)
    assert first.outcome and second.outcome
    assert second.outcome.facts.split()[0] == pid


def test_a_cancelled_job_that_was_sent_ahead_does_not_run(start: Start) -> None:
    engine = start()
    perform(engine, "where")
    engine.submit(BUILDER, [task(1, "sleep:0.3"), task(2, "sleep:60"), task(3)])
    engine.cancel([2])
    done = collect(engine, 2)
    assert [(one.job, one.lost) for one in done] == [(1, ""), (3, "")]


def test_workers_that_do_not_start_give_their_tasks_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PAUSE_S", 1.0)
    engine = start(make_worker=make_none)
    engine.submit(BUILDER, [task(1), task(2)])
    done = collect(engine, 2)
    reason = (
        "workers of build-1 do not start: the last one ended with exit code 1: "
        "RuntimeError: no accelerator here"
    )
    assert {one.lost for one in done} == {reason}
    engine.submit(BUILDER, [task(3)])
    assert not engine.poll(0.1) and not engine.pids
    assert collect(engine, 1)[0].lost == reason


def test_every_task_comes_back_once_whoever_is_killed(start: Start) -> None:
    engine = start(builders=2)
    problems = ["nothing", "nothing", "sleep:0.02", "fail:x", "end:SIGKILL", "nothing"]
    for first in range(0, 48, 6):
        tasks = [task(first + at, problem) for at, problem in enumerate(problems)]
        engine.submit(f"build-{1 + first // 6 % 2}", tasks)
    done = engine.poll(5.0)
    for pid in engine.pids.values():
        os.kill(pid, signal.SIGKILL)
    done += collect(engine, 48 - len(done))
    assert sorted(one.job for one in done) == list(range(48))
    assert not engine.poll(0.1)


PARENT = """
import sys
from test_local import BUILDER, make_stand_in, perform
from skipjack.fleet.engines import LocalEngine
from skipjack.settings import load_settings
engine = LocalEngine(load_settings(), 2, 0, make_worker=make_stand_in).__enter__()
print(perform(engine, "family"), *engine.pids.values(), flush=True)
sys.stdin.read()
"""


def test_nothing_is_left_when_the_parent_is_killed(start: Start) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE.parents[1])))}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout
        pids = set(map(int, parent.stdout.readline().split()))
        assert len(pids) == 3 and all(map(alive, pids))
        parent.kill()
    assert gone(pids)


def test_a_slot_says_what_it_is_and_its_worker_is_told(start: Start, user_dir: Path) -> None:
    engine = start(builders=1, evaluators=1)
    builder, evaluator = engine.slots()
    (host,) = engine.hosts()
    assert (builder.name, builder.stage, builder.devices) == (BUILDER, JobStage.BUILD, ())
    assert evaluator.devices == host.devices
    cores, nice = cpu.usable_cores(), os.nice(0)
    assert evaluator.gpu == f"cpu{cores[0]}"
    assert perform(engine, "where").split()[2:] == [str(min(19, nice + 10)), "build", "[]"]
    assert perform(engine, "where", EVALUATOR).endswith(f" {nice} evaluate {cores} cpu{cores[0]}")
    assert "did where" in log_path(user_dir, EVALUATOR).read_text()


def test_an_unknown_slot_is_named(start: Start) -> None:
    with pytest.raises(UsageError, match="there is no slot build-7; the slots are build-1"):
        start().submit("build-7", [task(1)])


class TestPlacement:
    @pytest.fixture(autouse=True)
    def eight_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cpu, "usable_cores", lambda: list(range(8)))

    @pytest.mark.parametrize(
        ("evaluators", "expected"),
        [
            (0, []),
            (1, [tuple(range(8))]),
            (2, [(0, 1, 2, 3), (4, 5, 6, 7)]),
            (3, [(2, 3), (4, 5), (6, 7)]),
            (8, [(core,) for core in range(8)]),
        ],
    )
    def test_evaluators_share_no_core(
        self, evaluators: int, expected: list[tuple[int, ...]], tmp_path: Path
    ) -> None:
        assert evaluator_cores(Settings(tmp_path), evaluators) == expected

    def test_more_evaluators_than_cores_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="need 9 cores, but this process may use 8"):
            evaluator_cores(Settings(tmp_path), 9)


def test_what_ended_workers_left_beside_the_ledger_is_brought_in(
    start: Start, user_dir: Path, tmp_path: Path
) -> None:
    engine = start()
    writing = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from skipjack.core import Device\n"
        "from skipjack.ledger import Ledger\n"
        "Ledger.open(Path(sys.argv[1])).add_device(Device('cpu', 'znver4', 1))\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", writing, user_dir], check=True)
    assert (user_dir / "ledger.sqlite-wal").stat().st_size
    engine.close()
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes((user_dir / "ledger.sqlite").read_bytes())
    with Ledger.open(tmp_path / "mine") as ledger:
        assert ledger.merge(copy).rows == 1


def test_a_folder_for_locks_that_is_of_no_use_fails_before_any_job(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SKIPJACK_LOCK_DIR", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="cannot hold locks"):
        start(evaluators=1)
    start(evaluators=0)
