"""The recorded grid is sound: searches are compared on it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from loadgen_example import EXAMPLE

GRID = EXAMPLE.parents[1] / "bench" / "results" / "sweep-grid-server.json"


@pytest.fixture(scope="module")
def grid() -> dict[str, Any]:
    """The file."""
    record: dict[str, Any] = json.loads(GRID.read_text())
    return record


def test_points_are_combinations_of_the_parameters_each_measured_once(
    grid: dict[str, Any],
) -> None:
    points = [entry["point"] for entry in grid["points"]]
    wanted = [
        dict(zip(grid["parameters"], values, strict=True))
        for values in itertools.product(*grid["parameters"].values())
    ]
    assert len(points) == len(wanted) and all(point in points for point in wanted)


def test_every_limit_is_between_loads_that_held_and_loads_that_did_not(
    grid: dict[str, Any],
) -> None:
    for entry in grid["points"]:
        held = {float(load): runs for load, runs in entry["held"].items()}
        assert set(held) <= set(grid["loads"])
        assert all(set(runs) <= {0, 1} for runs in held.values())
        assert any(1 in runs for runs in held.values()), entry["point"]
        assert 0 in held[max(held)], entry["point"]


def test_what_needs_a_build_is_a_parameter(grid: dict[str, Any]) -> None:
    assert set(grid["build_parameters"]) < set(grid["parameters"])
    builds = itertools.product(*(grid["parameters"][name] for name in grid["build_parameters"]))
    assert set(grid["build_seconds"]) == {"-".join(values) for values in builds}
