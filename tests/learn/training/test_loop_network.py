"""The network of training and the one that plays without torch are the same."""

# ruff: noqa: E402
# Optional packages may be missing, so their imports are tried first.

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skipjack.learn.training import Batch, NetworkSizes, exported, imported
from skipjack.learn.training.network import LoopNetwork


def views(states: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 13, states)
    present = np.arange(16)[None] < counts[:, None]
    rows = rng.normal(size=(states, 16, 9)).astype(np.float32) * present[:, :, None]
    machine = rng.normal(size=(states, 5)).astype(np.float32)
    mask = rng.random((states, 7)) < 0.5
    mask[:, 0] = True
    return rows, present, rng.integers(0, counts), machine, mask


def test_exported_weights_make_the_same_network() -> None:
    network = LoopNetwork(NetworkSizes(row=9, machine=5, actions=7, width=16, trunk=24))
    batch = Batch(*map(torch.from_numpy, views(8)))
    again = imported(exported(network))
    for mine, other in zip(network(batch), again(batch), strict=True):
        assert torch.equal(mine, other)


def test_an_illegal_action_has_no_probability() -> None:
    network = LoopNetwork(NetworkSizes(row=9, machine=5, actions=7, width=16, trunk=24))
    batch = Batch(*map(torch.from_numpy, views(8)))
    chances = network(batch)[0].softmax(dim=1)
    assert (chances[~batch.mask] == 0).all()
    assert (chances[batch.mask] > 0).all()


def test_padding_changes_nothing() -> None:
    network = LoopNetwork(NetworkSizes(row=9, machine=5, actions=7, width=16, trunk=24))
    rows, present, cursor, machine, mask = views(8)
    padded = rows + np.float32(3) * ~present[:, :, None]
    first = network(Batch(*map(torch.from_numpy, (rows, present, cursor, machine, mask))))
    second = network(Batch(*map(torch.from_numpy, (padded, present, cursor, machine, mask))))
    for mine, other in zip(first, second, strict=True):
        assert torch.allclose(mine, other, atol=1e-6)
