"""``@skipjack.autotune`` in a second process, after the ledger was written by earlier code."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import earlier_ledgers
from skipjack.core import Device, Problem, Status, call_protocol
from skipjack.integrations.triton.results import (
    SOLVER,
    VERSION,
    AutotunePlace,
    AutotuneResults,
    KnownCall,
)
from skipjack.ledger import CandidateKey, Ledger, MeasurementRecord, MetricSamples
from skipjack.settings import load_settings

PROBLEM = Problem(
    "autotune",
    (),
    "",
    (("source", "00"), ("arguments", "11"), ("key", "1000"), ("triton", "3.6.0")),
    shape_text="add_one",
)
DEVICE = Device("cuda", "sm_90", 132)
PLACE = AutotunePlace(PROBLEM, DEVICE, call_protocol(), "graph")


def known_in(directory: Path, place: AutotunePlace, monkeypatch: pytest.MonkeyPatch) -> KnownCall:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(directory))
    return AutotuneResults(load_settings(), place).known("a study without a log")


def times_of(known: KnownCall) -> dict[str, float]:
    return {one.config.key: one.value for one in known.trials if one.value is not None}


@pytest.mark.parametrize("version", earlier_ledgers.FORMATS)
def test_what_is_known_is_what_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    assert PROBLEM.key == earlier_ledgers.AUTOTUNED
    earlier_ledgers.make(tmp_path, version, {earlier_ledgers.GPU: DEVICE.class_key})
    for protocol, times_ns, failures, marks in earlier_ledgers.answers()["known"]:
        known = known_in(tmp_path, replace(PLACE, earlier_protocol=protocol), monkeypatch)
        assert known.is_earlier
        assert times_of(known) == times_ns
        failed = [one for one in known.trials if one.status.failed]
        assert {one.config.key: [one.status, one.reason] for one in failed} == failures
        assert sorted(known.searched) == marks


@pytest.mark.parametrize("version", earlier_ledgers.FORMATS)
def test_a_kernel_is_not_timed_again(
    rig: Any, user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    pytest.importorskip("triton")
    from autotune_rig import config, tuned

    from skipjack.integrations.triton.configs import config_text
    from skipjack.integrations.triton.tuned_call import EARLIER_PROTOCOL

    rig.call(tuned([config(64), config(32)]))
    with closing(sqlite3.connect(user_dir / "ledger.sqlite")) as ledger:
        here = ledger.execute("SELECT problem, device_class FROM trials_view").fetchone()
    texts = {f'{{"BLOCK":{n}}}': config_text(config(n)) for n in (64, 128, 256)}
    place = dict(zip((earlier_ledgers.AUTOTUNED, earlier_ledgers.GPU), here, strict=True))
    place["'graph'"] = f"'{EARLIER_PROTOCOL}'"
    earlier_ledgers.make(tmp_path / "earlier", version, texts | place)
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "earlier"))
    rig.sampled()
    kernel = tuned([config(64), config(128), config(256)])
    assert rig.call(kernel).kwargs == {"BLOCK": 64}, "the fake GPU would prefer 128"
    assert rig.sampled() == set()
    assert list(kernel.failures.values()) == ["no power of 2"]
    added = tuned([config(64), config(128), config(256), config(512)])
    assert rig.call(added).kwargs == {"BLOCK": 512}
    assert rig.sampled() == {64, 512}, "what an earlier version knew of the others still counts"


def block(number: int) -> str:
    return f'{{"BLOCK":{number}}}'


def keep(
    ledger: Ledger, session: str, times: Mapping[str, float], failed: Iterable[str] = ()
) -> None:
    """As earlier versions kept a round of timings."""
    samples: dict[str, tuple[float, ...]] = {text: (ns,) for text, ns in times.items()}
    samples |= dict.fromkeys(failed, ())
    ledger.add_measurements(
        [
            MeasurementRecord(
                CandidateKey(PROBLEM.key, SOLVER, VERSION, text),
                None,
                DEVICE.instance_key,
                DEVICE.class_key,
                "graph",
                session,
                0,
                {"time_ns": MetricSamples("ns", taken)},
                status=Status.OK if taken else Status.BUILD_ERROR,
            )
            for text, taken in samples.items()
        ]
    )


def test_the_scale_of_times_does_not_depend_on_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = (datetime(2025, 1, 1, tzinfo=UTC) - timedelta(days=n) for n in itertools.count())
    a, b, c = map(block, (1, 2, 3))
    with Ledger.open(tmp_path, clock=lambda: next(moments)) as ledger:
        keep(ledger, "one", {a: 10.0})
        keep(ledger, "two", {a: 20.0, b: 40.0}, [c])
        keep(ledger, "three", {a: 5.0, c: 1.0})
    known = known_in(tmp_path, PLACE, monkeypatch)
    assert times_of(known) == pytest.approx({a: 10.0, b: 20.0, c: 2.0})
    assert not [one for one in known.trials if one.status.failed], "it was timed since"


def test_a_session_that_shares_no_config_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(tmp_path) as ledger:
        keep(ledger, "one", {block(1): 1.0})
        keep(ledger, "two", {block(2): 2.0})
    assert times_of(known_in(tmp_path, PLACE, monkeypatch)) == {block(1): 1.0, block(2): 2.0}
