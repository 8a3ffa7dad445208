"""Workers in containers: tasks come back, secrets stay outside, and nothing outlives its parent."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from image_stand_ins import ID, StandIn

from processes import PATIENCE_S, alive, gone
from skipjack.errors import UsageError
from skipjack.execute import wire
from skipjack.fleet.engines import LocalEngine
from skipjack.fleet.images.gpus import gpus_here
from skipjack.fleet.model import Done, JobPlan, JobStage, Task
from skipjack.gpu.discovery import only_drivers
from skipjack.native import cpu
from skipjack.settings import load_settings
from skipjack.testing.fake_gpu import DEVICE, FakeDriver
from skipjack.testing.fleet.workers import make_stand_in

Start = Callable[..., LocalEngine]


@pytest.fixture
def start(docker: StandIn, user_dir: Path) -> Iterator[Start]:
    """Engines of stand-in workers in stand-in containers."""
    with ExitStack() as opened:

        def begin(builders: int = 1, evaluators: int = 0) -> LocalEngine:
            engine = LocalEngine(
                load_settings(), builders, evaluators, make_worker=make_stand_in, image="my_img"
            )
            return opened.enter_context(engine)

        yield begin


def task(job: int, problem: str) -> Task:
    device = cpu.detect()
    return Task(job, JobStage.BUILD, JobPlan(problem, device.name), device)


def collect(engine: LocalEngine, count: int) -> list[Done]:
    found: list[Done] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += engine.poll(0.1)
    assert len(found) == count
    return found


def test_a_worker_in_a_container_does_its_tasks(start: Start, docker: StandIn) -> None:
    engine = start()
    engine.submit("build-1", [task(1, "where:"), task(2, "fail:out of luck")])
    first, second = collect(engine, 2)
    assert first.outcome and second.outcome
    pid, _, niceness, *place = first.outcome.facts.split()
    assert [int(pid)] == list(docker.containers().values())
    assert (niceness, place) == (str(min(19, os.nice(0) + 10)), ["build", "[]"])
    assert second.outcome.failed == "RuntimeError: out of luck"
    assert engine.image and engine.image.id == ID
    engine.close()
    assert gone({int(pid)})
    assert docker.asked()[-1][:2] == ["rm", "--force"]


def test_evaluators_keep_their_cores_and_builders_have_all(
    start: Start, docker: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: len(cpu.usable_cores()))
    engine = start(builders=1, evaluators=1)
    engine.submit("evaluate-1", [task(1, "where:")])
    collect(engine, 1)
    lines = {line[line.index("--name") + 1]: line for line in docker.asked() if line[0] == "run"}
    cores = ",".join(map(str, sorted(cpu.usable_cores())))
    for name, line in lines.items():
        pinned = line[line.index("--cpuset-cpus") + 1] if "--cpuset-cpus" in line else ""
        assert pinned == (cores if name.startswith("skipjack-evaluate-1-") else "")
        assert line[line.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
        assert line[line.index("my_img") + 1 :][:3] == ["-P", "-m", "skipjack.fleet.work.worker"]
    assert len(lines) == 2


def test_who_keeps_to_some_cores_builds_on_those_alone(
    start: Start, docker: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1024)
    engine = start()
    engine.submit("build-1", [task(1, "nothing:")])
    collect(engine, 1)
    (line,) = (line for line in docker.asked() if line[0] == "run")
    cores = ",".join(map(str, sorted(cpu.usable_cores())))
    assert line[line.index("--cpuset-cpus") + 1] == cores


class TwoCards(FakeDriver):
    """What looks like two GPUs of NVIDIA's."""

    name = "cuda"

    def __init__(self) -> None:
        super().__init__([replace(DEVICE, serial=serial) for serial in ("a-1", "b-2")])


def test_each_gpu_has_a_container_of_its_own_where_it_is_the_first(
    start: Start, docker: StandIn
) -> None:
    with only_drivers(TwoCards()):
        assert [gpu.uuid for gpu in gpus_here()] == ["a-1", "b-2"]
        engine = start(builders=0, evaluators=1)
        slots = ["evaluate-cuda-0", "evaluate-cuda-1"]
        for slot in slots:
            engine.submit(slot, [task(1, "where:")])
        done = {one.slot: one.outcome for one in collect(engine, 2)}
    runs = {line[line.index("--slot") + 1]: line for line in docker.asked() if line[0] == "run"}
    for slot, uuid in zip(slots, ("a-1", "b-2"), strict=True):
        line, outcome = runs[slot], done[slot]
        assert line[line.index("--gpus") + 1] == f"device=GPU-{uuid}"
        assert outcome and outcome.facts.endswith("evaluate [] cuda:0")
    assert "--gpus" not in runs["evaluate-1"]
    assert engine.slots()[-1].gpu == "cuda:1"


