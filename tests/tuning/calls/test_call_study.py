"""Calls of this process are tuned without a GPU or a compiler, in a fake session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from skipjack.core import Budget, Config, Status, Study, TimingProtocol, Trial
from skipjack.execute import Block, Failure
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.testing.fake_tuning import FAKE_DEVICE, MemoryBank, tiles
from skipjack.testing.sessions import FakeClock, NullSession
from skipjack.tuning.calls import CallContext, CallResult, CallSearch, CallsLostError, tune_call
from skipjack.tuning.study import TuneOutcome

PROBLEM = parse("add:64")
Cost = Callable[[int], float]


@dataclass
class Calls:
    """Calls that cost what a function of the tile says; some do not build, or stop working."""

    cost: Cost
    drift: float = 0.0
    disturbance: float = 0.0
    unbuildable: frozenset[int] = frozenset()
    lasting: Mapping[int, int] = field(default_factory=dict)
    """How many rounds of timing a tile survives."""
    losing: frozenset[int] = frozenset()
    """Calls with these break the device."""
    built: list[list[int]] = field(default_factory=list)
    rounds: dict[int, int] = field(default_factory=dict)
    """How often each tile was timed."""

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        rng = np.random.default_rng(0)
        self._timer = NullSession({}, rng, 0.002, self.drift, self.disturbance, clock=self.clock)
        self._tiles: dict[int, int] = {}

    def build(self, configs: Sequence[Config]) -> Mapping[Config, Trial]:
        self.built.append([int(one["tile"]) for one in configs])
        return {
            one: Trial(one, Status.BUILD_ERROR, reason="no such tile")
            for one in configs
            if one["tile"] in self.unbuildable
        }

    def add(self, config: Config) -> int:
        tile = int(config["tile"])
        if tile in self.losing:
            raise CallsLostError("the device is lost", config)
        number = len(self._tiles)
        self._tiles[number] = tile
        self._timer.costs_ns[number] = self.cost(tile)
        return number

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        failures = []
        for number in kernels:
            tile = self._tiles[number]
            self.rounds[tile] = self.rounds.get(tile, 0) + blocks
            if self.rounds[tile] > self.lasting.get(tile, 10**9):
                failures.append(Failure(number, Status.ERROR, "the launch failed"))
        alive = [one for one in kernels if one not in {failure.kernel for failure in failures}]
        timed, further = self._timer.time(alive, blocks)
        return timed, [*failures, *further]

    def unload(self, kernel: int) -> None:
        pass


@dataclass
class Rig:
    """A study of these calls, with its ledger and its bank."""

    calls: Calls
    count: int = 8
    ledger: Ledger = field(default_factory=Ledger.in_memory)
    bank: MemoryBank = field(default_factory=MemoryBank)

    def tune(self, known: tuple[Trial, ...] = ()) -> CallResult:
        space = tiles(self.count)
        protocol = TimingProtocol()
        context = CallContext(
            self.calls, FAKE_DEVICE, protocol, self.ledger, self.bank, clock=self.calls.clock
        )
        study = Study(PROBLEM, "calls", FAKE_DEVICE.class_key, "exhaustive", 0, protocol=protocol)
        wish = CallSearch(
            *(PROBLEM, "calls", 1, study, space, Config({"tile": 1})),
            Budget(trials=self.count),
            all=True,
            known=known,
        )
        return tune_call(context, wish)


def test_the_fastest_wins_though_the_clock_drifts() -> None:
    rig = Rig(Calls(lambda tile: 1000.0 + 30.0 * abs(tile - 5), drift=0.05))
    verdict = rig.tune()
    assert verdict.best == Config({"tile": 5})
    assert set(verdict.times_ns) == {Config({"tile": tile}) for tile in range(1, 9)}


def test_hopeless_configs_are_timed_less_than_those_near_the_best() -> None:
    rig = Rig(Calls(lambda tile: {5: 1000.0, 1: 1040.0}.get(tile, 5000.0)))
    assert rig.tune().best == Config({"tile": 5})
    hopeless = [times for tile, times in rig.calls.rounds.items() if tile not in (1, 5)]
    assert len(hopeless) == 6
    assert max(hopeless) < min(rig.calls.rounds[1], rig.calls.rounds[5])


def test_disturbed_rounds_put_no_config_out() -> None:
    rig = Rig(Calls(lambda tile: 900.0 if tile == 3 else 1000.0, disturbance=0.3))
    assert rig.tune().best == Config({"tile": 3})


def test_a_config_alone_is_timed_and_chosen_and_claims_no_gain() -> None:
    rig = Rig(Calls(lambda tile: 1000.0), count=1)
    verdict = rig.tune()
    assert verdict.best == Config({"tile": 1})
    assert verdict.outcome is TuneOutcome.RESERVED
    (entry,) = rig.bank.entries.values()
    assert (dict(entry.config), entry.speedup["default"]["ratio"]) == ({"tile": 1}, 1.0)


def test_configs_that_fail_have_a_reason_and_the_others_go_on() -> None:
    calls = Calls(lambda tile: 1000.0 / tile, unbuildable=frozenset({8}), lasting={7: 1})
    verdict = Rig(calls).tune()
    assert verdict.best == Config({"tile": 6})
    assert verdict.reasons == {
        Config({"tile": 8}): "no such tile",
        Config({"tile": 7}): "the launch failed",
    }
    assert Config({"tile": 7}) not in verdict.times_ns


def test_where_nothing_runs_nothing_is_chosen() -> None:
    verdict = Rig(Calls(lambda tile: 1000.0, unbuildable=frozenset(range(1, 9)))).tune()
    assert verdict.best is None
    assert verdict.outcome is TuneOutcome.FAILED
    assert len(verdict.reasons) == 8


def test_a_winner_enters_the_bank_with_its_samples_and_the_ledger_with_a_verdict() -> None:
    rig = Rig(Calls(lambda tile: 1000.0 / tile))
    verdict = rig.tune()
    assert verdict.outcome is TuneOutcome.BANKED
    (entry,) = rig.bank.entries.values()
    assert dict(entry.config) == {"tile": 8}
    assert entry.speedup["default"]["low"] > 4
    assert entry.evidence
    (record,) = rig.ledger.decisions()
    assert (record.outcome, dict(record.config)) == ("banked", {"tile": 8})


def test_a_lost_device_ends_the_study_and_keeps_what_was_timed() -> None:
    rig = Rig(Calls(lambda tile: 1000.0 / tile, losing=frozenset({40})), count=40)
    with pytest.raises(CallsLostError, match="the device is lost"):
        rig.tune()
    assert not rig.bank.entries
    measured = {one.status for one in rig.ledger.measurements(PROBLEM.key)}
    assert {Status.OK, Status.CRASH} <= measured


def test_what_earlier_runs_tried_is_not_built_again() -> None:
    rig = Rig(Calls(lambda tile: 1000.0 / tile))
    known = tuple(Trial(Config({"tile": t}), Status.OK, 1000.0 / t) for t in (1, 2, 3))
    assert rig.tune(known).best == Config({"tile": 8})
    built = {tile for batch in rig.calls.built for tile in batch}
    assert 2 not in built and {4, 5, 6, 7, 8} <= built
