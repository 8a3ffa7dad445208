"""Kernels on a GPU are timed as they are deployed: by graphs or launches, on cold or hot caches."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from skipjack.core import Problem, deployed_protocol
from skipjack.execute import Loadable, RunSession
from skipjack.execute.gpu.timing import GpuTimer, Recorded, Stopwatch
from skipjack.testing.fake_gpu import DEVICE, FakeGpu

Make = Callable[..., Loadable]


class Counting(FakeGpu):
    """Counts what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.done.append(what)

    def synchronize(self) -> None:
        self.done.append("wait")
        super().synchronize()


@pytest.fixture
def gpu() -> Iterator[Counting]:
    yield Counting()


def test_eager_calls_are_launched_one_by_one_and_waited_for(gpu: Counting) -> None:
    kernel = Recorded(gpu, [gpu.note("launch")])
    stopwatch = Stopwatch(GpuTimer(gpu), kernel, 20_000, eager=True)
    gpu.done.clear()
    times = stopwatch.sample(3)
    assert (times > 0).all() and times.shape == (3,)
    launched = ["launch"] * stopwatch.calls
    assert gpu.done == ["launch", *(["wait", *launched, "wait"] * 3)]
    stopwatch.close()


def test_a_graph_is_launched_as_a_whole(gpu: Counting) -> None:
    kernel = Recorded(gpu, [gpu.note("launch")])
    stopwatch = Stopwatch(GpuTimer(gpu), kernel, 20_000)
    gpu.done.clear()
    stopwatch.sample(2)
    assert gpu.done.count("launch") == 1, "the call that brings the code back is the only one"
    stopwatch.close()


def test_hot_caches_are_filled_by_a_call_that_is_not_timed(gpu: Counting) -> None:
    timer = GpuTimer(gpu)
    for clock in (timer.times, timer.host_times):
        gpu.done.clear()
        clock(gpu.note("timed"), 2, gpu.note("first"))
        assert [one for one in gpu.done if one != "wait"] == ["first", "timed", "timed"]


@pytest.mark.parametrize("deployed", ["graph/cold", "graph/hot", "eager/cold", "eager/hot"])
def test_a_session_times_kernels_as_its_protocol_says(
    fake_everywhere: None, loadable: Make, problem: Problem, deployed: str
) -> None:
    protocol = deployed_protocol(DEVICE, *deployed.split("/"))
    quick = replace(protocol, sample_ns=20_000, samples_per_block=2)
    assert quick.deployed == deployed
    with RunSession(quick, (), gpu="fake:0") as session:
        session.prepare(problem)
        kernel = session.add(loadable())
        assert session.verify(kernel)[0] is None
        blocks, failures = session.time([kernel], 2)
    assert not failures and len(blocks) == 2
    if deployed.startswith("graph"):
        assert np.median([t for b in blocks for t in b.samples_ns]) == pytest.approx(5000, rel=0.2)
        assert not any(block.disturbed for block in blocks)
