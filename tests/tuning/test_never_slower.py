"""Never slower than the default: ten thousand simulated tunings through the deciding test."""

from collections.abc import Iterator
from dataclasses import replace
from math import comb

import numpy as np
import pytest

from skipjack.core import Budget, Candidate, Config
from skipjack.execute import ALPHA, confirm
from skipjack.interrupt import Interrupt
from skipjack.operations import parse
from skipjack.solvers import only_solvers
from skipjack.testing.fake_tuning import FakeContext, FakeSolver, tiles
from skipjack.testing.sessions import NullSession
from skipjack.tuning.study import (
    Contenders,
    Decision,
    LoadedCandidate,
    StudyRun,
    TuneOptions,
    TuneOutcome,
    TuneStrategy,
)
from skipjack.tuning.study.conclusion import hold_final

RACES = 10_000
DEFAULT, WINNER = 1, 2
PROBLEM = parse("add:64")


@pytest.fixture(scope="module")
def race() -> Iterator[Contenders]:
    """A search that is over, with a winner and a default; only their times are made up."""
    options = TuneOptions(budget=Budget(trials=2), searcher="exhaustive")
    with only_solvers(FakeSolver("ours", tiles(2))):
        context = FakeContext(lambda solver, config: 1000.0)
        run = StudyRun(context, PROBLEM, options, Interrupt(), TuneStrategy())
        run.prepare()
        run.search()
        winner, default = (loaded(tile, kernel) for tile, kernel in ((2, WINNER), (1, DEFAULT)))
        contenders = hold_final(run)
        assert contenders is not None
        yield replace(contenders, winner=winner, default=default, vendors={})


def loaded(tile: int, kernel: int) -> LoadedCandidate:
    return LoadedCandidate(Candidate(PROBLEM, "ours", Config(tile=tile)), kernel)


def outcome(race: Contenders, winner_ns: float, rng: np.random.Generator) -> TuneOutcome:
    """A winner of this time next to a default of 1000 ns, on some machine."""
    session = NullSession(
        {DEFAULT: 1000.0, WINNER: winner_ns},
        rng,
        noise=float(rng.choice([0.002, 0.01, 0.03])),
        drift=float(rng.choice([0.0, 0.02])),
        disturbance=float(rng.choice([0.0, 0.0, 0.2])),
    )
    confirmation = confirm(session, WINNER, [DEFAULT], clock=session.clock)
    return Decision(race, confirmation).outcome()


def test_what_is_truly_slower_is_banked_more_seldom_than_the_stated_alpha(
    race: Contenders,
) -> None:
    """All these winners are slower; some look faster when they win, and are tested once more."""
    rng = np.random.default_rng(7)
    slower = 1000.0 * (1.0 + np.abs(rng.normal(0.0, 0.01, RACES)))
    losses = [ns / 1000.0 - 1.0 for ns in slower if outcome(race, ns, rng) is TuneOutcome.BANKED]
    assert _chance_of_so_few(len(losses), RACES, ALPHA) < 1e-3, len(losses)
    assert np.mean([0.0, *losses]) < 0.01


def test_what_is_clearly_faster_is_banked(race: Contenders) -> None:
    rng = np.random.default_rng(11)
    outcomes = [outcome(race, 1000.0 / gain, rng) for gain in rng.uniform(1.05, 2.0, 300)]
    assert outcomes.count(TuneOutcome.BANKED) > 0.9 * len(outcomes)


def _chance_of_so_few(seen: int, count: int, probability: float) -> float:
    """The probability of at most this many among `count` events."""
    return sum(
        comb(count, k) * probability**k * (1.0 - probability) ** (count - k)
        for k in range(seen + 1)
    )
