"""Entries are timed again after a change of compiler: renewed, or replaced."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.bank import REPLACED, Bank, BankEntry
from skipjack.core import Budget, Config, Status, deployed_protocol
from skipjack.errors import SkipjackError
from skipjack.operations import parse
from skipjack.runtime.local_kernels import why_stale
from skipjack.solvers import only_solvers
from skipjack.testing.fake_tuning import (
    COMPILER,
    FAKE_DEVICE,
    FakeContext,
    FakeLibrary,
    FakeSolver,
    tiles,
)
from skipjack.testing.sessions import Behaviour, FakeKernel
from skipjack.tuning.study import TuneOptions, TuneOutcome
from skipjack.tuning.tuner import run_tune, run_verify

PROBLEM = parse("add:64")
OPTIONS = TuneOptions(budget=Budget(trials=4), searcher="exhaustive")
OLD = "llvm-1.0.0/llvmlite-0.0.1"
EAGER = deployed_protocol(FAKE_DEVICE, "eager")


def costs(given: Mapping[int | str, float | FakeKernel]) -> Behaviour:
    def behaviour(solver: str, config: Config) -> float | FakeKernel:
        return given.get(int(config["tile"]) if "tile" in config else solver, 1000.0)

    return behaviour


@pytest.fixture(autouse=True)
def solvers() -> Iterator[None]:
    with only_solvers(FakeSolver("ours", tiles(8)), FakeLibrary("theirs")):
        yield


class Setting:
    """A bank of stale entries, and machines whose kernels take other times than they took."""

    def __init__(self, folder: Path) -> None:
        self.bank = Bank.open(folder)

    def context(self, given: Mapping[int | str, float | FakeKernel]) -> FakeContext:
        context = FakeContext(costs({"theirs": 900.0, **given}))
        context.bank = self.bank  # type: ignore[assignment]
        return context

    def tuned_before(self, *tiles: int) -> list[BankEntry]:
        """Each was the fastest of its time, the last one the fastest of all."""
        for tile in tiles:
            time_ns = 500.0 - 10 * tile
            run_tune(self.context({tile: time_ns}), PROBLEM, OPTIONS)
        (held,) = self.bank.entries()
        known = [replace(one, toolchain=OLD) for one in self.bank.ranked(*held.key)]
        self.bank.path.unlink()
        self.bank.add(known)
        return known


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def test_a_stale_entry_that_is_still_the_best_is_confirmed_and_renewed(setting: Setting) -> None:
    (old,) = setting.tuned_before(4)
    assert why_stale(old)
    context = setting.context({4: 400.0})
    result = run_verify(context, PROBLEM, OPTIONS)
    assert result.status is TuneOutcome.KEPT and result.best == Config(tile=4)
    (now,) = setting.bank.entries()
    assert (now.config, now.toolchain) == ({"tile": 4}, COMPILER)
    assert now.evidence[REPLACED]["met"] == "stale" and not why_stale(now)
    assert old in setting.bank.ranked(*old.key), "it stays as a prior"
    configs = {candidate.config for candidate in context.pool.built}
    assert configs <= {Config(tile=1), Config(tile=4)}, "nothing but the default is built besides"
    assert [v.status for v in context.ledger.decisions(PROBLEM.key)] == ["banked"]


def test_a_stale_entry_gives_way_to_the_next_best_that_is_faster_now(setting: Setting) -> None:
    setting.tuned_before(3, 4)
    result = run_verify(setting.context({3: 300.0, 4: 600.0}), PROBLEM, OPTIONS)
    assert result.status is TuneOutcome.BANKED
    (now,) = setting.bank.entries()
    assert (now.config, now.toolchain) == ({"tile": 3}, COMPILER)
    assert now.evidence[REPLACED]["met"] == "slower"


@pytest.mark.parametrize("kernel", [FakeKernel(4.0, build=Status.BUILD_ERROR), 5000.0])
def test_a_stale_entry_that_fails_or_is_slow_now_is_demoted(
    setting: Setting, kernel: float | FakeKernel
) -> None:
    setting.tuned_before(4)
    run_verify(setting.context({4: kernel}), PROBLEM, OPTIONS)
    (now,) = setting.bank.entries()
    assert now.config != {"tile": 4} and not why_stale(now)


def test_a_search_renews_a_stale_entry_that_it_keeps(setting: Setting) -> None:
    setting.tuned_before(4)
    result = run_tune(setting.context({4: 400.0}), PROBLEM, OPTIONS)
    assert result.status is TuneOutcome.KEPT
    assert setting.bank.entries()[0].toolchain == COMPILER
    before = setting.bank.path.read_bytes()
    assert run_tune(setting.context({4: 400.0}), PROBLEM, OPTIONS).status is TuneOutcome.KEPT
    assert setting.bank.path.read_bytes() == before, "what is fresh is left as it is"


def test_an_entry_of_another_deployment_is_where_a_search_starts_and_no_incumbent(
    setting: Setting,
) -> None:
    setting.tuned_before(7)
    context = setting.context({7: 700.0})
    context.protocol = EAGER
    asked = TuneOptions(budget=Budget(trials=2), searcher="random")
    result = run_tune(context, PROBLEM, asked)
    assert Config(tile=7) in [trial.config for trial in result.trials]
    assert result.status is not TuneOutcome.KEPT
    deployments = {one.deployed: one.config for one in setting.bank.entries()}
    assert set(deployments) == {"native/hot", "eager/hot"}


def test_what_the_bank_does_not_know_cannot_be_verified(setting: Setting) -> None:
    with pytest.raises(SkipjackError, match="has no entry of add:64:f32"):
        run_verify(setting.context({}), PROBLEM, OPTIONS)


def test_a_fresh_entry_gives_way_to_a_default_that_is_no_slower(setting: Setting) -> None:
    run_tune(setting.context({4: 400.0}), PROBLEM, OPTIONS)
    context = setting.context({1: 594.0, 4: 600.0})
    result = run_verify(context, PROBLEM, OPTIONS)
    assert result.status is TuneOutcome.RESERVED and result.best == Config(tile=1)
    (now,) = setting.bank.entries()
    assert now.config == {"tile": 1} and now.evidence[REPLACED]["met"] == "slower"
    assert run_verify(context, PROBLEM, OPTIONS).status is TuneOutcome.KEPT


def test_a_fresh_entry_that_gains_less_than_it_claims_is_kept_with_new_evidence(
    setting: Setting,
) -> None:
    run_tune(setting.context({4: 400.0}), PROBLEM, OPTIONS)
    result = run_verify(setting.context({1: 660.0, 4: 600.0}), PROBLEM, OPTIONS)
    assert result.status is TuneOutcome.KEPT and result.best == Config(tile=4)
    (now,) = setting.bank.entries()
    assert now.config == {"tile": 4} and now.speedup["default"]["ratio"] < 1.2
    assert now.evidence[REPLACED]["met"] == "again"
