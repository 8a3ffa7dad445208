"""``@skipjack.autotune`` in a second process, after the ledger was written by earlier code."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import earlier_ledgers
from skipjack.core.trial import Status
from skipjack.integrations.autotune_results import AutotunePlace, AutotuneResults
from skipjack.integrations.outcomes import Outcome
from skipjack.ledger import Ledger

PLACE = AutotunePlace(
    earlier_ledgers.AUTOTUNED, earlier_ledgers.GPU, f"{earlier_ledgers.GPU}:0", "graph"
)


@pytest.mark.parametrize("version", earlier_ledgers.FORMATS)
def test_what_is_known_is_what_was_known(tmp_path: Path, version: int) -> None:
    earlier_ledgers.make(tmp_path, version)
    for protocol, times_ns, failures, marks in earlier_ledgers.answers()["known"]:
        known = AutotuneResults(tmp_path, replace(PLACE, protocol=protocol)).known()
        assert known.times_ns == times_ns
        assert {t: [one.status, one.reason] for t, one in known.failures.items()} == failures
        assert sorted(known.marks) == marks


@pytest.mark.parametrize("version", earlier_ledgers.FORMATS)
def test_a_kernel_is_not_timed_again(
    rig: Any, user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    pytest.importorskip("triton")
    from autotune_rig import config, tuned

    from skipjack.integrations.triton_configs import config_text

    rig.call(tuned([config(64)] * 2))
    with closing(sqlite3.connect(user_dir / "ledger.sqlite")) as ledger:
        here = ledger.execute("SELECT problem, device_class, protocol FROM trials_view").fetchone()
    texts = {f'{{"BLOCK":{n}}}': config_text(config(n)) for n in (64, 128, 256)}
    place = dict(
        zip((earlier_ledgers.AUTOTUNED, earlier_ledgers.GPU, "'graph'"), here, strict=True)
    )
    place["'graph'"] = "'" + place["'graph'"].replace("'", "''") + "'"
    earlier_ledgers.make(tmp_path / "earlier", version, texts | place)
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "earlier"))
    rig.sampled()
    kernel = tuned([config(64), config(128), config(256)])
    assert rig.call(kernel).kwargs == {"BLOCK": 64}, "the fake GPU would prefer 128"
    assert rig.sampled() == set()
    assert list(kernel.failures.values()) == ["no power of 2"]


def test_the_scale_of_times_does_not_depend_on_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = (datetime(2025, 1, 1, tzinfo=UTC) - timedelta(days=n) for n in itertools.count())
    opened = Ledger.open
    monkeypatch.setattr(Ledger, "open", lambda path: opened(path, clock=lambda: next(moments)))
    results = AutotuneResults(tmp_path, PLACE)
    a, b, c = (f'{{"BLOCK":{number}}}' for number in (1, 2, 3))
    results.keep({a: [10.0]}, {})
    results.keep({a: [20.0], b: [40.0]}, {c: Outcome(Status.BUILD_ERROR, "no")})
    results.keep({a: [5.0], c: [1.0]}, {})
    results.mark("searched")
    known = AutotuneResults(tmp_path, PLACE).known()
    assert known.times_ns == pytest.approx({a: 10.0, b: 20.0, c: 2.0})
    assert known.failures == {}, "it was timed since"
    assert known.marks == {"searched"}


def test_the_end_of_a_search_is_no_measurement(tmp_path: Path) -> None:
    AutotuneResults(tmp_path, PLACE).mark("searched")
    with Ledger.open(tmp_path) as ledger:
        assert ledger.measurements(PLACE.problem) == []
        assert ledger.summary().candidates == 0
        (mark,) = ledger.marks(PLACE.problem)
        assert (mark.kind, mark.scope, mark.protocol) == ("search_ended", "searched", "graph")
