"""Which config a decorated kernel is launched with, given what is known."""

from skipjack.core.trial import Status
from skipjack.integrations.autotune_results import KnownConfigs
from skipjack.integrations.call_tuning import decide
from skipjack.integrations.outcomes import Outcome

CONFIGS = {"a": "config a", "b": "config b", "c": "config c"}
CRASH = {"a": Outcome(Status.CRASH, "it fell")}


def test_the_fastest_that_was_timed_is_launched() -> None:
    decision = decide(CONFIGS, KnownConfigs({"a": 3e6, "b": 1e6}, {}), fresh=True)
    assert (decision.best, decision.fresh) == ("config b", True)
    assert decision.times_ms == {"config a": 3.0, "config b": 1.0}


def test_times_of_configs_that_are_not_offered_decide_nothing() -> None:
    assert decide(CONFIGS, KnownConfigs({"other": 1.0, "c": 5.0}, {})).best == "config c"


def test_one_that_failed_is_not_launched_where_another_was_timed() -> None:
    decision = decide(CONFIGS, KnownConfigs({"c": 2e6}, CRASH))
    assert decision.best == "config c"
    assert decision.failures == {"config a": "it fell"}


def test_where_nothing_is_known_the_first_is_launched() -> None:
    assert decide(CONFIGS, KnownConfigs()).best == "config a"
