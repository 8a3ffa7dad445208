"""What players of episodes need, as a value that travels to other processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import overload

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.learn.loops import LoopGame, Preset, loop_game
from skipjack.learn.rates import open_rates
from skipjack.learn.training.episodes import Player
from skipjack.operations import parse
from skipjack.reading import read_json


@dataclass(frozen=True, slots=True)
class PlayerSetup:
    """Which games are played, and where their times are from."""

    problems: tuple[str, ...]
    """Keys."""
    device: Device
    preset: Preset
    rates: str
    steps: int
    """Most actions of an episode."""

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, data: bytes) -> PlayerSetup:
        """What `to_bytes` gave."""
        return read_json(data, "the setup of a player").of(cls)

    def player(self) -> Player:
        """One that plays here; close its rates where they can be closed."""
        problems = [parse(key) for key in self.problems]
        rates = open_rates(self.rates, self.device)
        games = _LazyGames(problems, self.device, self.preset)
        return Player(problems, games, rates, self.steps)


class _LazyGames(Sequence[LoopGame]):
    """Games of problems, each made when it is first played: a dataset may have thousands."""

    def __init__(self, problems: Sequence[Problem], device: Device, preset: Preset) -> None:
        self._problems, self._device, self._preset = problems, device, preset
        self._made: dict[int, LoopGame] = {}

    def __len__(self) -> int:
        return len(self._problems)

    @overload
    def __getitem__(self, at: int) -> LoopGame: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[LoopGame]: ...

    def __getitem__(self, at: int | slice) -> LoopGame | Sequence[LoopGame]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        if at not in self._made:
            self._made[at] = loop_game(self._problems[at], self._device, self._preset)
        return self._made[at]
