"""Tuning for a CPU that has a part of this one's instructions: run here, kept under its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import skipjack
from skipjack.bank import Bank
from skipjack.core import Config, Device
from skipjack.devices import find_device
from skipjack.ledger import Ledger
from skipjack.native import cpu, llvm
from skipjack.settings import load_settings
from skipjack.tuning import Tuner, make_budget
from skipjack.tuning.study import TuneOptions

KEY = "matmul:24x40x17"
LATE = "2999-01-01T00:00:00.000000Z"


@pytest.fixture
def narrower() -> Device:
    """Of the lowest level, so that every machine has it."""
    return find_device("aarch64/1" if cpu.detect().level == "aarch64" else "x86-64/1")


def test_it_runs_here_and_is_kept_under_the_name(narrower: Device, user_dir: Path) -> None:
    result = skipjack.tune(KEY, budget=3, device=narrower.name, solver="nest")
    assert result.code is not None
    needs = llvm.needs_of(result.code.data)
    assert needs is not None and needs.level == narrower.level
    rng = np.random.default_rng(0)
    a, b = rng.random((24, 17), np.float32), rng.random((17, 40), np.float32)
    np.testing.assert_allclose(result.kernel()(a, b), a @ b, rtol=1e-5)
    with Ledger.open(user_dir) as ledger:
        assert ledger.devices() == [narrower]
        verdict = ledger.decisions()[-1]
    assert verdict.device == narrower.class_key
    evidence = verdict.record["evidence"]
    assert evidence["model"] == f"{cpu.detect().model}, as {narrower.arch}"
    assert evidence["vector_bytes"] == 16


@pytest.mark.long
def test_a_real_cpu_of_the_name_takes_it_for_a_hint_and_not_for_an_answer(
    user_dir: Path, narrower: Device
) -> None:
    real = replace(narrower, model="a real one")
    options = TuneOptions(budget=make_budget(2, None), solver="nest")
    with Tuner(load_settings(), narrower) as tuner:
        tuner.tune(KEY, options)
    hint = Config(schedule="k m n:4 n/v")
    with Ledger.open(user_dir) as ledger:
        made = ledger.decisions()[-1]
        sure = {"ratio": 9.0, "low": 8.9, "high": 9.1}
        evidence = {**made.record["evidence"], "baseline": {"name": "default", **sure}}
        record = {
            **made.record,
            **{"config": dict(hint), "solver": "nest", "created": LATE},
            **{"speedup": {"default": sure}, "evidence": evidence},
        }
        ledger.add_decision(
            replace(made, status="banked", solver="nest", config=hint, record=record, created=LATE)
        )
        Bank.open(user_dir).rebuild(ledger)
    bank = Bank.open(user_dir)
    assert bank.lookup(f"{KEY}:f32", narrower.class_key) is not None
    assert bank.lookup(f"{KEY}:f32", real.class_key) is None
    with Tuner(load_settings(), real) as tuner:
        tuner.tune(KEY, options)
        ledger = tuner.context.ledger
        (study,) = (one for one in ledger.studies() if one.device == real.class_key)
        assert hint in [trial.config for trial in ledger.trials(study.id)]
