"""Kernels on a CPU are timed as they are deployed: from machine code or Python, hot or cold."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import Device, Problem, deployed_protocol
from skipjack.execute import Loadable, RunSession
from skipjack.execute.cpu.kernels import ColdKernel
from skipjack.native import CacheFlusher, detect, llvm, target_of


class Script:
    """Writes down what happens to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def call(self) -> None:
        self.done.append("call")

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        self.done += ["call"] * calls * samples
        return np.full(samples, 7.0)


def test_arrays_leave_the_caches_before_every_call_that_is_timed() -> None:
    script = Script()
    cold = ColdKernel(script, lambda: script.done.append("flush"))
    assert cold.sample(3, 2).tolist() == [7.0, 7.0]
    assert script.done == ["flush", "call"] * 6


def test_flushing_changes_nothing_in_memory() -> None:
    device = detect()
    flusher = CacheFlusher(llvm.Loader(), target_of(device), device.level)
    room = np.arange(5000, dtype=np.float32)
    arrays = [room[3:4000], room[:1], room]
    flusher.flush(arrays)
    np.testing.assert_array_equal(room, np.arange(5000, dtype=np.float32))


@pytest.mark.parametrize("deployed", ["native/cold", "eager/hot", "eager/cold"])
def test_a_session_times_kernels_and_libraries_as_its_protocol_says(
    rogue_everywhere: Path,
    loadable: Callable[[str], Loadable],
    rogue: Problem,
    device: Device,
    deployed: str,
) -> None:
    protocol = deployed_protocol(device, *deployed.split("/"))
    with RunSession(replace(protocol, sample_ns=2_000, samples_per_block=2), ()) as session:
        session.prepare(rogue)
        kernel = session.add(loadable("right"))
        assert session.verify(kernel)[0] is None
        blocks, failures = session.time([kernel], 2)
    assert not failures and len(blocks) == 2
    assert all(time > 0 for block in blocks for time in block.samples_ns)
