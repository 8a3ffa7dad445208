"""Pinned settings: what is searched, what is banked, what lookups return."""

import pickle
from pathlib import Path

import pytest

import skipjack
from skipjack.bank import PERF, Bank, pinned_kind
from skipjack.core import Budget, Config, Parameter, ParameterSpace, Value
from skipjack.errors import SpaceError, UsageError
from skipjack.integrations.triton.configs import ListedSpace
from skipjack.operations import parse
from skipjack.solvers import only_solvers, pinned_space, read_pins
from skipjack.testing.fake_tuning import FAKE_DEVICE, FakeContext, FakeLibrary, FakeSolver, tiles
from skipjack.tuning.study import TuneOptions, TuneOutcome, TuneResult
from skipjack.tuning.tuner import run_tune

PROBLEM = parse("add:64")
TWO = ParameterSpace(
    [Parameter("tile", (1, 2, 4, 8)), Parameter("safe", (False, True))],
    ["tile < 8 or not safe"],
)


def costs(solver: str, config: Config) -> float:
    """A library of 500 ns; safe configs are slow, larger tiles are fast."""
    if solver == "library":
        return 500.0
    return (3000.0 if config.get("safe") else 1000.0) / int(config.get("tile", 1))


def tuned(context: FakeContext, **pinned: Value) -> TuneResult:
    options = TuneOptions(budget=Budget(trials=12), pinned=pinned)
    return run_tune(context, PROBLEM, options)


def test_only_configs_with_the_pinned_settings_are_tried() -> None:
    with only_solvers(FakeSolver("ours", TWO), FakeSolver("other", tiles())):
        result = tuned(FakeContext(costs), safe=True)
    assert {trial.config["tile"] for trial in result.trials} == {1, 2, 4}
    assert all(trial.config["safe"] is True for trial in result.trials)
    assert result.best == Config(tile=4, safe=True) and result.status is TuneOutcome.BANKED
    assert result.pinned == {"safe": "true"} == result.to_json()["pinned"]
    assert [score.solver for score in result.solvers] == ["ours"], "the other has no such setting"


@pytest.mark.parametrize("pinned_first", [True, False])
def test_a_pinned_result_is_banked_beside_the_best_of_all(pinned_first: bool) -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours", TWO), FakeLibrary()):
        for pinned in (pinned_first, not pinned_first):
            result = tuned(context, safe=True) if pinned else tuned(context)
            assert result.status is TuneOutcome.BANKED, "a library has no settings to pin"
            assert ("library is faster" in result.reason) is pinned
    kinds = {key[2]: entry for key, entry in context.bank.entries.items()}
    assert set(kinds) == {PERF, "perf safe=true"}
    assert dict(kinds[PERF].config) == {"tile": 8, "safe": False}
    assert not kinds[PERF].evidence.pinned
    assert dict(kinds["perf safe=true"].config) == {"tile": 4, "safe": True}
    assert kinds["perf safe=true"].evidence.pinned == {"safe": "true"}


def test_a_pinned_study_is_one_of_its_own_and_goes_on() -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours", TWO)):
        tuned(context)
        tuned(context, safe=True)
        again = tuned(context, safe="true")  # as it is spelled
    studies = context.ledger.studies(PROBLEM.key)
    assert len(studies) == 2 and again.status is TuneOutcome.KEPT and not again.trials


@pytest.mark.parametrize(
    ("pinned", "told"),
    [
        ({"nothing": 1}, "has nothing=1: in ours tile is 1/2/4/8, safe is false/true"),
        ({"tile": 3}, "has tile=3: in ours tile is 1/2/4/8"),
        ({"tile": 8, "safe": True}, "has safe=true and tile=8: in ours tile is 1/2/4/8, safe is"),
    ],
)
def test_what_no_config_has_is_refused_with_what_there_is(
    pinned: dict[str, Value], told: str
) -> None:
    with only_solvers(FakeSolver("ours", TWO)), pytest.raises(UsageError) as caught:
        tuned(FakeContext(costs), **pinned)
    assert told in str(caught.value)


