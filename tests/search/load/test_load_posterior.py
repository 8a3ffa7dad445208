"""Beliefs about a limit, run by run."""

from __future__ import annotations

import pytest

from skipjack.search.load.posterior import LoadPosterior


def told(*runs: tuple[float, bool], holds: float = 0.5) -> LoadPosterior:
    """From 100 to 1000, after these runs."""
    posterior = LoadPosterior(100, 1000, holds=holds)
    for load, held in runs:
        posterior.add(load, held)
    return posterior


def test_the_chance_to_hold_falls_with_the_load() -> None:
    posterior = told((300, True), (500, False))
    chances = [posterior.chance(load) for load in (100, 200, 300, 400, 500, 700, 1000)]
    assert chances == sorted(chances, reverse=True)


def test_runs_move_the_limit_their_way() -> None:
    def median(posterior: LoadPosterior) -> float:
        return float(posterior.quantiles([0.5])[0])

    nothing = median(told())
    assert nothing == pytest.approx((100 * 1000) ** 0.5, rel=0.01)
    assert median(told((300, True))) > nothing
    assert median(told((300, False))) < nothing


def test_the_order_of_runs_does_not_matter() -> None:
    runs = [(300.0, True), (500.0, False), (400.0, True), (350.0, False)]
    shares = [0.05, 0.5, 0.95]
    one, other = told(*runs).quantiles(shares), told(*runs[::-1]).quantiles(shares)
    assert one == pytest.approx(other)


def test_the_most_is_learnt_between_what_held_and_what_did_not() -> None:
    gains = told((300, True), (500, False)).gains([150, 390, 900])
    assert gains.argmax() == 1
    assert (gains >= -1e-9).all()


def test_limits_outside_of_the_range_are_noticed() -> None:
    assert told((100, False), (100, False), (100, False)).below > 0.9
    assert told((1000, True), (1000, True), (1000, True)).above > 0.9
    inside = told((300, True), (500, False))
    assert inside.below + inside.above < 0.1


def test_a_higher_share_that_must_hold_means_a_lower_limit() -> None:
    runs = [(380.0, True), (400.0, True), (400.0, False), (420.0, False)] * 4
    half, most = told(*runs), told(*runs, holds=0.9)
    assert most.quantiles([0.5])[0] < half.quantiles([0.5])[0]


def test_nothing_is_safe_where_nothing_holds() -> None:
    assert told((100, False), (100, False)).safe(0.95) is None
    assert told(*[(1000, True)] * 12).safe(0.5) == 1000
    some = told(*[(400, True), (500, False)] * 4)
    safe = some.safe(0.95)
    assert safe is not None and 200 < safe < 420
