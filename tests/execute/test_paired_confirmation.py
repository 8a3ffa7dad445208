"""A gain is confirmed if there is one, and hardly ever if there is none."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from skipjack.execute import ALPHA, LOOKS, MIN_EFFECT, Block, Failure, confirm
from skipjack.testing.sessions import NullSession

CHALLENGER, RIVAL = 1, 2
NOISES = pytest.mark.parametrize(
    ("noise", "drift", "disturbance"), [(0.01, 0.0, 0.0), (0.02, 0.2, 0.3), (0.02, 0.2, 0.7)]
)


def contest(gain: float, seed: int, noise: float, drift: float, disturbance: float) -> NullSession:
    costs = {CHALLENGER: 1000.0, RIVAL: 1000.0 * (1.0 + gain)}
    return NullSession(costs, np.random.default_rng(seed), noise, drift, disturbance)


@NOISES
@pytest.mark.parametrize("gain", [0.0, MIN_EFFECT])
def test_a_gain_that_is_not_worth_having_is_confirmed_in_less_than_alpha_of_cases(
    gain: float, noise: float, drift: float, disturbance: float
) -> None:
    repeats = 300
    confirmed = sum(
        confirm(contest(gain, seed, noise, drift, disturbance), CHALLENGER, [RIVAL]).confirmed(
            RIVAL
        )
        for seed in range(repeats)
    )
    assert confirmed <= ALPHA * repeats


@NOISES
def test_a_gain_of_five_percent_is_confirmed(
    noise: float, drift: float, disturbance: float
) -> None:
    for seed in range(50):
        session = contest(0.05, seed, noise, drift, disturbance)
        result = confirm(session, CHALLENGER, [RIVAL])
        assert result.confirmed(RIVAL)
        assert not result.beaten_by(RIVAL)
        assert result.gains[RIVAL].low <= 1.06


def test_a_clear_case_of_quick_kernels_is_decided_at_the_second_look() -> None:
    session = contest(0.5, 0, 0.01, 0.0, 0.0)
    confirm(session, CHALLENGER, [RIVAL])
    assert session.rounds == LOOKS[1]


def test_a_clear_case_of_slow_kernels_is_decided_at_the_first_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skipjack.execute.confirmation._CHEAP_S", 0.0)
    session = contest(0.5, 0, 0.01, 0.0, 0.0)
    result = confirm(session, CHALLENGER, [RIVAL])
    assert session.rounds == LOOKS[0]
    assert result.confirmed(RIVAL)


def test_no_costly_look_is_begun_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipjack.execute.confirmation._WORTH_S", 0.0)
    session = contest(MIN_EFFECT, 0, 0.01, 0.0, 0.0)
    confirm(session, CHALLENGER, [RIVAL], stop=lambda: True)
    assert session.rounds == LOOKS[0]


def test_a_close_case_uses_all_looks_and_pairs_stay_pairs() -> None:
    session = contest(MIN_EFFECT, 0, 0.01, 0.0, 0.0)
    result = confirm(session, CHALLENGER, [RIVAL])
    assert session.rounds == LOOKS[-1]
    rounds = [block.round for block in result.blocks[RIVAL]]
    assert rounds == list(range(LOOKS[-1]))


def test_a_faster_rival_is_noticed() -> None:
    result = confirm(contest(-0.3, 0, 0.01, 0.0, 0.0), CHALLENGER, [RIVAL])
    assert result.beaten_by(RIVAL)
    assert not result.confirmed(RIVAL)


def test_a_rival_that_crashes_is_not_beaten() -> None:
    session = contest(0.5, 0, 0.01, 0.0, 0.0)
    session.failing = frozenset({RIVAL})
    result = confirm(session, CHALLENGER, [RIVAL])
    assert not result.confirmed(RIVAL)
    assert [failure.kernel for failure in result.failures] == [RIVAL]
    assert set(result.blocks) == {CHALLENGER}


def test_a_challenger_that_crashes_wins_nothing() -> None:
    session = contest(0.5, 0, 0.01, 0.0, 0.0)
    session.failing = frozenset({CHALLENGER})
    result = confirm(session, CHALLENGER, [RIVAL])
    assert not result.blocks
    assert not result.confirmed(RIVAL)


def test_few_pairs_confirm_nothing() -> None:
    result = confirm(contest(0.5, 0, 0.01, 0.0, 0.0), CHALLENGER, [RIVAL], most=3)
    assert not result.confirmed(RIVAL)
    assert result.gains[RIVAL].ratio > 1.4


def test_too_many_disturbed_pairs_are_made_up_for_also_where_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skipjack.execute.confirmation._CHEAP_S", 0.0)
    monkeypatch.setattr("skipjack.execute.confirmation._WORTH_S", 0.0)
    rounds = set()
    for seed in range(40):
        session = contest(0.5, seed, 0.01, 0.0, 0.4)
        assert confirm(session, CHALLENGER, [RIVAL], stop=lambda: True).confirmed(RIVAL)
        rounds.add(session.rounds)
    assert len(rounds) > 1, "some had to look again"


BUSY = pytest.mark.parametrize(
    ("quick_ns", "slow_ns"),
    [(1e5, 6e5), (2e5, 3e6), (1.5e6, 1.2e7)],
    ids=["all short", "one as long as a time slice", "one longer than that"],
)


def busy(quick_ns: float, slow_ns: float, seed: int) -> NullSession:
    """Another process wants the same core every 3 ms: long calls are hit far more often."""
    costs = {CHALLENGER: quick_ns, RIVAL: slow_ns}
    return NullSession(costs, np.random.default_rng(seed), 0.02, 0.1, interrupted_every_ns=3e6)


@BUSY
def test_on_a_busy_machine_the_true_gain_lies_in_the_interval(
    quick_ns: float, slow_ns: float
) -> None:
    repeats, truth = 100, slow_ns / quick_ns
    gains = [
        confirm(busy(quick_ns, slow_ns, seed), CHALLENGER, [RIVAL]).gains[RIVAL]
        for seed in range(repeats)
    ]
    stated = [gain for gain in gains if gain.supported]
    assert len(stated) > repeats / 2, "it can be told on most days"
    assert all(gain.noisy for gain in gains if not gain.supported)
    assert sum(gain.low <= truth <= gain.high for gain in stated) >= 0.95 * len(stated)


@pytest.mark.parametrize("cost_ns", [1e5, 3e6, 8e6])
def test_on_a_busy_machine_what_is_slower_is_confirmed_in_less_than_alpha_of_cases(
    cost_ns: float,
) -> None:
    repeats = 150
    confirmed = [
        confirm(busy(cost_ns, cost_ns * 0.99, seed), CHALLENGER, [RIVAL]).confirmed(RIVAL)
        for seed in range(repeats)
    ]
    assert sum(confirmed) <= ALPHA * repeats


def test_a_machine_that_is_never_quiet_is_called_noisy() -> None:
    session = busy(1e5, 1e8, 0)
    result = confirm(session, CHALLENGER, [RIVAL])
    assert result.noisy(RIVAL)
    assert not result.confirmed(RIVAL)
    assert not result.beaten_by(RIVAL)
    assert session.rounds == 4 * LOOKS[-1], "it was tried for long"


class Wild(NullSession):
    """A machine on which the rival takes now 100 and now 10,000 times as long, unnoticed."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        found: list[Block] = []
        for at in range(blocks):
            self.costs_ns[RIVAL] = 1000.0 * (100.0 if self.rounds % 2 else 10_000.0)
            timed, _ = super().time(kernels, 1)
            found += [replace(block, round=at) for block in timed]
        return found, []


def test_a_gain_that_may_be_anything_is_called_noisy() -> None:
    session = Wild({CHALLENGER: 1000.0, RIVAL: 1000.0}, np.random.default_rng(0))
    result = confirm(session, CHALLENGER, [RIVAL])
    gain = result.gains[RIVAL]
    assert gain.low > 50.0 and gain.high > 50.0 * gain.low
    assert result.noisy(RIVAL)
    assert not result.confirmed(RIVAL) and not result.beaten_by(RIVAL)
    assert session.rounds == LOOKS[-1], "more rounds might have told"
