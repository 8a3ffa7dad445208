"""A policy is trained by workers of a Ray cluster as it is in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_cluster import RayCluster

pytest.importorskip("torch")

from skipjack.learn.loops import LoopDataset
from skipjack.learn.runs import RAY, RunFolder, TrainingWorkers, TrainOptions, open_learner, train
from skipjack.native import cpu

pytestmark = pytest.mark.long


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    """Two nodes."""
    ray = RayCluster()
    for name, value in ray.variables.items():
        monkeypatch.setenv(name, value)
    try:
        ray.start_head("one", cpus=2)
        ray.add("two", cpus=2)
        yield ray
    finally:
        ray.close()


def trained(path: Path, workers: TrainingWorkers) -> RunFolder:
    keys = ("matmul:16x32x24:f32", "matmul:32x32x16:f32")
    options = TrainOptions("tiny", total_steps=320, episode_steps=5, episodes=32, eval_size=0)
    dataset = LoopDataset("tiny", "mm", 0, keys, ())
    folder = RunFolder.create(path, options, dataset, cpu.detect(1))
    learner = open_learner(folder, workers)
    try:
        assert train(folder, learner, workers)
    finally:
        learner.close()
    return folder


def test_workers_on_a_ray_cluster_train_the_same_policy(
    cluster: RayCluster, tmp_path: Path
) -> None:
    there = trained(tmp_path / "there", TrainingWorkers(RAY, 1, cluster.address))
    trained(tmp_path / "here", TrainingWorkers())
    names = ("policy.npz", "steps.csv")
    for name in names:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert there.sessions[0].engine == "ray"
    assert (there.sessions[0].schedules or {}).keys() == {"estimated"}
