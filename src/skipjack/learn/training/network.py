"""The network that plays loop games, in torch, for training.

`skipjack.learn.policy.network` computes the same with NumPy from the arrays of `exported`, which
have the names of the layers here. An input is a matrix with one row per loop, which rows are
present, the cursor's row, and a vector about the nest and the machine. With ``linear(x)`` for
``x @ weight.T + bias`` and ``scaled(x)`` for ``x / sqrt(mean(x * x) + 1e-6)`` along the last axis:

- rows become ``x = relu(row_out(relu(row_in(row)) ))`` plus ``context(machine)`` plus a learned
  vector each for the distance to the cursor (``from_cursor``, -8 to 8), to the outermost loop
  (``from_top``) and to the innermost (``from_bottom``, both up to 15);
- each of the ``layers`` adds attention, then a small network:
  ``x = x + out(softmax(query(y) @ key(y).T / sqrt(size)) @ value(y))`` with ``y = scaled(x)``, in
  four heads and over the rows that are present, then ``x = x + lower(relu(upper(scaled(x))))``;
- with ``y = scaled(x)`` the mean and the maximum over rows, the rows at the cursor, above and below
  it (zeros if there is none) and ``context(machine)`` are joined in this order, and
  ``h = relu(trunk(joined))`` gives ``logits(h)`` (for DQN the values of actions) and ``worth(h)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

HEADS = 4
MOST_FROM_CURSOR = 8
MOST_FROM_END = 15
FORBIDDEN = -1e9
"""The logit of an illegal action: its probability is exactly 0 in float32."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The network's input for several states."""

    rows: Tensor
    """States x loops x features."""
    present: Tensor
    """States x loops: whether a row is a loop and not padding."""
    cursor: Tensor
    machine: Tensor
    """States x features of the nest and the machine."""
    mask: Tensor
    """States x actions: which are legal."""

    def __getitem__(self, chosen: Any) -> Batch:
        return Batch(
            self.rows[chosen],
            self.present[chosen],
            self.cursor[chosen],
            self.machine[chosen],
            self.mask[chosen],
        )

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class NetworkSizes:
    """The sizes of a network."""

    row: int
    machine: int
    actions: int
    width: int = 64
    trunk: int = 128
    layers: int = 2


class _Layer(nn.Module):
    """Attention between loops, then a small network on each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.upper = nn.Linear(width, 2 * width)
        self.lower = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        states, loops, width = x.shape
        y = _scaled(x)
        size = width // HEADS
        query, key, value = (
            each(y).view(states, loops, HEADS, size).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        weights = query @ key.transpose(2, 3) / size**0.5
        weights = weights.masked_fill(~present[:, None, None, :], FORBIDDEN).softmax(dim=3)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(states, loops, width))
        feed: Tensor = self.lower(torch.relu(self.upper(_scaled(x))))
        return x + feed


class LoopBody(nn.Module):
    """The network up to ``trunk``; see the text at the top of this file."""

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__()
        width = sizes.width
        self.row_in = nn.Linear(sizes.row, width)
        self.row_out = nn.Linear(width, width)
        self.context = nn.Linear(sizes.machine, width)
        self.from_cursor = nn.Embedding(2 * MOST_FROM_CURSOR + 1, width)
        self.from_top = nn.Embedding(MOST_FROM_END + 1, width)
        self.from_bottom = nn.Embedding(MOST_FROM_END + 1, width)
        self.layers = nn.ModuleList(_Layer(width) for _ in range(sizes.layers))
        self.trunk = nn.Linear(6 * width, sizes.trunk)
        with torch.no_grad():
            for table in (self.from_cursor, self.from_top, self.from_bottom):
                table.weight.mul_(0.1)

    def features(self, batch: Batch) -> Tensor:
        """The features from which logits and values are computed."""
        context = self.context(batch.machine)
        x = self.row_out(torch.relu(self.row_in(batch.rows))).relu() + context[:, None, :]
        x = x + self._places(batch)
        for layer in self.layers:
            x = layer(x, batch.present)
        return torch.relu(self.trunk(self._joined(_scaled(x), batch, context)))

    def _places(self, batch: Batch) -> Tensor:
        at = torch.arange(batch.rows.shape[1])[None, :]
        from_cursor = (at - batch.cursor[:, None]).clamp(-MOST_FROM_CURSOR, MOST_FROM_CURSOR)
        from_bottom = (batch.present.sum(dim=1)[:, None] - 1 - at).clamp(0, MOST_FROM_END)
        places: Tensor = self.from_cursor(from_cursor + MOST_FROM_CURSOR)
        places = places + self.from_top(at.clamp(max=MOST_FROM_END))
        bottom: Tensor = self.from_bottom(from_bottom)
        return places + bottom

    @staticmethod
    def _joined(y: Tensor, batch: Batch, context: Tensor) -> Tensor:
        there = batch.present[:, :, None]
        y = y * there
        mean = y.sum(dim=1) / there.sum(dim=1).clamp(min=1)
        largest = y.masked_fill(~there, FORBIDDEN).amax(dim=1).clamp(min=-1e6)
        states = torch.arange(len(y))
        padded = nn.functional.pad(y, (0, 0, 1, 1))  # a row of zeros above and below
        near = [padded[states, batch.cursor + shift] for shift in (1, 0, 2)]
        return torch.cat([mean, largest, *near, context], dim=1)


class LoopNetwork(LoopBody):
    """The whole network: logits of actions and the value (`worth`) of a state."""

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__(sizes)
        self.logits = nn.Linear(sizes.trunk, sizes.actions)
        self.worth = nn.Linear(sizes.trunk, 1)
        with torch.no_grad():
            self.logits.weight.mul_(0.01)  # nearly equal probabilities at first

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits, with `FORBIDDEN` for illegal actions, and the value of each state."""
        h = self.features(batch)
        logits = self.logits(h).masked_fill(~batch.mask, FORBIDDEN)
        return logits, self.worth(h)[:, 0]


def exported(network: nn.Module) -> dict[str, NDArray[np.float32]]:
    """The weights as plain arrays by the names of layers."""
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}


def sizes_of(arrays: Mapping[str, NDArray[Any]]) -> NetworkSizes:
    """The sizes of the network with these weights."""
    width, row = arrays["row_in.weight"].shape
    return NetworkSizes(
        row=row,
        machine=arrays["context.weight"].shape[1],
        actions=arrays["logits.weight"].shape[0],
        width=width,
        trunk=arrays["trunk.weight"].shape[0],
        layers=sum(name.endswith(".query.weight") for name in arrays),
    )


def imported(arrays: Mapping[str, NDArray[Any]]) -> LoopNetwork:
    """The network with these weights."""
    network = LoopNetwork(sizes_of(arrays))
    network.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
    return network


def _scaled(x: Tensor) -> Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt()
