"""Policies: names, numbers and words of MIOpen's; the narrower one is in force; no exceptions."""

import threading
from collections.abc import Iterator

import pytest

import skipjack
from skipjack.runtime.process import current_policy, make_policy, policy, program

VARIABLES = (
    *("SKIPJACK_FIND_ENFORCE", "SKIPJACK_FIND_MODE", "SKIPJACK_TUNING_SECONDS"),
    *("SKIPJACK_TUNING_BACKGROUND", "SKIPJACK_REGRET", "SKIPJACK_TUNING_SEARCHERS"),
)


_FIND_MODES = (("1", "normal"), ("FAST", "fast"), ("hybrid", "hybrid"), ("5", "dynamic_hybrid"))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has just begun, here and for those that come after."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(program, "_said", set())
    monkeypatch.setattr(policy, "_set", None)
    policy.environment_policy.cache_clear()
    yield
    policy.environment_policy.cache_clear()


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        *(("off", "off"), ("db", "db"), ("1", "db"), ("NONE", "db"), (1, "db")),
        *(("refresh", "refresh"), ("2", "refresh"), ("DB_UPDATE", "refresh"), (2, "refresh")),
        *(("incremental", "incremental"), ("3", "incremental"), ("SEARCH", "incremental")),
        *(("exhaustive", "exhaustive"), (4, "exhaustive"), ("SEARCH_DB_UPDATE", "exhaustive")),
        *(("clean", "clean"), ("5", "clean"), ("db-clean", "clean"), (" Clean ", "clean")),
    ],
)
def test_modes_have_names_and_what_miopen_calls_them(
    monkeypatch: pytest.MonkeyPatch, given: str | int, mode: str
) -> None:
    with skipjack.tuning_policy(given):
        assert current_policy().mode == mode
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", str(given))
    assert current_policy().mode == mode


@pytest.mark.parametrize("given", ["0", "6", "always", "3.0", 7, None, True, object(), ["3"]])
def test_what_means_nothing_is_one_warning_and_nothing_is_measured(
    given: object, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with skipjack.tuning_policy(given):  # type: ignore[arg-type]
            assert current_policy() == policy.DEFAULT
    (record,) = caplog.records
    assert "which is not valid: nothing is measured; write one of 1 db" in record.getMessage()
    assert record.getMessage().startswith("the argument mode is ")


def test_a_warning_names_the_variable_or_the_argument(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "x")
    monkeypatch.setenv("SKIPJACK_TUNING_SECONDS", "0")
    current_policy()
    policy.make_policy(3, seconds=0, find_mode="quick")
    assert [message.partition(" is ")[0] for message in caplog.messages] == [
        *("SKIPJACK_FIND_ENFORCE", "SKIPJACK_TUNING_SECONDS"),
        *("the argument find_mode", "the argument seconds"),
    ]


def test_nothing_is_measured_unless_somebody_says_so() -> None:
    assert current_policy().mode == "db"
    assert not current_policy().measures


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "3")
    assert current_policy().mode == "incremental"
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "4")
    assert current_policy().mode == "incremental"


def test_a_block_outranks_the_call_which_outranks_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "4")
    skipjack.set_tuning_policy("db")
    assert current_policy().mode == "db"
    with skipjack.tuning_policy("incremental", seconds=2):
        assert (current_policy().mode, current_policy().seconds) == ("incremental", 2.0)
        with skipjack.tuning_policy("off"):
            assert current_policy().mode == "off"
        skipjack.set_tuning_policy("refresh")
        assert current_policy().mode == "incremental"
    assert current_policy().mode == "refresh"
    skipjack.set_tuning_policy(None)
    assert current_policy().mode == "exhaustive"


def test_a_block_ends_where_it_raises() -> None:
    with pytest.raises(KeyError), skipjack.tuning_policy("off"):
        raise KeyError
    assert current_policy().mode == "db"


def test_a_block_is_of_its_thread_and_the_call_of_all() -> None:
    seen: list[str] = []

    def ask() -> None:
        seen.append(current_policy().mode)

    skipjack.set_tuning_policy("incremental")
    with skipjack.tuning_policy("off"):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert seen == ["incremental"]


def test_find_modes_count_where_the_mode_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, name in _FIND_MODES:
        monkeypatch.setenv("SKIPJACK_FIND_MODE", given)
        policy.environment_policy.cache_clear()
        assert current_policy().find_mode == name
        assert current_policy().measures == (name != "fast")
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "3")
    policy.environment_policy.cache_clear()
    assert not current_policy().finds


def test_an_explicit_db_measures_nothing_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SKIPJACK_FIND_MODE", "hybrid")
    with skipjack.tuning_policy("db"):
        assert not current_policy().measures


def test_seconds_background_and_regret_are_of_the_environment_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "3")
    monkeypatch.setenv("SKIPJACK_TUNING_SECONDS", "1.5")
    monkeypatch.setenv("SKIPJACK_TUNING_BACKGROUND", "1")
    monkeypatch.setenv("SKIPJACK_REGRET", "2.5%")
    found = current_policy()
    assert (found.seconds, found.background, found.regret) == (1.5, True, 0.025)


@pytest.mark.parametrize(
    "given",
    [
        *({"seconds": -1}, {"seconds": "soon"}, {"seconds": float("nan")}),
        *({"regret": "150%"}, {"regret": "some"}, {"regret": 0}),
        *({"find_mode": "quick"}, {"background": "maybe"}),
    ],
)
def test_other_values_that_mean_nothing_are_left_out(
    given: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    assert policy.make_policy("incremental", **given) == policy.TuningPolicy("incremental")
    assert policy.make_policy("incremental", **given).measures
    assert len(caplog.records) == 1


def test_decorated_kernels_are_tuned_unless_a_policy_or_the_switch_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert policy.mode_of_decorated("on") == "incremental"
    assert policy.mode_of_decorated("off") == "db"
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "1")
    policy.environment_policy.cache_clear()
    assert policy.mode_of_decorated("on") == "db"
    with skipjack.tuning_policy("exhaustive"):
        assert policy.mode_of_decorated("off") == "exhaustive"


def test_a_policy_names_the_searcher_for_each_class_of_operations() -> None:
    usual = make_policy("incremental")
    assert usual.searcher_for("cube") == usual.searcher_for("vector") == "auto"
    learned = make_policy("incremental", "vector=policy")
    assert learned.searcher_for("vector") == "policy" and learned.searcher_for("cube") is None
    assert learned == make_policy("incremental", {"vector": "policy"}) != usual
    assert learned.key != usual.key


@pytest.mark.parametrize("given", ["cube", "tube=genetic", {"cube": ""}, 7])
def test_searchers_that_mean_nothing_are_warned_about(
    given: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert make_policy("incremental", given).searcher_for("cube") == "auto"
    assert "write classes with their searchers, as cube=genetic,vector=policy" in caplog.text