def test_containers_share_the_locks_and_see_no_secret(
    start: Start,
    docker: StandIn,
    user_dir: Path,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = scratch / "mine.py"
    plugin.touch()
    monkeypatch.setenv("SKIPJACK_PLUGINS", str(plugin))
    monkeypatch.setenv("SKIPJACK_DB_PASSWORD_FILE", "/secret")
    monkeypatch.setenv("MIOPEN_LOG_LEVEL", "5")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    user_dir.mkdir()
    for secret in ("fleet.key", "ray-token", "fleet.sqlite"):
        (user_dir / secret).touch()
    engine = start()
    engine.submit("build-1", [task(1, "nothing:")])
    collect(engine, 1)
    (line,) = (line for line in docker.asked() if line[0] == "run")
    place = user_dir / "containers"
    mounts = [line[at + 1] for at, word in enumerate(line) if word == "--mount"]
    assert mounts == [
        f"type=bind,source={place},target={place}",
        f"type=bind,source={scratch},target={scratch}",
        f"type=bind,source={plugin},target={plugin},readonly",
    ]
    (inside,) = docker.variables()
    assert inside["SKIPJACK_USER_DB_PATH"] == str(place)
    assert inside["SKIPJACK_LOCK_DIR"] == str(scratch)
    assert inside["HOME"] == str(place / "home")
    assert inside["MIOPEN_LOG_LEVEL"] == "5"
    assert inside["OMP_NUM_THREADS"] == "1"
    assert not {"SKIPJACK_DB_PASSWORD_FILE", "AWS_SECRET_ACCESS_KEY"} & set(inside)
    assert "hunter2" not in str(docker.calls())
    seen = {path.name for path in place.rglob("*")}
    assert seen >= {"home"} and not seen & {"fleet.key", "ray-token", "fleet.sqlite"}


def test_a_worker_that_dies_costs_its_task_and_is_replaced(start: Start) -> None:
    engine = start()
    engine.submit("build-1", [task(1, "end:SIGKILL"), task(2, "nothing:")])
    first, second = collect(engine, 2)
    assert first.lost == "the worker ended with exit code 137: farewell"
    assert second.outcome


def test_a_cancelled_job_ends_its_container(start: Start, docker: StandIn) -> None:
    engine = start()
    engine.submit("build-1", [task(1, "where:"), task(2, "sleep:60")])
    collect(engine, 1)
    (pid,) = docker.containers().values()
    engine.poll(0.1)
    engine.cancel([2])
    assert gone({pid})


def test_containers_end_when_their_coordinator_is_killed(
    docker: StandIn, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from skipjack.testing.fleet.workers import make_stand_in\n"
        "from skipjack.fleet.engines import LocalEngine\n"
        "from skipjack.settings import load_settings\n"
        "engine = LocalEngine(load_settings(), 1, 0, make_worker=make_stand_in, image='my_img')\n"
        "engine.__enter__()\n"
        "while True: engine.poll(1.0)\n"
    )
    coordinator = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not docker.containers() and time.monotonic() < deadline:
            time.sleep(0.02)
        (pid,) = docker.containers().values()
        assert alive(pid)
    finally:
        coordinator.kill()
        coordinator.wait()
    assert gone({pid})


def test_a_worker_elsewhere_ends_in_the_middle_of_a_task_when_its_pipe_does() -> None:
    code = (
        "import time\n"
        "from skipjack.execute import wire\n"
        "from skipjack.execute import set_up_worker\n"
        "from skipjack.execute.startup import IN_CONTAINER\n"
        "requests, answers = set_up_worker(IN_CONTAINER)\n"
        "message = wire.receive(requests.read)\n"
        "wire.send(answers, message.body, ())\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin and child.stdout
    try:
        child.stdin.write(wire.encode({"task": 1}, ()))
        child.stdin.flush()
        assert wire.receive(child.stdout.read) is not None
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_an_image_that_is_not_there_starts_nothing(docker: StandIn, user_dir: Path) -> None:
    with pytest.raises(UsageError, match="this machine has no image other"):
        LocalEngine(load_settings(), 1, 0, image="other")
    with pytest.raises(UsageError, match="is not the name of an image"):
        LocalEngine(load_settings(), 1, 0, image="--privileged")
    assert docker.asked() == []


def test_an_image_with_another_skipjack_is_named(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STAND_IN_HOLDS", "0.0.1")
    start(builders=0, evaluators=0)
    assert "image my_img has Skipjack 0.0.1" in caplog.text


def test_a_container_that_does_not_start_says_the_engines_words(
    start: Start, docker: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start(builders=0)
    engine = start()
    engine.close()
    docker.have()
    engine.submit("build-1", [task(1, "nothing:")])
    (done,) = collect(engine, 1)
    assert done.lost.endswith(
        "the last one ended with exit code 125: docker: Error response from daemon: "
        "No such image: my_img"
    )
    assert "was not ready" not in caplog.text, "a worker of before it was closed is waited for"
