"""Which config a decorated kernel is launched with, given what is known of its call."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")
from autotune_rig import THREE, config

from skipjack.core import Config, Device, Problem, Status, Trial, call_protocol
from skipjack.integrations.triton.choices import ListedChoices
from skipjack.integrations.triton.configs import config_text
from skipjack.integrations.triton.results import AutotunePlace, KnownCall

PLACE = AutotunePlace(
    Problem("autotune", (), "", (("source", "00"),), shape_text="add_one"),
    Device("cuda", "sm_90", 132),
    call_protocol(),
    "graph",
)
CHOICES = ListedChoices(PLACE, THREE, seconds=None)


def block(number: int) -> Config:
    return Config.from_key(config_text(config(number)))


def timed(number: int, time_ns: float) -> Trial:
    return Trial(block(number), value=time_ns)


def test_the_fastest_that_an_earlier_version_timed_is_launched() -> None:
    known = KnownCall(trials=(timed(64, 3e6), timed(128, 1e6)), is_earlier=True)
    best = CHOICES.best(known)
    assert best == block(128)
    decision = CHOICES.decision(known, best)
    assert (decision.best, decision.fresh) == (THREE[1], False)
    assert decision.times_ms == {THREE[0]: 3.0, THREE[1]: 1.0}


def test_a_verdict_counts_for_more_than_times() -> None:
    trials = (timed(64, 3e6), timed(128, 1e6))
    assert CHOICES.best(KnownCall(trials=trials, verdicts=(block(64),))) == block(64)


def test_times_without_a_verdict_count_only_where_nothing_can_be_timed() -> None:
    known = KnownCall(trials=(timed(64, 3e6), timed(128, 1e6)))
    assert CHOICES.best(known) is None
    assert CHOICES.best(known, unconfirmed=True) == block(128)


def test_times_and_verdicts_of_configs_that_are_not_offered_decide_nothing() -> None:
    known = KnownCall(trials=(timed(512, 1.0), timed(256, 5.0)), verdicts=(block(512),))
    assert CHOICES.best(known, unconfirmed=True) == block(256)


def test_one_that_failed_is_not_launched_where_another_was_timed() -> None:
    failed = Trial(block(64), Status.CRASH, reason="it fell")
    known = KnownCall(trials=(failed, timed(256, 2e6)))
    best = CHOICES.best(known, unconfirmed=True)
    assert best == block(256)
    assert CHOICES.decision(known, best).failures == {THREE[0]: "it fell"}


def test_where_nothing_is_known_all_are_to_be_tried_and_the_first_is_the_default() -> None:
    assert CHOICES.best(KnownCall(), unconfirmed=True) is None
    assert not CHOICES.is_searched(KnownCall())
    assert list(CHOICES.space.enumerate()) == [block(64), block(128), block(256)]
    assert CHOICES.default == block(64)
