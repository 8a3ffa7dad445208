"""Builds that fail, hang or kill their worker are results; the others are built."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from processes import PATIENCE_S
from skipjack.core import Candidate, Device, Status
from skipjack.errors import WorkerError
from skipjack.execute.pool import Build, BuildPool

Make = Callable[[str], Candidate]


@pytest.fixture
def pool(device: Device, candidate: Make, children: object) -> Iterator[BuildPool]:
    with BuildPool(1, device, timeout_s=1.0) as opened:
        opened.warm_up()
        yield opened


def collect(pool: BuildPool, count: int, within_s: float = PATIENCE_S) -> dict[str, Build]:
    """Builds by behaviour."""
    found: dict[str, Build] = {}
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        for build in pool.poll(0.1):
            found[str(build.candidate.config["behaviour"])] = build
    return found


def test_every_fate_of_a_build_has_a_status_and_a_reason(pool: BuildPool, candidate: Make) -> None:
    fates = {
        "refuse": (Status.BUILD_ERROR, "RuntimeError: this compiler says no"),
        "bad_ir": (Status.BUILD_ERROR, "LLVM refused"),
        "exit": (Status.BUILD_CRASH, "the compiler ended with exit code 3"),
        "kill": (Status.BUILD_CRASH, "the compiler ended by SIGKILL"),
        "hang": (Status.BUILD_TIMEOUT, "longer than 1 s"),
        "right": (Status.OK, ""),
    }
    for behaviour in fates:
        pool.submit(candidate(behaviour))
    builds = collect(pool, len(fates))
    assert {name: build.status for name, build in builds.items()} == {
        name: status for name, (status, _) in fates.items()
    }
    for name, (_, reason) in fates.items():
        assert reason in builds[name].reason
    assert builds["right"].artifact
    assert builds["right"].slots == ("x", "y", "out", 60)
    assert pool.pending == 0


def test_a_worker_that_somebody_kills_costs_no_build(pool: BuildPool, candidate: Make) -> None:
    pool.submit(candidate("hang"))
    pool.submit(candidate("right"))
    os.kill(pool.pids[0], signal.SIGKILL)
    builds = collect(pool, 2)
    assert builds["right"].status is Status.OK
    assert builds["hang"].status is Status.BUILD_TIMEOUT


def test_a_stopped_worker_is_a_hang(pool: BuildPool, candidate: Make) -> None:
    stopped = pool.pids[0]
    os.kill(stopped, signal.SIGSTOP)
    pool.submit(candidate("right"))
    assert collect(pool, 1)["right"].status is Status.BUILD_TIMEOUT
    pool.submit(candidate("slow"))
    assert collect(pool, 1)["slow"].status is Status.OK
    assert pool.pids[0] != stopped


def test_cancelling_does_not_wait_for_a_build_that_hangs(device: Device, candidate: Make) -> None:
    with BuildPool(1, device, timeout_s=1000) as pool:
        pool.warm_up()
        for behaviour in ("hang", "right", "slow", "wrong"):
            pool.submit(candidate(behaviour))
        pool.cancel(grace_s=0.0)
        assert pool.pending == 0
        pool.submit(candidate("right"))
        assert list(collect(pool, 1)) == ["right"]


def test_workers_that_do_not_start_end_the_patience(
    device: Device, candidate: Make, children: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_PLUGINS", "no_such_plugin")
    with (
        pytest.raises(WorkerError, match=r"do not start.*no_such_plugin"),
        BuildPool(1, device) as p,
    ):
        p.warm_up()
