"""Searches start from what related devices and near problems found."""

from dataclasses import replace
from math import inf

import pytest

from skipjack.bank import BankEntry
from skipjack.core import Config, Device, Parameter, ParameterSpace, Status, Study, Trial
from skipjack.ledger import BankedConfig, Ledger
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.testing.fake_tuning import FakeContext
from skipjack.tuning.study.related import (
    DeviceDistances,
    prior_trials,
    relatives_of,
    relatives_winners,
)
from skipjack.tuning.study.solver_search import starting_points

PROBLEM = parse("matmul:64x64x64")
HASWELL, SKYLAKE = describe("haswell/1"), describe("skylake-avx512/1")
SPACE = ParameterSpace([Parameter("n", tuple(range(8))), Parameter("m", (1, 2, 4))])


def entry(device: Device, n: int, problem: str = PROBLEM.key) -> BankEntry:
    config = {"n": n, "m": 1}
    return BankEntry(
        *(problem, device.class_key, device.name, "nest", 1, config, 9.0, 9.0, None, "", {})
    )


def test_devices_are_near_if_kind_vectors_and_units_are_alike() -> None:
    distances = DeviceDistances(HASWELL, [HASWELL, SKYLAKE])
    assert distances.to(HASWELL.class_key) == 0.0
    assert 0 < distances.to(describe("broadwell/1").class_key) < distances.to(SKYLAKE.class_key)
    assert distances.to(describe("haswell/8").class_key) > distances.to("cpu:haswell/1:other") > 0
    assert distances.to("cuda:sm_90/132:0") == inf


def test_winners_of_the_nearest_relatives_come_first() -> None:
    banked = [
        (SKYLAKE.class_key, BankedConfig("matmul:64x64x64:f32", "nest", Config(n=1))),
        ("cpu:broadwell/1:x", BankedConfig("matmul:64x64x64:f32", "nest", Config(n=2))),
        ("cpu:broadwell/1:x", BankedConfig("matmul:64x64x64:f32", "packed", Config(n=3))),
        ("cuda:sm_90/132:x", BankedConfig("matmul:64x64x64:f32", "nest", Config(n=4))),
        (HASWELL.class_key, BankedConfig("matmul:64x64x64:f32", "nest", Config(n=5))),
        ("cpu:broadwell/1:x", BankedConfig("vanished:64:f32", "nest", Config(n=6))),
    ]
    found = relatives_winners(PROBLEM, "nest", HASWELL, banked, [HASWELL, SKYLAKE])
    assert [config["n"] for config in found] == [2, 1]


def test_a_new_class_of_devices_starts_from_the_winners_of_its_relatives() -> None:
    context = FakeContext(lambda solver, config: 100.0, device=HASWELL)
    for device, n in ((HASWELL, 1), (SKYLAKE, 2)):
        context.bank.put(entry(device, n))
    relatives = relatives_of(context, PROBLEM, "nest")
    assert [config["n"] for config in relatives] == [2]
    found = starting_points(PROBLEM, SPACE, "nest", [], relatives=relatives)
    assert [config["n"] for config in found] == [2]


def test_relatives_fill_up_what_the_device_has_not_found_itself() -> None:
    own = [
        BankedConfig(f"matmul:64x64x{size}:f32", "nest", Config(n=at, m=1))
        for at, size in enumerate((128, 256, 512, 1024))
    ]
    relatives = [Config(n=7, m=1), Config(n=9, m=1)]
    few = starting_points(PROBLEM, SPACE, "nest", own[:2], relatives=relatives)
    assert [config["n"] for config in few] == [0, 1, 7]
    many = starting_points(PROBLEM, SPACE, "nest", own, relatives=relatives)
    assert [config["n"] for config in many] == [0, 1, 2, 3]


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger.in_memory()
    for device in (HASWELL, SKYLAKE):
        found.add_device(device)
    return found


def record(
    ledger: Ledger, problem: str, device: Device, times: dict[int, float], version: int = 1
) -> Study:
    study = Study(parse(problem), "nest", device.class_key, "genetic", 0)
    ledger.start_study(study, version)
    trials = [
        Trial(Config(n=n, m=1), value=time)
        if time < inf
        else Trial(Config(n=n, m=1), Status.CRASH, reason="it crashed")
        for n, time in times.items()
    ]
    ledger.log_tells(study.id, trials)
    return study


def test_prior_trials_are_relative_to_the_best_of_their_study(ledger: Ledger) -> None:
    own = record(ledger, PROBLEM.key, HASWELL, {0: 1.0})
    record(ledger, PROBLEM.key, SKYLAKE, {1: 8.0, 2: 4.0, 3: inf})
    record(ledger, "matmul:64x64x128:f32", HASWELL, {4: 6.0, 5: 3.0})
    record(ledger, "matmul:64x64x256:f32", HASWELL, {6: 1.0}, version=2)
    record(ledger, "add:64:f32", HASWELL, {7: 1.0})
    found = prior_trials(ledger, PROBLEM, own, 1, SPACE, HASWELL, most=100)
    values = {trial.config["n"]: trial.value for trial in found}
    assert values == {1: 2.0, 2: 1.0, 3: None, 4: 2.0, 5: 1.0}
    assert next(iter(values)) == 4, "the nearest study comes first"
    assert len(prior_trials(ledger, PROBLEM, own, 1, SPACE, HASWELL, most=3)) == 3


def test_prior_trials_are_adapted_to_the_space(ledger: Ledger) -> None:
    own = replace(record(ledger, PROBLEM.key, HASWELL, {0: 1.0}), seed=7)
    record(ledger, "matmul:64x64x128:f32", HASWELL, {50: 1.0})
    found = prior_trials(ledger, PROBLEM, own, 1, SPACE, HASWELL, most=100)
    assert {trial.config["n"] for trial in found} == {0, 7}
