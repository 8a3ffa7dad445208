"""Configs that share a build must lower to one source: a study runs all of them with it."""

import numpy as np
import pytest

from skipjack.core import Config, Staged
from skipjack.devices import describe
from skipjack.operations import parse
from skipjack.solvers import building_solvers

SHAPES = (
    "n8c64h28w28k64y3x3p1q1:f16:NHWC",
    "n8c64h14w14k256y3x3p1q1:f16:NCHW",
    "n8c3h56w56k64y7x7p3q3u2v2:f16:NHWC",
    "n8c64h28w28k64y3x3p1q1g64:f16:NHWC",
    "n8c64h28w28k256y1x1:f16:NCHW",
    "n4c32h9w9k48y3x3p1q1u2v2g2:bf16:NHWC",
    "n2c16h7w7k24y3x3p1q1:f32:NCHW",
)


@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("shape", SHAPES)
def test_configs_of_one_build_part_have_one_source(shape: str, direction: str) -> None:
    problem, device = parse(f"conv2d:{shape}:{direction}"), describe("sm_90/132")
    offered = building_solvers(problem, device)
    assert offered
    for solver in offered:
        space, rng = solver.space(problem, device), np.random.default_rng(0)
        assert isinstance(space, Staged)
        sources: dict[str, tuple[str, Config]] = {}
        drawn = [space.sample(rng) for _ in range(3)]
        for config in [near for one in drawn for near in (one, *space.neighbours(one))]:
            part = space.build_part(config).key
            known = sources.get(part)
            if known and known[1] == config:
                continue
            digest = solver.lower(problem, device, config).digest
            first, other = sources.setdefault(part, (digest, config))
            assert first == digest, f"{solver.name}: {config} and {other} are built alike"
