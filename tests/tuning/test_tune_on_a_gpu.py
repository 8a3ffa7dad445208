"""A whole tuning on a GPU, a fake one: the same loop, the same ledger and bank."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack import plugins
from skipjack.core.study import Budget
from skipjack.core.trial import Status
from skipjack.settings import Settings
from skipjack.testing.fake_gpu import DEVICE
from skipjack.tuning import Outcome, TuneOptions, Tuner, TuneResult

PLUGIN = Path(__file__).with_name("fake_gpu_solver.py")
FATES = {
    "slow": Status.OK,
    "right": Status.OK,
    "wrong": Status.WRONG,
    "behind": Status.WRONG,
    "fault": Status.CRASH,
    "fault_later": Status.CRASH,
    "hang": Status.TIMEOUT,
    "memory": Status.OUT_OF_MEMORY,
}
EVERYTHING = TuneOptions(budget=Budget(trials=len(FATES)), searcher="exhaustive")


@pytest.fixture(scope="module")
def gpu_tuner(home: Path) -> Iterator[Tuner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, "")
        plugins.load((str(PLUGIN),))
        patch.setenv(plugins.VARIABLE, str(PLUGIN))
        made = Tuner(Settings(home), DEVICE)
        made.workshop.protocol = replace(made.workshop.protocol, call_timeout_s=0.7)
        with made:
            yield made


@pytest.fixture(scope="module")
def result(gpu_tuner: Tuner) -> TuneResult:
    return gpu_tuner.tune("add:4096", EVERYTHING)


def test_every_config_becomes_a_trial_with_its_status(result: TuneResult) -> None:
    assert {trial.config["behaviour"]: trial.status for trial in result.trials} == FATES


def test_the_fast_one_wins_and_is_banked_for_the_gpu(result: TuneResult, gpu_tuner: Tuner) -> None:
    assert result.status is Outcome.BANKED
    assert result.best["behaviour"] == "right"
    assert result.speedup.default.ratio == pytest.approx(3.0)
    entry = gpu_tuner.workshop.bank.lookup("add:4096:f32", DEVICE.class_key)
    assert entry is not None
    assert entry.config == {"behaviour": "right"}


def test_measurements_say_how_gpus_are_timed(result: TuneResult, gpu_tuner: Tuner) -> None:
    (study,) = gpu_tuner.workshop.ledger.studies("add:4096:f32")
    assert '"caches":"rotating"' in study.protocol
