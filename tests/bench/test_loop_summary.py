"""The bars of the policy's evaluation, from records as the contest leaves them."""

from __future__ import annotations

from typing import Any

import pytest

import loop_summary
from loop_contest import ANALYTIC, BEST, CONSTANT, GENETIC, POLICY, PROMISING
from loop_summary import estimate, summarize

BUDGETS = (1, 4)


def record(number: int, policy: float, rival: float, **finalists: float) -> dict[str, Any]:
    """An entry in which the policy needs `policy` seconds and every other search `rival`."""
    times = {POLICY: 1.0, PROMISING: 1.1, CONSTANT: 1.5, BEST: 0.98} | finalists
    times |= {f"looptune {POLICY}": 1.0, f"looptune {CONSTANT}": 1.3, "looptune beam": 0.99}
    times["looptune untuned"] = 3.0
    return {
        "name": f"entry {number}",
        "group": "products" if number % 2 else "vectors",
        "threads": 1,
        "vector_bytes": 32,
        "curves": {
            POLICY: [[policy, policy]] * 3,
            ANALYTIC: [[rival, rival]],
            GENETIC: [[rival, rival], [rival * 1.01, rival * 1.01], [rival, rival]],
        },
        "finalists": {name: [name] for name in times},
        "repeats": [{name: taken * noise for name, taken in times.items()} for noise in (1, 1.02)],
    }


def test_a_policy_that_is_good_everywhere_meets_every_bar() -> None:
    found = summarize([record(at, 1.0, 1.1) for at in range(8)], BUDGETS)
    assert found["a"]["met"]
    assert found["a"]["of the best"][POLICY]["mean"] == pytest.approx(0.98)
    assert found["a"]["over the constant sequence"]["low"] == pytest.approx(1.5)
    assert all(found["b"][str(budget)]["met"] for budget in BUDGETS)
    assert found["c"]["met"]
    assert found["c"]["over the untuned nest"]["mean"] == pytest.approx(3.0)
    assert [(one["group"], one["several_threads"]) for one in found["beaten"]] == [
        ("vectors", False),
        ("products", False),
    ]
    assert "(b) with 4 measurements, policy over:" in loop_summary.lines(found)


def test_one_bad_entry_misses_the_bar_and_is_named() -> None:
    records = [record(at, 1.0, 1.1) for at in range(8)]
    records[3] = record(3, 1.0, 1.1, best=0.7)
    found = summarize(records, BUDGETS)["a"]
    assert not found["met"]
    assert found["of the best"][POLICY]["least_at"] == "entry 3"


def test_a_slower_policy_is_not_used_by_auto() -> None:
    records = [record(at, 1.2 if at % 2 else 1.0, 1.1) for at in range(8)]
    found = summarize(records, BUDGETS)
    assert [one["group"] for one in found["beaten"]] == ["vectors"]
    assert not found["b"]["4"]["met"]
    assert found["b"]["4"]["not better than"] == [GENETIC]
    slower = summarize([record(at, 1.2, 1.1) for at in range(8)], BUDGETS)
    assert not slower["b"]["1"]["level with the analytic order"]


def test_what_cannot_run_counts_as_far_slower() -> None:
    records = [record(at, 1.0, 1.1) for at in range(4)]
    for repeat in records[0]["repeats"]:
        repeat[POLICY] = None
    records[1]["curves"][GENETIC] = [[None, None]]
    found = summarize(records, BUDGETS)
    assert found["a"]["of the best"][POLICY]["least"] == pytest.approx(0.05)
    assert found["b"]["1"]["over"][GENETIC]["mean"] > 2


def test_an_interval_holds_its_mean_and_widens_with_the_spread() -> None:
    import numpy as np

    names = [str(at) for at in range(6)]
    narrow = estimate(names, [np.full(3, 0.1)] * 6)
    assert narrow.low == narrow.mean == narrow.high
    wide = estimate(names, [np.array([at / 6]) for at in range(6)])
    assert wide.low < wide.mean < wide.high