def test_a_value_may_stand_for_its_setting() -> None:
    space = ParameterSpace(
        [Parameter("program", ("one_pass", "two_pass")), Parameter("rows", (1, 2))]
    )
    context = FakeContext(lambda _, config: 100.0 * int(config["rows"]))
    with only_solvers(FakeSolver("ours", space)):
        result = tuned(context, two_pass=True)
        assert result.pinned == {"program": "two_pass"}
        assert {trial.config["program"] for trial in result.trials} == {"two_pass"}
        assert {key[2] for key in context.bank.entries} == {"perf program=two_pass"}
        with pytest.raises(UsageError, match=r"has three_pass=true: in ours program"):
            tuned(context, three_pass=True)
        with pytest.raises(UsageError, match=r"has two_pass=false"):
            tuned(context, two_pass=False)


def test_pins_are_banked_in_one_spelling() -> None:
    context = FakeContext(costs)
    with only_solvers(FakeSolver("ours", TWO)):
        assert tuned(context, safe="True").pinned == {"safe": "true"}
        assert {key[2] for key in context.bank.entries} == {"perf safe=true"}


def test_a_setting_that_is_pinned_twice_is_refused() -> None:
    space = ParameterSpace([Parameter("program", ("one_pass", "two_pass"))])
    with (
        only_solvers(FakeSolver("ours", space)),
        pytest.raises(UsageError, match="program is pinned to one_pass and to two_pass"),
    ):
        tuned(FakeContext(costs), program="one_pass", two_pass=True)


def test_pins_are_read_from_words() -> None:
    assert read_pins(["program=two_pass", " rows = 4"]) == {"program": "two_pass", "rows": "4"}
    for wrong in (["rows"], ["=4"], ["rows="], ["rows=1", "rows=2"]):
        with pytest.raises(UsageError):
            read_pins(wrong)
    texts = {pinned_kind(pins) for pins in ({}, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "1 b=2"})}
    assert len(texts) == 4


def test_a_part_of_a_space_is_a_space() -> None:
    part = pinned_space(TWO, {"safe": "true"})
    assert isinstance(part, ParameterSpace) and part.count() == 3 and TWO.count() == 7
    assert part.contains(part.default()) and part.digest != TWO.digest
    assert not part.contains(Config(tile=1, safe=False))
    listed = ListedSpace([{"block": 1, "warps": 4}, {"block": 2, "warps": 4}, {"block": 2}])
    assert pinned_space(listed, {"block": "2", "warps": "4"}).default()["block"] == 2
    with pytest.raises(SpaceError):
        pinned_space(listed, {"block": "1", "warps": "8"})


def test_lookups_that_pin_are_given_such_kernels(user_dir: Path) -> None:
    pinned = {"program": "two_pass"}
    proposed = skipjack.lookup("layernorm:8x64", pinned=pinned)
    assert proposed is not None and proposed.source == "proposal" and proposed.solver == "rows"
    assert skipjack.lookup("layernorm:8x64", pinned=pinned) is proposed
    assert skipjack.lookup("layernorm:8x64", pinned=pinned, strict=True) is None
    result = skipjack.tune("layernorm:8x64", budget=2, pinned=pinned)
    assert result.best["program"] == "two_pass"
    found = skipjack.lookup("layernorm:8x64", pinned=pinned, strict=True)
    assert found is not None and found.source == "user"
    assert pickle.loads(pickle.dumps(found)).digest == found.digest
    assert pickle.loads(pickle.dumps(result.kernel())).digest == result.kernel().digest
    plain = skipjack.lookup("layernorm:8x64", strict=True)
    assert plain is None, "what was pinned is no answer to who pins nothing"
    (entry,) = Bank.open(user_dir).entries()
    assert entry.kind == pinned_kind(pinned) and entry.device != FAKE_DEVICE.class_key
