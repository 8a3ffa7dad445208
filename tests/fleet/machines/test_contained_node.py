"""A node in containers: the engine's command lines, one for each GPU, and what is ended."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skipjack.errors import SkipjackError
from skipjack.fleet.images.gpus import GpuRef
from skipjack.fleet.machines import contained_node, node
from skipjack.fleet.machines.node_record import NodeRequest, read_record

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

    def call(self, words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        code, out = 0, b""
        if words[0] == "run":
            self.lines.append(list(words))
            self.there.append(words[words.index("--name") + 1])
            log = next(word for word in words if word.endswith(".log"))
            Path(log).write_text(self.says)
            if "Ray runtime" not in self.says:
                self.there.pop()
        elif words[0] == "stop":
            self.there.remove(words[-1])
        elif words[0] == "inspect":
            code, out = (0, b"true\n") if words[-1] in self.there else (1, b"")
        return subprocess.CompletedProcess(list(words), code, out, b"")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    for module in (contained_node, node):
        monkeypatch.setattr(module, "ready_engine", lambda: made)
    refs: list[GpuRef | None] = [GpuRef("hip", 0), GpuRef("hip", 1)]
    monkeypatch.setattr(contained_node, "_gpus", lambda request: refs[: request.gpus] or [None])
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
        assert f"--device /dev/dri/renderD{128 + number}" in line and "--device /dev/kfd" in line
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


def test_a_gpu_that_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained_node, "find_gpus", lambda: [])
    with pytest.raises(SkipjackError, match="0 GPUs for containers are here, 2 are registered"):
        contained_node._gpus(REQUEST)
