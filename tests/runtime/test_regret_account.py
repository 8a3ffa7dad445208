"""Trials keep to a share of the program's kernel time, over all of its processes."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from processes import PATIENCE_S
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.local_kernels import library_kernel
from skipjack.runtime.online import CallMeter, RegretAccount, account_of_program, sampled
from skipjack.runtime.online.kernel_times import KernelTimes


def test_sums_are_of_all_processes(tmp_path: Path) -> None:
    account = RegretAccount(tmp_path / "made" / "account")
    assert account.add(kernel_ns=1000) == KernelTimes(1000, 0)
    code = (
        "import sys, pathlib; from skipjack.runtime.online import RegretAccount\n"
        "RegretAccount(pathlib.Path(sys.argv[1])).add(kernel_ns=500, trial_ns=60)"
    )
    subprocess.run([sys.executable, "-c", code, str(account.path)], check=True)
    sums = account.add()
    assert sums == KernelTimes(1500, 60)
    assert sums.allow(0.05, 15)
    assert not sums.allow(0.05, 16)


def test_a_program_is_a_process_group(tmp_path: Path) -> None:
    code = (
        "import pathlib; from skipjack.runtime.online import account_of_program\n"
        f"print(account_of_program(pathlib.Path({str(tmp_path)!r})).path)"
    )
    command = [sys.executable, "-c", code]

    def path_of(**options: bool) -> Path:
        done = subprocess.run(command, check=True, capture_output=True, text=True, **options)  # type: ignore[call-overload]
        return Path(done.stdout.strip())

    own = account_of_program(tmp_path).path
    assert path_of() == own
    assert path_of(start_new_session=True) != own


def test_where_nothing_can_be_written_nothing_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    account = RegretAccount(tmp_path / "file" / "account")
    assert not account.add(kernel_ns=10**12).allow(0.05)


def test_a_file_that_is_held_lets_the_program_go_on(tmp_path: Path) -> None:
    account = RegretAccount(tmp_path / "account")
    account.add(kernel_ns=1000)
    with account.path.open("rb") as held:  # by a process that was stopped
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not account.add(kernel_ns=10**12).allow(0.05)
    assert account.add() == KernelTimes(1000, 0)


def test_files_of_programs_long_gone_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "online" / "regret-1-2"
    old.parent.mkdir()
    old.touch()
    os.utime(old, (0, 0))
    account_of_program(tmp_path)
    assert not old.exists()


def test_the_file_of_a_program_that_ended_is_removed_when_another_starts(tmp_path: Path) -> None:
    code = (
        "import pathlib\n"
        "from skipjack.runtime.online import account_of_program\n"
        f"account = account_of_program(pathlib.Path({str(tmp_path)!r}))\n"
        "account.add(kernel_ns=1)\n"
        "print(account.path, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        path = Path(program.stdout.readline().strip())
        account_of_program(tmp_path)
        assert path.exists(), "it still runs"
        program.communicate("\n")
    account_of_program(tmp_path)
    assert not path.exists()


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now


def test_one_call_in_64_stands_for_all(tmp_path: Path) -> None:
    problem = parse("add:8")
    kernel = library_kernel("numpy", problem, cpu.detect())
    assert kernel is not None
    account, clock = RegretAccount(tmp_path / "account"), Clock()
    meter = CallMeter(account, clock)
    same = sampled(kernel, meter, on_gpu=False)
    assert same is kernel
    assert isinstance(kernel, type(library_kernel("numpy", problem, cpu.detect())))
    x = np.ones(8, np.float32)
    for _ in range(63):
        np.testing.assert_array_equal(kernel(x, x), 2 * x)
    assert account.add() == KernelTimes()
    out = np.empty_like(x)
    bound = kernel.bind(x, x, out=out)
    bound()
    assert account.add().kernel_ns == 64 * 1_000_000
    assert bound.out is out
    assert sampled(kernel, meter, on_gpu=False) is kernel  # once is enough
    for _ in range(64 * 300):
        kernel(x, x, out=out)
    # Written at most five times a second.
    assert account.add().kernel_ns == pytest.approx(301 * 64 * 1_000_000, rel=0.5)


class FakeEvent:
    """Torch's, of a GPU whose kernels take two milliseconds each and are done at once."""

    made = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        FakeEvent.made += 1

    def record(self) -> None:
        """Put it into the stream."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: "FakeEvent") -> float:
        return 2.0


def test_on_a_gpu_events_take_the_time_and_never_while_a_graph_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = [True]
    cuda = SimpleNamespace(
        Event=FakeEvent,
        is_available=lambda: True,
        is_current_stream_capturing=lambda: recording[0],
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]
    monkeypatch.setattr(FakeEvent, "made", 0)
    account = RegretAccount(tmp_path / "account")
    meter = CallMeter(account, Clock())
    for _ in range(64):
        assert meter.call(lambda: 3, True) == 3
    assert not FakeEvent.made
    recording[0] = False
    for _ in range(128):
        meter.call(lambda: 3, True)
    # The first sample is read when the second is taken, as the launch does not wait.
    assert account.add().kernel_ns == 64 * 2_000_000


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_was_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    account = RegretAccount(tmp_path / "account")
    with account._locked(PATIENCE_S):
        child = os.fork()
        if child == 0:
            time.sleep(PATIENCE_S)
            os._exit(0)
    try:
        with account.path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
