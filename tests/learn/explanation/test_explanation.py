"""What models learned: importance, effects, what pruning loses, and families of shapes."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from modelled_trials import problems, trials_of
from skipjack.learn.explanation import (
    KEPT,
    Order,
    family_of,
    feature_effects,
    feature_shares,
    kept_qualities,
)
from skipjack.learn.explanation.pruning import _expected_best
from skipjack.learn.ranker import ProblemRows, describe_trials, fit_ranker, problem_rows
from skipjack.operations import parse


@pytest.fixture(scope="module")
def parts() -> list[ProblemRows]:
    return [part for problem in problems(24) for part in problem_rows(trials_of(problem))]


def test_shares_fall_and_add_up_to_one(parts: list[ProblemRows]) -> None:
    shares = [one.share for one in feature_shares(fit_ranker(parts))]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0, abs=1e-3)


def test_the_effect_of_packing_is_that_of_the_made_up_times(parts: list[ProblemRows]) -> None:
    (effect,) = feature_effects(fit_ranker(parts), parts, ["config.pack_a"])
    assert effect.values == (0.0, 1.0)
    packed = effect.ratios[1] / effect.ratios[0]
    assert packed == pytest.approx(1.1, abs=0.04)
    assert all(low <= high for low, high in zip(effect.low, effect.high, strict=True))


def test_a_feature_with_one_value_has_no_effect(parts: list[ProblemRows]) -> None:
    assert feature_effects(fit_ranker(parts), parts, ["units"]) == []


def test_the_more_is_kept_the_less_is_lost(parts: list[ProblemRows]) -> None:
    found = kept_qualities(parts, 3)
    assert {one.order for one in found} == set(Order)
    for order in Order:
        rows = [one for one in found if one.order is order]
        assert [one.kept for one in rows] == list(KEPT)
        means = [one.mean for one in rows]
        assert means == sorted(means)
        assert 0.0 < means[0] <= means[-1] <= 1.0
        assert {one.problems for one in rows} == {24}
    first = {one.order: one.mean for one in found if one.kept == 1}
    assert first[Order.RANKER] > first[Order.RANDOM]


def test_the_expected_best_is_exact() -> None:
    falling = np.array([1.0, 0.5, 0.25])
    assert _expected_best(falling, 1) == pytest.approx(falling.mean())
    assert _expected_best(falling, 2) == pytest.approx((2 * 1.0 + 0.5) / comb(3, 2))
    assert _expected_best(falling, 7) == 1.0


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("matmul:1x512x512", "matrix times vector"),
        ("matmul:8x512x512", "few rows"),
        ("matmul:512x8x512", "few columns"),
        ("matmul:64x64x4096", "deep"),
        ("matmul:4096x64x64", "tall"),
        ("matmul:64x4096x64", "wide"),
        ("matmul:500x300x400", "nearly square"),
        ("conv2d:n1c64h56w56k64y3x3p1q1", "3x3"),
        ("conv2d:n1c64h56w56k64y1x1u2v2", "1x1, strided"),
        ("conv2d:n1c64h56w56k64y7x7p3q3", "larger than 3x3"),
        ("conv2d:n1c64h56w56k64y3x3p1q1g64", "depthwise"),
        ("conv2d:n1c64h56w56k64y3x3p1q1g4", "grouped, 3x3"),
        ("conv3d:n1c8d8h8w8k8z3y3x3", "3x3x3"),
        ("sum:64x64/axis=0", "sum"),
    ],
)
def test_families(key: str, family: str) -> None:
    assert family_of(parse(key)) == family


def test_a_card_changes_with_the_trials() -> None:
    some = [trials_of(problem) for problem in problems(3)]
    assert describe_trials(some)["digest"] == describe_trials(some[::-1])["digest"]
    assert describe_trials(some)["digest"] != describe_trials(some[:2])["digest"]
