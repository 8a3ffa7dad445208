"""Times from tables come back exactly; what tables lack is estimated, and counted as such."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from pathlib import Path

import numpy as np
import pytest

from skipjack.core import Device, Problem
from skipjack.core.timing import cpu_protocol
from skipjack.errors import MalformedError, UsageError
from skipjack.learn.costs import shipped_model
from skipjack.learn.loops import Preset, loop_game
from skipjack.learn.rates import (
    LoopTable,
    MixedRates,
    ModelRates,
    TableHeader,
    TableRates,
    gflops,
    open_rates,
    peak_gflops,
    write_table,
)
from skipjack.native import cpu, describe
from skipjack.operations import parse
from skipjack.settings import load_settings
from skipjack.solvers.cpu.nest import Schedule

DEVICE = describe("skylake-avx512/1")
PROBLEM = parse("matmul:64x48x32")
KNOWN, FAILED, NEW = (Schedule.parse(text) for text in ("m k n", "m n k", "k m n"))


class LengthModel:
    """Estimates that a schedule takes as many microseconds as its text has letters."""

    def log_seconds(
        self, problem: Problem, device: Device, schedules: Sequence[Schedule]
    ) -> list[float]:
        return [log(1e-6 * len(schedule.text())) for schedule in schedules]


def table() -> LoopTable:
    found = LoopTable(TableHeader(DEVICE, "llvm 20", cpu_protocol().key))
    found.add(PROBLEM.key, "nest", {KNOWN.text(): 10_000.0, FAILED.text(): None})
    return found


def test_a_table_is_replayed_exactly_and_what_it_lacks_is_scaled_to_it() -> None:
    rates = TableRates(table(), LengthModel())
    assert rates.seconds(PROBLEM, [KNOWN, FAILED, NEW]) == [1e-5, None, pytest.approx(1e-5)]
    assert rates.sources == {"replayed": 2, "estimated": 1}
    rates.seconds(PROBLEM, [NEW, KNOWN])
    assert rates.measured == 3


@pytest.mark.parametrize("text", ["m k z", "m:7/v/v"])
def test_a_table_with_schedules_of_other_loops_is_refused(text: str) -> None:
    strange = table()
    strange.add(PROBLEM.key, "nest", {text: 5_000.0})
    rates = TableRates(strange, shipped_model())
    with pytest.raises(MalformedError, match=r"invalid schedules of matmul:64x48x32:f32"):
        rates.seconds(PROBLEM, [NEW])


def test_without_a_model_what_a_table_lacks_has_no_time_and_is_counted() -> None:
    rates = TableRates(table())
    assert rates.seconds(PROBLEM, [NEW, KNOWN]) == [None, 1e-5]
    assert rates.sources == {"unknown": 1, "replayed": 1}


def test_mixed_rates_ask_the_same_of_each_whoever_asks() -> None:
    schedules = [Schedule.parse(f"m:{step} k n m") for step in range(2, 60)]
    apart = [
        MixedRates(TableRates(table()), ModelRates(LengthModel(), DEVICE), 0.3) for _ in range(2)
    ]
    all_at_once = apart[0].seconds(PROBLEM, schedules)
    one_by_one = [apart[1].seconds(PROBLEM, [schedule])[0] for schedule in schedules]
    assert all_at_once == one_by_one
    assert apart[0].sources == apart[1].sources
    assert 5 < apart[0].sources["estimated"] < 30
    assert apart[0].measured == len(schedules)


def test_mixed_rates_close_those_that_measure() -> None:
    class Closed(TableRates):
        closed = False

        def close(self) -> None:
            self.closed = True

    measuring = Closed(table())
    MixedRates(ModelRates(LengthModel(), DEVICE), measuring, 0.3).close()
    assert measuring.closed


def test_rates_are_opened_by_a_text(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_table(path, table())
    for text in (str(path), str(tmp_path)):
        assert open_rates(text, DEVICE).seconds(PROBLEM, [KNOWN]) == [1e-5]
    assert open_rates(f"exactly:{path}", DEVICE).seconds(PROBLEM, [NEW]) == [None]
    (estimated,) = open_rates("model", DEVICE).seconds(PROBLEM, [NEW])
    assert estimated is not None
    assert estimated > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere.jsonl", "unknown rates 'nowhere.jsonl'"),
        ("mixed:much", "'much' is not a number"),
        ("{}", "contains no tables"),
    ],
)
def test_a_text_that_names_no_rates_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        open_rates(text.format(tmp_path), DEVICE)


def test_a_table_of_another_device_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "t.jsonl", table())
    with pytest.raises(
        UsageError, match=r"haswell/1 \(256-bit\); it has tables of skylake-avx512/1"
    ):
        open_rates(str(tmp_path), describe("haswell/1"))


def test_max_gflops_takes_the_place_of_the_measured_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_GFLOPS", "123.5")
    assert peak_gflops(PROBLEM, DEVICE) == 123.5
    assert load_settings(max_gflops=7.0).max_gflops == 7.0
    for wrong in ("fast", "0", "-3", "inf"):
        monkeypatch.setenv("MAX_GFLOPS", wrong)
        with pytest.raises(UsageError, match="MAX_GFLOPS"):
            load_settings()


def test_rates_are_flops_over_seconds() -> None:
    assert gflops(PROBLEM, 1e-6) == pytest.approx(2 * 64 * 48 * 32 * 1e-3)
    assert gflops(PROBLEM, None) == 0.0


def test_an_estimate_does_not_depend_on_what_else_is_asked_for() -> None:
    problem, device = parse("matmul:48x64x80"), cpu.detect(1)
    game = loop_game(problem, device, Preset.LOOPTUNE)
    state, schedules = game.start(), []
    rng = np.random.default_rng(0)
    for _ in range(40):
        state = game.apply(state, int(rng.choice(np.flatnonzero(game.mask(state)))))
        schedules.append(game.built(state))
    together = open_rates("model", device).seconds(problem, schedules)
    alone = [open_rates("model", device).seconds(problem, [one])[0] for one in schedules]
    assert together == alone
