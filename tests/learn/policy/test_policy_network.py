"""The network of a policy by NumPy: the same as that of torch, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skipjack.errors import UsageError
from skipjack.learn.policy import PolicyNetwork, log_probabilities
from skipjack.testing.samples import random_weights

ROW, MACHINE, ACTIONS = 13, 7, 11


def states(count: int, loops: int = 14) -> tuple[Any, Any, Any, Any]:
    """Observations of random states of one to `loops` loops."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(count, loops, ROW)).astype(np.float32)
    lengths = rng.integers(1, loops + 1, count)
    present = np.arange(loops) < lengths[:, None]
    rows[~present] = 0
    machine = rng.normal(size=(count, MACHINE)).astype(np.float32)
    return rows, present, rng.integers(0, lengths), machine


def test_torch_and_numpy_agree() -> None:
    torch = pytest.importorskip("torch")
    training = pytest.importorskip("skipjack.learn.training.network")
    arrays = random_weights(ROW, MACHINE, ACTIONS)
    rows, present, cursor, machine = states(40)
    everything = torch.ones((40, ACTIONS), dtype=torch.bool)
    tensors = (torch.from_numpy(x) for x in (rows, present, cursor, machine))
    with torch.no_grad():
        logits, worth = training.imported(arrays)(training.Batch(*tensors, everything))
    ours, value = PolicyNetwork(arrays).forward_many(rows, present, cursor, machine)
    assert np.abs(ours - logits.numpy()).max() < 1e-5
    assert np.abs(value - worth.numpy()).max() < 1e-5


def test_many_states_are_as_one_by_one() -> None:
    network = PolicyNetwork(random_weights(ROW, MACHINE, ACTIONS))
    rows, present, cursor, machine = states(20)
    many, worth = network.forward_many(rows, present, cursor, machine)
    for at in range(20):
        logits, value = network.forward(rows[at], present[at], int(cursor[at]), machine[at])
        assert np.allclose(logits, many[at], atol=1e-5)
        assert value == pytest.approx(worth[at], abs=1e-5)


def test_rows_that_are_padding_change_nothing() -> None:
    network = PolicyNetwork(random_weights(ROW, MACHINE, ACTIONS))
    rows, present, cursor, machine = states(5)
    other = np.where(present[:, :, None], rows, np.float32(7))
    one, _ = network.forward_many(rows, present, cursor, machine)
    two, _ = network.forward_many(other, present, cursor, machine)
    assert np.allclose(one, two, atol=1e-5)


def test_illegal_actions_have_no_probability() -> None:
    logits = np.array([5.0, 1.0, 1.0], np.float32)
    found = log_probabilities(logits, np.array([False, True, True]))
    assert found.tolist() == pytest.approx([-np.inf, np.log(0.5), np.log(0.5)])
    several = log_probabilities(np.stack([logits, logits]), np.array([[True] * 3, [False] * 3]))
    assert np.exp(several[0]).sum() == pytest.approx(1.0)
    assert np.isneginf(several[1]).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"row_out.weight": np.zeros((3, 3), np.float32)}, "row_out.weight of the policy is"),
        ({"extra": np.zeros(3, np.float32)}, "unknown array extra"),
        ({"worth.bias": np.full(1, np.nan, np.float32)}, "worth.bias .* not finite"),
        ({"logits.bias": np.zeros(ACTIONS)}, "logits.bias of the policy is float64"),
    ],
)
def test_arrays_of_another_network_are_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        PolicyNetwork(random_weights(ROW, MACHINE, ACTIONS) | change)
    with pytest.raises(UsageError, match=r"no matrix trunk.weight"):
        PolicyNetwork(
            {n: x for n, x in random_weights(ROW, MACHINE, ACTIONS).items() if n != "trunk.weight"}
        )
