"""A node in containers: the engine's command lines, one for each GPU, and its end."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from skipjack.errors import SkipjackError
from skipjack.fleet.images import GpuRef
from skipjack.fleet.machines import cluster, contained_node, node, node_start
from skipjack.fleet.machines.node_start import NodeRequest, read_record

REQUEST = NodeRequest("gpu7", "c", "geheim", "", 6380, 10002, {"gfx908/120": 2}, 2, (), "my_img")


@dataclass
class Engine:
    """Takes the place of docker: a container runs from ``run`` to ``stop``."""

    name: str = "docker"
    program: str = "docker"
    rootless: bool = False
    says: str = "Local node IP: 10.0.0.7\nRay runtime started.\n"
    lines: list[list[str]] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    begins: Callable[[str], None] = lambda name: None
    """What happens while a container starts, and while it ends."""
    ends: Callable[[str], None] = lambda name: None

    def call(self, words: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
        out = b""
        if words[0] == "run":
            self.lines.append(list(words))
            name = words[words.index("--name") + 1]
            self.begins(name)
            self.there.append(name)
            log = next(word for word in words if word.endswith(".log"))
            Path(log).write_text(self.says)
            if self.says.startswith("ValueError"):
                self.there.pop()
        elif words[0] == "stop":
            self.ends(words[-1])
            self.there.remove(words[-1])
            self.stopped.append(words[-1])
        elif words[0] == "ps":
            out = "\n".join(self.there).encode()
        return subprocess.CompletedProcess(list(words), 0, out, b"")


def refs(count: int) -> list[GpuRef | None]:
    return [GpuRef("hip", at, render_node=f"/dev/dri/renderD{at + 140}") for at in range(count)]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    for module in (contained_node, node):
        monkeypatch.setattr(module, "ready_engine", lambda: made)
    monkeypatch.setattr(contained_node, "_gpus", lambda request: refs(request.gpus) or [None])
    return made


@pytest.fixture
def folder(user_dir: Path) -> Path:
    place = user_dir / "ray-nodes" / "gpu7"
    place.mkdir(parents=True)
    return place


def test_every_gpu_is_a_node_of_its_own_and_the_first_is_the_head(
    engine: Engine, folder: Path
) -> None:
    assert node.start(REQUEST, folder) == {
        **{"ip": "10.0.0.7", "what": "2 containers", "already": False}
    }
    head, other = (" ".join(line) for line in engine.lines)
    assert "--head --port=6380" in head and "--address=10.0.0.7:6380" in other
    for number, line in enumerate((head, other)):
        assert f"--device /dev/dri/renderD{140 + number}" in line and "--device /dev/kfd" in line
        assert '--num-gpus=1 --resources={"gfx908/120": 1}' in line
        assert "--network host" in line and "my_img" in line
        assert "geheim" not in line
    assert node.status(folder, "c")["up"] and node.start(REQUEST, folder)["already"]
    assert node.stop(folder, "another") == {"ended": False} and len(engine.there) == 2
    assert node.stop(folder, "c") == {"ended": True} and not engine.there
    assert read_record(folder) is None and node.stop(folder, "c") == {"ended": False}


def test_a_container_that_does_not_start_leaves_nothing(engine: Engine, folder: Path) -> None:
    engine.says = "ValueError: port 6380 is in use\n"
    with pytest.raises(SkipjackError, match="Ray did not start: ValueError: port 6380"):
        node.start(REQUEST, folder)
    assert not engine.there and read_record(folder) is None


def test_half_of_them_is_not_up_and_is_started_over(engine: Engine, folder: Path) -> None:
    node.start(REQUEST, folder)
    lost = engine.there.pop()
    assert not node.status(folder, "c")["up"]
    assert not node.start(REQUEST, folder)["already"]
    assert len(engine.there) == 2 and lost not in engine.there
    node.stop(folder, "c")


def test_of_eight_all_but_the_first_start_and_end_at_once(engine: Engine, folder: Path) -> None:
    # A single thread at the barrier breaks it.
    together = threading.Barrier(7)

    def wait_for_the_others(name: str) -> None:
        if not name.endswith("-0"):
            together.wait(timeout=5)

    engine.begins = engine.ends = wait_for_the_others
    assert node.start(replace(REQUEST, gpus=8), folder)["what"] == "8 containers"
    assert node.stop(folder, "c") == {"ended": True}
    assert len(engine.stopped) == 8 and engine.stopped[-1].endswith("-0")


class Clock:
    """A clock that advances only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_ssh_waits_for_the_slowest_node_that_still_starts(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(contained_node, "time", clock)
    monkeypatch.setattr(contained_node, "_LOOK_S", 1.0)
    up_at: dict[str, float] = {}

    def begins(name: str) -> None:
        up_at[name] = clock.now + node_start.START_S - 1

    def started(said: str) -> str | None:
        # All threads that were started are due at the same time.
        return "10.0.0.7" if clock.now >= max(up_at.values()) else None

    engine.begins = begins
    monkeypatch.setattr(contained_node, "started", started)
    assert node.start(replace(REQUEST, gpus=8), folder)["what"] == "8 containers"
    assert clock.now == 2 * (node_start.START_S - 1) < node_start.START_ALL_S
    assert cluster.start_limit_s("my_img") > node_start.START_ALL_S + node_start.END_ALL_S
    assert cluster.stop_limit_s("my_img") > node_start.END_ALL_S


def test_one_of_many_that_never_comes_up_is_given_up_and_all_end(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(contained_node, "time", clock)
    monkeypatch.setattr(contained_node, "_LOOK_S", 1.0)
    engine.says = "waiting\n"
    with pytest.raises(SkipjackError, match="Ray did not start within 60 s: waiting"):
        node.start(REQUEST, folder)
    assert not engine.there and clock.now < node_start.START_S + 5


def test_starting_again_and_again_leaves_one_log_for_each_gpu(engine: Engine, folder: Path) -> None:
    for _ in range(3):
        node.start(REQUEST, folder)
        node.stop(folder, "c")
    assert sorted(path.name for path in folder.iterdir()) == ["ray-0.log", "ray-1.log"]


def test_a_node_sees_its_own_folder_and_not_what_else_the_user_keeps(
    engine: Engine, folder: Path, user_dir: Path, scratch: Path
) -> None:
    node.start(replace(REQUEST, gpus=1), folder)
    (line,) = engine.lines
    mounts = [line[at + 1] for at, word in enumerate(line) if word == "--mount"]
    sources = [mount.split(",")[1].removeprefix("source=") for mount in mounts]
    record = read_record(folder)
    assert record is not None
    assert sources == [str(user_dir / "containers"), str(folder), record.temporary, str(scratch)]
    assert f"SKIPJACK_USER_DB_PATH={user_dir / 'containers'}" in line
    node.stop(folder, "c")


def test_a_gpu_that_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained_node, "find_gpus", lambda: [])
    with pytest.raises(SkipjackError, match="found 0 GPUs for containers, but 2 are registered"):
        contained_node._gpus(REQUEST)
