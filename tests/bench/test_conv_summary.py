"""What the benchmark says about convolutions, and how an interrupted run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import conv_summary
import conv_tables
from conv_summary import CHOICE, OURS
from journal import Journal


def case(
    direction: str, ours: float | None, choice: str, threads: int = 1, **others: Any
) -> dict[str, Any]:
    """A case whose ratios are known exactly; a library that is chosen is as fast as itself."""
    ratios = {} if ours is None else {OURS: ratio(ours)}
    ratios[CHOICE] = ratio(1.0) if choice == "onednn" or ours is None else ratio(ours)
    return {
        "case": f"1x1 8-8 @7 n1 {direction} NHWC",
        "network": "ResNet-50",
        "kind": "1x1",
        "layer": "1x1 8-8 @7",
        "batch": 1,
        "direction": direction,
        "layout": "NHWC",
        "threads": threads,
        "code": "aa",
        "ratios": ratios,
        "find": {
            "choice": choice,
            "ours": "" if ours is None else "direct",
            "builds_ms": [100.0, 200.0, 300.0],
        },
        **others,
    }


def ratio(value: float) -> dict[str, float]:
    """A ratio known exactly."""
    return {"ratio": value, "low": value, "high": value, "pairs": 9}


RECORDS = [
    case("fwd", 2.0, "direct"),
    case("bwd", 0.5, "onednn"),
    case("wrw", 0.8, "direct", threads=2),
    case("wrw", None, "onednn"),
]


def test_means_are_geometric_and_by_every_property() -> None:
    summary = conv_summary.summarize(RECORDS)
    assert summary["all"][OURS]["geomean"] == round(0.8 ** (1 / 3), 4)
    assert summary["all"][CHOICE]["geomean"] == round(1.6**0.25, 4)
    assert summary["by"]["direction"]["fwd"][OURS]["geomean"] == 2.0
    assert summary["by"]["threads"]["2 threads"][CHOICE]["geomean"] == 0.8
    assert summary["cells"]["1 thread, bwd, NHWC, batch 1"][OURS]["geomean"] == 0.5


def test_losses_wrong_choices_and_gaps_are_named() -> None:
    summary = conv_summary.summarize(RECORDS)
    assert [loss["ratio"] for loss in summary["losses"]] == [0.5, 0.8]
    assert [loss["case"] for loss in summary["wrong_choices"]] == ["1x1 8-8 @7 n1 wrw NHWC t2"]
    assert summary["without_kernel"] == ["1x1 8-8 @7 n1 wrw NHWC t1"]
    assert summary["solvers"] == {
        "first": {"direct": 2, "onednn": 2},
        "best_of_ours": {"direct": 3},
    }


def test_targets_are_reached_or_missed() -> None:
    lines = conv_summary.lines(conv_summary.summarize(RECORDS))
    assert any("target 1.1x for choice: reached with 1.125" in line for line in lines)
    assert any("target 0.9x for ours: reached with 0.928" in line for line in lines)
    assert any("150 ms for the median build: missed with 200 ms (12 builds" in x for x in lines)
    assert "ours is slower in 2 cases: 1x1 8-8 @7 n1 bwd NHWC t1 0.50, " in "\n".join(lines)
    worse = conv_summary.lines(conv_summary.summarize(RECORDS[1:]))
    assert any("target 0.9x for ours: missed with 0.632" in line for line in worse)


def test_a_run_of_nothing_but_the_library_has_a_summary() -> None:
    lines = conv_summary.lines(conv_summary.summarize(RECORDS[3:]))
    assert "target 0.9x for ours: nothing was measured" in lines
    assert "no kernel of ours in 1 cases" in lines


def test_tables_show_losses_beside_wins() -> None:
    head = {
        "date": "2026-01-01",
        "device": {"model": "M", "name": "m/1", "cores": 1, "core_used": "0"},
        "versions": {},
        "settings": {"threads": 1},
    }
    result = head | {"cases": RECORDS[:2], "summary": conv_summary.summarize(RECORDS[:2])}
    row = "| 1x1 8-8 @7 | 1 | - | - | - | 2.00 direct | (0.50 direct) | - |"
    assert row in conv_tables.conv_layers(result)
    overall = conv_tables.conv_overall([result])
    assert "slower than PyTorch in 1 of 2 cases: 1x1 8-8 @7 n1 bwd NHWC t1 (0.50, `direct`)." in (
        overall
    )
    assert "| fwd, NHWC, batch 1 | 2.000" in conv_tables.conv_summary_table(result)


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first = Journal(path, {"seconds": 1})
    first.add({"case": "a", "value": 1})
    first.add({"case": "b", "value": 2})
    with path.open("a") as file:
        file.write('{"case": "c", "va')  # killed here
    second = Journal(path, {"seconds": 1})
    assert sorted(second.records) == ["a", "b"]
    second.add({"case": "c", "value": 3})
    assert sorted(Journal(path, {"seconds": 1}).records) == ["a", "b", "c"]
    second.remove()
    assert not path.exists()


def test_a_run_under_other_circumstances_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Journal(path, {"seconds": 1}).add({"case": "a"})
    assert Journal(path, {"seconds": 1}, again=True).records == {}
    Journal(path, {"seconds": 1}).add({"case": "a"})
    assert Journal(path, {"seconds": 2}).records == {}
