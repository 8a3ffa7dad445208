"""A gain is confirmed if it is there, and hardly ever if it is not."""

import numpy as np
import pytest

from skipjack.execute.confirm import ALPHA, LOOKS, MIN_EFFECT, confirm
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
    monkeypatch.setattr("skipjack.execute.confirm._CHEAP_S", 0.0)
    session = contest(0.5, 0, 0.01, 0.0, 0.0)
    result = confirm(session, CHALLENGER, [RIVAL])
    assert session.rounds == LOOKS[0]
    assert result.confirmed(RIVAL)


def test_no_costly_look_is_begun_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipjack.execute.confirm._WORTH_S", 0.0)
    session = contest(MIN_EFFECT, 0, 0.01, 0.0, 0.0)
    confirm(session, CHALLENGER, [RIVAL], stop=lambda: True)
    assert session.rounds == LOOKS[1]


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
    monkeypatch.setattr("skipjack.execute.confirm._CHEAP_S", 0.0)
    monkeypatch.setattr("skipjack.execute.confirm._WORTH_S", 0.0)
    rounds = set()
    for seed in range(40):
        session = contest(0.5, seed, 0.01, 0.0, 0.4)
        assert confirm(session, CHALLENGER, [RIVAL], stop=lambda: True).confirmed(RIVAL)
        rounds.add(session.rounds)
    assert len(rounds) > 1, "some had to look again"
