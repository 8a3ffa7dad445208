"""Commands are ended with all their processes, even those that left the group or stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from processes import PATIENCE_S, alive, gone
from skipjack.errors import StorageError, WorkerError
from skipjack.execute import CommandRequest, CommandResult, CommandRunner
from skipjack.execute import command_supervisor as keeper

Run = Callable[..., CommandResult]


@pytest.fixture
def runner() -> Iterator[CommandRunner]:
    runner = CommandRunner()
    yield runner
    runner.close()


@pytest.fixture
def shell(runner: CommandRunner, tmp_path: Path) -> Run:
    """Runs a shell script."""

    def run(
        script: str, stop: Callable[[], bool] = lambda: False, **options: object
    ) -> CommandResult:
        task = CommandRequest(["/bin/sh", "-c", script], tmp_path, tmp_path / "log", **options)  # type: ignore[arg-type]
        return runner.run(task, stop)

    return run


def pids(directory: Path) -> set[int]:
    """Processes that wrote their number into a file there."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(directory.glob("*.pid")) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)  # the process that created the file also writes it
    return {int(path.read_text()) for path in directory.glob("*.pid")}


def test_output_and_exit_code_of_both_streams(shell: Run) -> None:
    ended = shell("echo one; echo two >&2; exit 3")
    assert (ended.code, ended.ok, ended.cause) == (3, False, "")
    assert ended.tail().split() == ["one", "two"]
    assert ended.describe() == "ended with exit code 3: two"


def test_a_command_reads_nothing(shell: Run) -> None:
    assert shell("read line || echo nothing").tail() == "nothing\n"


def test_a_signal_has_a_name(shell: Run) -> None:
    ended = shell("kill -SEGV $$")
    assert ended.describe() == "ended by SIGSEGV"
    assert not ended.out_of_memory()


def test_the_deadline_ends_grandchildren_in_sessions_of_their_own(
    shell: Run, tmp_path: Path
) -> None:
    script = (
        "setsid sh -c 'echo $$ > a.pid; exec sleep 60' & "
        "sh -c 'echo $$ > b.pid; trap \"\" TERM; while :; do sleep 1; done' & sleep 60"
    )
    ended = shell(script, timeout_s=1.5, grace_s=0.2)
    assert ended.cause == "timeout"
    assert ended.describe() == "did not end within 1.5 s and was killed"
    found = pids(tmp_path)
    assert len(found) == 2
    assert gone(found)


def test_a_stopped_command_does_not_outlive_its_deadline(shell: Run) -> None:
    assert shell("kill -STOP $$; sleep 60", timeout_s=0.3, grace_s=0.2).cause == "timeout"


def test_what_a_command_leaves_running_is_ended(shell: Run, tmp_path: Path) -> None:
    wait = "while [ ! -s a.pid ]; do sleep 0.01; done"
    ended = shell(f"setsid sh -c 'echo $$ > a.pid; exec sleep 60' & {wait}; echo done")
    assert ended.ok
    assert ended.strays == 1
    assert gone(pids(tmp_path))


def test_stopping_ends_the_command(shell: Run, tmp_path: Path) -> None:
    started = tmp_path / "a.pid"
    ended = shell("echo $$ > a.pid; sleep 60", stop=started.exists)
    assert ended.stopped
    assert gone(pids(tmp_path))


def test_nothing_survives_when_we_are_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from skipjack.execute import CommandRunner, CommandRequest as Task\n"
        'script = \'setsid sh -c "echo \\\\$\\\\$ > b.pid; exec sleep 60" & echo $$ > a.pid; '
        "sleep 60'\n"
        "here = Path(sys.argv[1])\n"
        "CommandRunner().run(Task(['/bin/sh', '-c', script], here, here / 'log'))\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    while len(list(tmp_path.glob("*.pid"))) < 2:
        time.sleep(0.01)
    found = pids(tmp_path)
    assert len(found) == 2
    assert all(alive(pid) for pid in found)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    assert gone(found)


