"""The limits of the engine: each has a sentence, users set theirs, and a run respects them."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skipjack.core import Budget
from skipjack.errors import UsageError
from skipjack.operations import parse
from skipjack.settings import Settings
from skipjack.solvers import only_solvers
from skipjack.testing.fake_tuning import FakeContext, FakeSolver, tiles
from skipjack.tuning import Tuner, config_timer, find_run
from skipjack.tuning.study import (
    LIMITS,
    Limits,
    TuneOptions,
    conclusion,
    decision,
    engine,
    evaluator,
    final,
    kernel_evaluator,
    loaded_candidate,
    rounds,
    run,
    solver_search,
    strategy,
)
from skipjack.tuning.tuner import run_tune

ROOT = Path(__file__).parents[2]
UNITS = ("seconds", "_s", "_ns", "_share", "_ratio", "_tie", "_drift", "_sharpness", "_gib")
COUNTS = ("trials", "configs", "candidates", "leaders", "winners", "finalists", "blocks", "calls")
SHARES = ("alpha", "min_effect")
"""The usual names of statistics."""


def test_each_has_a_sentence_a_unit_and_a_script_that_exists_if_one_is_named() -> None:
    for one in LIMITS.records():
        assert one["meaning"].endswith("."), one
        assert one["name"].endswith((*UNITS, *COUNTS, *SHARES, "kernels", "rounds", "pairs")), one
        assert not one["measured_by"] or (ROOT / one["measured_by"]).is_file(), one


def test_no_other_file_of_the_engine_has_numbers_of_its_own() -> None:
    modules = (
        *(
            config_timer,
            decision,
            engine,
            final,
            find_run,
            kernel_evaluator,
            loaded_candidate,
            evaluator,
        ),
        *(solver_search, strategy, rounds, run, conclusion),
    )
    for module in modules:
        text = Path(str(module.__file__)).read_text()
        constants = [
            line for line in text.splitlines() if line[:1].isupper() or line.startswith("_")
        ]
        numbers = [line for line in constants if "= " in line and line.split("= ")[1][0].isdigit()]
        assert numbers == []
        assert not re.search(r"[<>] \d+e\d|\d+ <<", text), "a threshold within a function"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"finalist": 3}, "did you mean finalists"),
        ({"patience_ratio": 3.0}, "'patience_ratio' cannot be set"),
        ({"finalists": 0}, "finalists is 0; give a whole number above 0"),
        ({"finalists": 2.5}, "finalists is 2.5; give a whole number above 0"),
        ({"finalists": True}, "finalists is True"),
        ({"finalists": 10**9}, "give at most 10,000"),
        ({"finish_at_least_s": 1e6}, "give at most 86,400"),
        ({"nonsense": 1}, "choose from tune_seconds"),
        ({"search_share": 1.5}, "give a share between 0 and 1"),
        ({"tune_seconds": "long"}, "tune_seconds is 'long'; give a number above 0"),
        ({"tune_seconds": float("nan")}, "give a number above 0"),
    ],
)
def test_a_wrong_limit_is_refused_in_a_sentence_that_names_the_file(
    given: dict[str, object], complaint: str
) -> None:
    with pytest.raises(UsageError, match=f"^/home/me/config.toml: limit .*{complaint}"):
        Limits.of(Settings(Path("/home/me"), limits=given))


def test_a_tuner_takes_them_from_the_settings_unless_others_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"finalists": 9, "tune_seconds": 1, "find_seconds": 2}
    tuner = Tuner(Settings(tmp_path, limits=limits))
    tuner.context.opened = True
    used = _options_of_runs(monkeypatch)
    tuner.tune("add:64")
    tuner.tune("add:64", TuneOptions(seed=3))
    tuner.find("add:64", TuneOptions(seed=3))
    own = replace(Limits(), tune_seconds=8)
    tuner.tune("add:64", TuneOptions(limits=own))
    tuner.tune("add:64", TuneOptions(limits=Limits(), budget=Budget(trials=4)))
    assert [one.budget for one in used] == [
        *(Budget(seconds=1), Budget(seconds=1), Budget(seconds=2)),
        *(Budget(seconds=8), Budget(trials=4)),
    ]
    assert [one.chosen_limits.finalists for one in used] == [9, 9, 9, 6, 6]


def _options_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[TuneOptions]:
    """The options of each tuning and find from now on; none of them does anything."""
    used: list[TuneOptions] = []
    for name in ("run_tune", "run_find"):
        monkeypatch.setattr(
            f"skipjack.tuning.tuner.{name}", lambda _, problem, options, *rest: used.append(options)
        )
    return used


def test_options_without_a_budget_take_that_of_their_limits() -> None:
    options = TuneOptions(limits=replace(Limits(), tune_seconds=8))
    assert options.chosen_budget == Budget(seconds=8)
    assert TuneOptions().chosen_budget == Budget(seconds=LIMITS.tune_seconds)


def test_limits_of_a_wrong_type_are_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"limits is \{'finalists': 8\}; write"):
        TuneOptions(limits={"finalists": 8})  # type: ignore[arg-type]


def test_a_run_keeps_to_them() -> None:
    def timed_last(limits: Limits) -> int:
        context = FakeContext(lambda solver, config: 1000.0 + int(config["tile"]))
        timed: list[int] = []
        real = context.session.time

        def time(kernels: list[int], blocks: int) -> object:
            timed.append(len(kernels) if blocks == limits.final_blocks else 0)
            return real(kernels, blocks)

        context.session.time = time  # type: ignore[method-assign, assignment]
        run_tune(context, parse("add:64"), TuneOptions(budget=Budget(trials=12), limits=limits))
        return max(timed)

    with only_solvers(FakeSolver("ours", tiles(12))):
        assert timed_last(replace(Limits(), finalists=3, final_blocks=7)) == 3
        assert timed_last(replace(Limits(), finalists=8, final_blocks=7)) == 8


def test_the_command_lists_them(user_dir: Path) -> None:
    from skipjack.cli.main import app

    user_dir.mkdir()
    (user_dir / "config.toml").write_text("[limits]\nfinalists = 9\n")
    runner = CliRunner()
    records = json.loads(runner.invoke(app, ["limits", "--json"]).stdout)["limits"]
    names = [one["name"] for one in records]
    assert names[:-3] == [one.name for one in fields(Limits)]
    assert names[-3:] == ["alpha", "min_effect", "confirm_pairs"], "those of the confirmation"
    assert {one["name"]: one["value"] for one in records}["finalists"] == 9
    shown = runner.invoke(app, ["limits"]).stdout
    assert "yours to set" in shown and "bench/start_well.py" in shown
