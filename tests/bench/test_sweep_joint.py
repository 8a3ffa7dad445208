"""Recorded grids, and the search for their best setting."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sweep_joint
from sweep_grids import Curve, Grid, grid_of, made_up, read_grid


def grid(limits: dict[int, float]) -> Grid:
    """A grid of one parameter, with limits that are sharp."""
    points = [
        {
            "point": {"batch": batch},
            "held": {str(limit * 0.999): [1, 1], str(limit * 1.001): [0, 0]},
            "metrics": {},
        }
        for batch, limit in limits.items()
    ]
    return grid_of(
        "small",
        {"parameters": {"batch": list(limits)}, "build_parameters": ["batch"], "points": points},
    )


def test_a_curve_falls_even_if_its_record_does_not() -> None:
    curve = Curve({"100": [1, 1], "110": [0, 1], "120": [1, 1], "130": [0, 0], "140": [0, 0]})
    chances = [curve(load) for load in range(80, 170, 5)]
    assert chances == sorted(chances, reverse=True)
    assert curve(120) == pytest.approx(0.75)
    assert 120 < curve.limit < 130


def test_a_grid_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "sweep-grid-x.json"
    path.write_text(json.dumps(made_up(1)))
    read = read_grid(path)
    assert read.name == "sweep-grid-x"
    assert len(read.curves) == 48
    assert read.build_parameters == ("precision",)
    lower, upper = read.range()
    assert all(lower < curve.limit < upper for curve in read.curves.values())


def test_a_grid_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grid.json"
    path.write_text(json.dumps({"format": 2}))
    with pytest.raises(SystemExit, match="has format 2"):
        read_grid(path)


def test_all_methods_find_the_best_with_all_runs() -> None:
    small = grid({1: 300.0, 2: 500.0, 4: 400.0, 8: 200.0})
    for name, method in sweep_joint.METHODS.items():
        best = method(sweep_joint.Runs(small, np.random.default_rng(0), 40))
        assert best is not None, name
        assert best.setting == {"batch": 2}, name
        assert best.load == pytest.approx(500, rel=0.06), name


def test_runs_and_builds_are_counted_and_bounded() -> None:
    runs = sweep_joint.Runs(grid({1: 300.0, 2: 500.0}), np.random.default_rng(0), 2)
    assert runs.holds({"batch": 1, "target_qps": 200})
    assert not runs.holds({"batch": 1, "target_qps": 400})
    with pytest.raises(sweep_joint.Spent):
        runs.holds({"batch": 2, "target_qps": 400})
    assert (runs.count, len(runs.builds)) == (2, 1)


def test_a_quarter_of_the_runs_is_enough_for_the_joint_search() -> None:
    records = []
    for number in range(200, 206):
        made = grid_of(f"made-up {number}", made_up(number))
        records += sweep_joint.compare(made, seeds=1)
        most = sweep_joint.full_runs(made) * sweep_joint.SHARE
        assert all(record["runs"] <= most for record in records)
    said = sweep_joint.summary(records)
    assert said["joint"]["geomean_ratio"] > 0.97
    assert said["joint"]["geomean_ratio"] > said["at_random"]["geomean_ratio"]
    assert said["joint"]["mean_runs"] < said["at_random"]["mean_runs"]