def test_a_killed_keeper_takes_its_command_with_it(runner: CommandRunner, tmp_path: Path) -> None:
    def kill_keeper() -> bool:
        if (tmp_path / "a.pid").exists():
            assert runner._supervisor is not None
            os.kill(runner._supervisor.pid, signal.SIGKILL)
        return False

    task = CommandRequest(
        ["/bin/sh", "-c", "echo $$ > a.pid; exec sleep 60"], tmp_path, tmp_path / "log"
    )
    with pytest.raises(WorkerError, match="supervises `/bin/sh` was killed"):
        runner.run(task, kill_keeper)
    assert gone(pids(tmp_path))
    assert runner.run(CommandRequest(["/bin/true"], tmp_path, tmp_path / "log")).ok


def test_long_output_keeps_its_beginning_and_its_end(shell: Run, tmp_path: Path) -> None:
    ended = shell("echo first; yes filler | head -c 500000; echo last", keep_bytes=40_000)
    text = (tmp_path / "log").read_text()
    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert "bytes are left out here" in text
    assert len(text) < 120_000
    assert ended.output_bytes == 500_011


def test_memory_that_runs_out_is_recognised(runner: CommandRunner, tmp_path: Path) -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29)); "
        "bytearray(1 << 30)"
    )
    ended = runner.run(CommandRequest([sys.executable, "-c", code], tmp_path, tmp_path / "log"))
    assert not ended.ok
    assert ended.out_of_memory()


KEEPER_WITH_A_COUNT = """\
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("keeper", {keeper!r})
keeper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(keeper)
keeper._memory_kills = lambda: int(pathlib.Path({count!r}).read_text())
keeper.main()
"""


def test_a_kill_for_want_of_memory_is_blamed_on_who_ran_then(
    shell: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, script = tmp_path / "count", tmp_path / "keeper.py"
    count.write_text("0")
    script.write_text(KEEPER_WITH_A_COUNT.format(keeper=keeper.__file__, count=str(count)))
    monkeypatch.setattr(keeper, "__file__", str(script))
    assert shell("true").ok
    count.write_text("1")  # another program, between our commands
    assert not shell("kill -KILL $$").out_of_memory()
    assert shell("sleep 0.3; echo 2 > count; kill -KILL $$").out_of_memory()


@pytest.mark.parametrize(
    "words", ["CUDA error: out of memory", "std::bad_alloc", "exit 137", "MemoryError"]
)
def test_ways_to_say_that_memory_ran_out(shell: Run, words: str) -> None:
    script = words if words.startswith("exit") else f"echo '{words}'; exit 1"
    assert shell(script).out_of_memory()


def test_other_failures_and_deadlines_are_not_about_memory(shell: Run) -> None:
    assert not shell("echo no such file; exit 1").out_of_memory()
    assert not shell("echo out of memory; sleep 60", timeout_s=0.2).out_of_memory()


def test_peak_memory_is_that_of_the_command(runner: CommandRunner, tmp_path: Path) -> None:
    def peak(megabytes: int) -> int:
        code = f"x = b'x' * ({megabytes} << 20)"
        task = CommandRequest([sys.executable, "-c", code], tmp_path, tmp_path / "log")
        return runner.run(task).peak_bytes

    assert peak(200) > 200 << 20
    assert peak(1) < 100 << 20


def test_a_program_that_cannot_be_started_is_named(runner: CommandRunner, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"cannot start `\./missing`: No such file"):
        runner.run(CommandRequest(["./missing"], tmp_path, tmp_path / "log"))


def test_a_command_stays_on_its_cores(runner: CommandRunner, tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    task = CommandRequest([sys.executable, "-c", code], tmp_path, tmp_path / "log", cores=[core])
    assert runner.run(task).tail() == f"[{core}]\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_finds_no_room_is_an_error(runner: CommandRunner, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="disk full: no room to write /dev/full"):
        runner.run(CommandRequest(["/bin/echo", "hello"], tmp_path, Path("/dev/full")))
