"""TensorBoard is told where it is installed, Weights & Biases where it is asked for."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from skipjack.errors import UsageError
from skipjack.learn.loops import LoopDataset
from skipjack.learn.runs import RunFolder, TrainOptions, fetch_policy, open_sinks
from skipjack.native import cpu

CURVES = {"iteration": 1, "steps": 20, "speed_up": 1.5}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    dataset = LoopDataset("tiny", "mm", 0, ("matmul:16x16x16:f32",), ())
    options = TrainOptions("tiny", eval_size=0)
    return RunFolder.create(tmp_path / "run", options, dataset, cpu.detect(1))


def installed(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_tensorboard_gets_a_point_of_each_curve(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[Any, ...]] = []

    class Writer:
        def __init__(self, log_dir: str) -> None:
            told.append((log_dir,))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def flush(self) -> None: ...

        def close(self) -> None:
            told.append(("closed",))

    installed(monkeypatch, "tensorboard")
    installed(monkeypatch, "torch.utils.tensorboard").SummaryWriter = Writer
    (sink,) = open_sinks(folder)
    sink.add(20, CURVES)
    sink.close(folder.path)
    place = str(folder.path / "tensorboard")
    assert told == [(place,), ("train/speed_up", 1.5, 20), ("closed",)]


class StandInWandb:
    """As much of the package as is used."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def init(self, **how: Any) -> StandInWandb:
        self.told.append({key: how[key] for key in how if key not in ("config", "dir")})
        return self

    def log(self, curves: dict[str, float], step: int) -> None:
        self.told.append((curves["train/speed_up"], step))

    def save(self, path: str, base_path: str, policy: str) -> None:
        self.told.append(Path(path).name)

    def finish(self) -> None:
        self.told.append("finished")

    def run(self, path: str) -> StandInWandb:
        self.told.append(path)
        return self

    def file(self, name: str) -> StandInWandb:
        return self

    def download(self, root: str, replace: bool) -> None:
        Path(root, "policy.npz").write_bytes(b"weights")


def test_weights_and_biases_is_told_and_handed_the_policy(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in, module = StandInWandb(), installed(monkeypatch, "wandb")
    module.init, module.Api = stand_in.init, lambda: stand_in
    sink = open_sinks(folder, wandb=True)[-1]
    sink.add(20, CURVES)
    sink.close(folder.path)
    named = {"project": "skipjack-loops", "name": "run"}
    assert stand_in.told == [named, (1.5, 20), "policy.npz", "finished"]
    open_sinks(folder, wandb_run="https://wandb.ai/me/loops/runs/abc")
    same = {"entity": "me", "project": "loops", "id": "abc", "resume": "allow"}
    assert stand_in.told[-1] == same
    assert fetch_policy("me/loops/abc", tmp_path).read_bytes() == b"weights"


def test_without_the_package_a_sentence_says_so(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match="Weights & Biases needs the package wandb"):
        open_sinks(folder, wandb=True)
    with pytest.raises(UsageError, match="write entity/project/run"):
        fetch_policy("somewhere", folder.path)
