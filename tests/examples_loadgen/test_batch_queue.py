"""The batching queue of the LoadGen example, without LoadGen."""

from __future__ import annotations

import importlib.util
import threading
import time
from types import ModuleType

import pytest
from loadgen_example import EXAMPLE


@pytest.fixture(scope="module")
def batching() -> ModuleType:
    """The example's module, loaded by its path: examples are no package."""
    spec = importlib.util.spec_from_file_location("loadgen_batching", EXAMPLE / "batching.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_full_batch_leaves_at_once_and_the_rest_waits(batching: ModuleType) -> None:
    queue = batching.BatchQueue(batch_size=4, delay_us=1e9)
    queue.put([batching.Waiting(id, 10 * id) for id in range(6)])
    assert queue.take() == [(0, 0), (1, 10), (2, 20), (3, 30)]
    queue.flush()
    assert queue.take() == [(4, 40), (5, 50)]


def test_a_batch_that_is_not_full_leaves_after_the_delay(batching: ModuleType) -> None:
    queue = batching.BatchQueue(batch_size=4, delay_us=30_000)
    started = time.perf_counter()
    queue.put([batching.Waiting(1, 1)])
    assert queue.take() == [(1, 1)]
    assert time.perf_counter() - started >= 0.03


def test_a_flush_does_not_outlast_the_next_sample(batching: ModuleType) -> None:
    queue = batching.BatchQueue(batch_size=2, delay_us=20_000)
    queue.flush()
    started = time.perf_counter()
    queue.put([batching.Waiting(1, 1)])
    assert queue.take() == [(1, 1)]
    assert time.perf_counter() - started >= 0.02


def test_many_workers_answer_every_sample_once(batching: ModuleType) -> None:
    queue = batching.BatchQueue(batch_size=3, delay_us=100)
    taken: list[int] = []

    def work() -> None:
        while batch := queue.take():
            assert len(batch) <= 3
            taken.extend(sample.id for sample in batch)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for start in range(0, 1000, 5):
        queue.put([batching.Waiting(id, id) for id in range(start, start + 5)])
    queue.close()
    for worker in workers:
        worker.join(10)
    assert sorted(taken) == list(range(1000))


def test_a_closed_and_empty_queue_sends_workers_home(batching: ModuleType) -> None:
    queue = batching.BatchQueue(batch_size=3, delay_us=0)
    queue.put([batching.Waiting(1, 1)])
    queue.close()
    assert queue.take() == [(1, 1)]
    assert queue.take() == []


@pytest.mark.parametrize(("batch_size", "delay_us"), [(0, 0), (1, -1)])
def test_nonsense_is_refused(batching: ModuleType, batch_size: int, delay_us: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        batching.BatchQueue(batch_size, delay_us)
