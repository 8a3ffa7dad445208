"""Stable-Baselines3 trains the same network in the same environment, and is resumed exactly."""

# ruff: noqa: E402
# Optional packages may be missing, so their imports are tried first.

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from skipjack.errors import SkipjackError, UsageError
from skipjack.learn.loops import LoopDataset, Preset
from skipjack.learn.policy import PolicyNetwork, find_policy, read_weights
from skipjack.learn.runs import (
    RAY,
    Learner,
    RunFolder,
    TrainerName,
    TrainingWorkers,
    TrainOptions,
    open_learner,
    resume,
    train,
)
from skipjack.native import cpu

KEYS = ("matmul:16x32x24:f32", "matmul:32x32x16:f32")


def folder(path: Path, steps: int = 60) -> RunFolder:
    options = TrainOptions(
        "tiny", TrainerName.SB3, steps, episode_steps=5, episodes=4, eval_size=0, seed=2
    )
    return RunFolder.create(path, options, LoopDataset("tiny", "mm", 0, KEYS, ()), cpu.detect(1))


def trained(run: RunFolder, iterations: int | None = None) -> Learner:
    learner = open_learner(run)
    resume(run, learner)
    last = learner.iteration + (iterations or 1000)
    train(run, learner, stop=lambda: learner.iteration >= last)
    learner.close()
    return learner


def test_a_resumed_run_equals_one_that_was_not_interrupted(tmp_path: Path) -> None:
    trained(folder(tmp_path / "whole"))
    cut = folder(tmp_path / "cut")
    assert trained(cut, 1).steps == 20
    trained(RunFolder.open(tmp_path / "cut"))
    mine, other = (read_weights(tmp_path / name / "policy.npz") for name in ("cut", "whole"))
    assert all(np.array_equal(mine[name], other[name]) for name in other)
    steps = [(tmp_path / name / "steps.csv").read_text() for name in ("cut", "whole")]
    assert steps[0] == steps[1]
    assert find_policy(str(tmp_path / "cut"), Preset.LOOPTUNE).network.actions == 7


def test_the_exported_network_is_the_one_that_was_trained(tmp_path: Path) -> None:
    learner = open_learner(folder(tmp_path / "run"))
    learner.iterate()
    model = learner._model  # type: ignore[attr-defined]
    seen = learner._env.reset()  # type: ignore[attr-defined]
    with torch.no_grad():
        tensors, _ = model.policy.obs_to_tensor(seen)
        logits = model.policy.get_distribution(tensors).distribution.logits.numpy()
    rows, cursor = seen["loops"], seen["loops"][:, :, 0].argmax(axis=1)
    mine, _ = PolicyNetwork(learner.arrays()).forward_many(
        rows, seen["rows"].astype(np.bool_), cursor, seen["globals"]
    )
    mine = mine - np.log(np.exp(mine).sum(axis=1, keepdims=True))
    assert np.allclose(mine, logits, atol=1e-5)
    learner.close()


def test_nothing_pickled_is_read_from_a_checkpoint(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", 20)
    trained(run)
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["policy.pth"] = b"cos\nsystem\n(S'touch pwned'\ntR."
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(SkipjackError, match="cannot resume from the checkpoint"):
        trained(RunFolder.open(tmp_path / "run"))
    assert not Path("pwned").exists()


def test_a_run_of_another_trainer_is_not_gone_on_with(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    trained(run, 1)
    run.options = replace(run.options, trainer=TrainerName.PPO)
    learner = open_learner(run)
    message = "its trainer is not ppo, which run.json names; delete it to resume"
    with pytest.raises(SkipjackError, match=message):
        resume(run, learner)
    learner.close()


def test_it_trains_on_one_machine(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sb3 trains on one machine"):
        open_learner(folder(tmp_path / "run"), TrainingWorkers(RAY))


@pytest.mark.long
def test_environments_may_have_processes_of_their_own(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", 40)
    learner = open_learner(run, TrainingWorkers("local", 2))
    try:
        assert train(run, learner)
        assert learner.sources()["estimated"] > 0
    finally:
        learner.close()
