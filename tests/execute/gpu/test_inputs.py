"""Inputs on a GPU: drawn in part, repeated until full, the same on the host."""

import numpy as np
import pytest

from skipjack.execute.gpu.arrays import DeviceArrays, Inputs
from skipjack.execute.verification import storage_of
from skipjack.operations import parse, tensors
from skipjack.testing.fake_gpu import FakeGpu


@pytest.mark.parametrize("key", ["add:1000:f32", "matmul:7x9x31:f16", "add:64x17:bf16"])
def test_the_host_knows_what_the_gpu_holds(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipjack.execute.gpu.arrays.DRAWN", 97)
    problem, gpu = parse(key), FakeGpu()
    arrays = DeviceArrays(gpu, problem, tensors(problem))
    drawn = Inputs(problem)
    drawn.write(gpu, arrays)
    assert not arrays.strayed()
    for tensor in tensors(problem):
        if tensor.name in drawn.names:
            found = arrays.download(tensor.name, storage_of(problem, tensor))
            assert np.array_equal(found, drawn.on_host[tensor.name])
            assert len(np.unique(found.astype(np.float64))) > 40


def test_the_same_seed_gives_the_same_inputs() -> None:
    problem = parse("add:1000:f32")
    one, same, other = (Inputs(problem, seed).on_host["x"] for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)
