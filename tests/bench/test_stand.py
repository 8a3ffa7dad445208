"""The stand shares its time out: every kernel in every round, slow ones in fewer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skipjack.native import cpu
from stand import PEAK, Plan, Stand

CORE = cpu.usable_cores()[-1:]


class Fake:
    """A kernel that says how long it took and counts its calls."""

    def __init__(self, time_ns: float) -> None:
        self.time_ns, self.calls = time_ns, 0

    def call(self) -> None:
        self.calls += 1

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        self.calls += calls * samples
        return np.full(samples, self.time_ns)


def test_every_kernel_runs_in_every_round() -> None:
    kernels = {"a": Fake(1e5), "b": Fake(2e5)}
    rounds = Stand(cpu.detect(), CORE).time(kernels, Plan(rounds=10, samples=2, sample_ns=1000))
    assert {len(rounds.blocks[name]) for name in ("a", "b", PEAK)} == {rounds.count}
    assert rounds.count >= 10
    assert rounds.ratio("b", "a").ratio == 2.0


def test_slow_kernels_get_fewer_rounds_but_never_too_few() -> None:
    plan = Plan(rounds=50, samples=4, sample_ns=1000, seconds=0.5)
    kernels = {"fast": Fake(1e4), "slow": Fake(5e7), "slowest": Fake(1e9)}
    rounds = Stand(cpu.detect(), CORE).time(kernels, plan)
    counts = {name: len(blocks) for name, blocks in rounds.blocks.items()}
    assert counts["slowest"] == 4
    assert 8 <= counts["slow"] == counts["fast"] < 50
    assert all(len(block.samples_ns) == 1 for block in rounds.blocks["slow"])
